package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// ownLab is a lab of a test's own, with workers for its load balancers.
func ownLab(t *testing.T, o Options) *Trial {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a lab; run without -short")
	}
	p, err := kubelet.ProfileByName(*profile)
	if err != nil {
		t.Fatal(err)
	}
	o.Profile, o.Progress = p, os.Stderr
	o.Dir = t.TempDir()
	if *dir != "" {
		o.Dir = fmt.Sprintf("%s-%s", *dir, t.Name())
	}
	lab, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logRestarts(t, lab)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := lab.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if o.Kind == nil && !isMute(o) {
		settled(t, lab)
	}
	return lab
}

// logRestarts logs what each container that was started again said last before: a status of CrashLoopBackOff does not say why.
func logRestarts(t *testing.T, lab *Trial) {
	t.Helper()
	for _, h := range lab.Hosts() {
		dirs, _ := filepath.Glob(h.Path("/var/log/pods/*/*")) // the pattern is well-formed
		for _, dir := range dirs {
			logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
			if len(logs) < 2 {
				continue
			}
			file := filepath.Join(dir, fmt.Sprintf("%d.log", len(logs)-2))
			text, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			t.Logf("the end of %s on %s:\n%s", file, h.Name, text[max(0, len(text)-1000):])
		}
	}
}

// TestAControlPlaneOfUnitsIsMigrated has real components as systemd units: kube-controller-managers with the in-tree provider, which systemctl stops and
// starts. The short version has one host, which nobody could take the loops over from.
func TestAControlPlaneOfUnitsIsMigrated(t *testing.T) {
	t.Parallel()
	o, strategies := Options{ControlPlanes: 1, Workers: 1, Shape: cluster.Units}, []string{planstep.Downtime}
	if *whole {
		o.ControlPlanes, strategies = 2, []string{planstep.LeaderMigration, planstep.Downtime}
	}
	lab := ownLab(t, o)
	for _, strategy := range strategies {
		t.Run(strategy, func(t *testing.T) { thereAndBack(t, lab, strategy) })
	}
}

// TestAControlPlaneOfDeploymentsIsMigrated has real components as Deployments of the cluster that they make up, API servers and schedulers too. Its managers
// are Deployments before and after; leader migration is refused, because nothing on a host would prove the end of a pod.
func TestAControlPlaneOfDeploymentsIsMigrated(t *testing.T) {
	t.Parallel()
	if err := kubelet.CanNameHosts(); err != nil {
		t.Skip(err)
	}
	lab := ownLab(t, Options{ControlPlanes: 2, Workers: 1, Shape: cluster.Deployments})
	r := cli(t, lab, 3, nil, append([]string{"plan", "--cloud", Cloud, "--strategy", planstep.LeaderMigration}, MigrationFlags()...)...)
	if !strings.Contains(r.Stderr, "use --strategy downtime") {
		t.Errorf("leader migration is refused with %s", r.Stderr)
	}
	narrations := thereAndBack(t, lab, planstep.Downtime)
	for i, way := range []string{"there", "back"} {
		// Else the next pod would have waited until the lease had run out.
		if !strings.Contains(narrations[i], "released lease "+cluster.ControllerManager) {
			t.Errorf("%s: no lease of an ended pod was released:\n%s", way, narrations[i])
		}
	}
}

// TestStaticPodsAreMigratedThereAndBack has the control plane that most clusters have, by both strategies.
func TestStaticPodsAreMigratedThereAndBack(t *testing.T) {
	long(t)
	lab := ownLab(t, Options{ControlPlanes: 3, Workers: 1})
	for _, strategy := range []string{planstep.LeaderMigration, planstep.Downtime} {
		t.Run(strategy, func(t *testing.T) { thereAndBack(t, lab, strategy) })
	}
}

// TestManagersOfADaemonSetComeThereAndBack has the cloud-controller-manager as a DaemonSet, in place of static pods. A DaemonSet comes to each Node with the
// label, so that an operator names them where API servers announce no addresses.
func TestManagersOfADaemonSetComeThereAndBack(t *testing.T) {
	long(t)
	for provider, of := range clouds {
		t.Run(provider, func(t *testing.T) {
			trial := of()
			trial.RunPods, trial.shape = true, thenADaemonSet
			more := trial.more
			trial.more = func(t *testing.T, lab *Trial) (flags, verify []string) {
				t.Helper()
				if more != nil {
					flags, verify = more(t, lab)
				}
				lab.namesNodes = true
				return append(flags, "--shape", "daemonset"), verify
			}
			migratedAndBack(t, trial)
		})
	}
}

// thereAndBack checks the lab, migrates it and takes that back, and fails the test when two owners met, the cloud changed, or something was left behind.
// It returns what was told there and back.
func thereAndBack(t *testing.T, lab *Trial, strategy string) (narrations []string) {
	t.Helper()
	flags := append(MigrationFlags(), "--strategy", strategy)
	verify := func() {
		t.Helper()
		cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	}
	moving := []string{"service", "route", "cloud-node-lifecycle"}
	var s shown
	defer runOf(lab, strategy).keep(t, moving, &s)
	before, nodes := facts(t, lab), identities(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	cli(t, lab, 0, nil, append([]string{"check", "--cloud", Cloud}, flags...)...)
	began := time.Now()
	out := watched(t, lab, func() {
		there := cli(t, lab, 0, nil, append([]string{"apply", "--yes", "--cloud", Cloud}, flags...)...)
		narrations = append(narrations, there.Stderr)
	})
	s.noteThere(out)
	s.recreated = recreated(t, lab, nodes, cloud)
	adoptedGently(t, lab, began)
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	newOperator(t, lab).awaitOwners(t, external(moving...))
	verify()
	r := readReport(t, lab)
	if r.Result != "ok" {
		t.Errorf("result %s %v", r.Result, r.Reasons)
	}
	if lbs := r.Inventory.LoadBalancers; lbs.Before != 4 || lbs.After != 4 || lbs.Recreated != 0 || lbs.AddressChanged != 0 {
		t.Errorf("load balancers: %+v", lbs)
	}
	if n := r.Handover.OverlappingWrites; n == nil || *n != 0 {
		t.Errorf("overlapping writes: %v", n)
	}
	if again := cli(t, lab, 0, nil, append([]string{"apply", "--yes", "--cloud", Cloud}, flags...)...); again.Stdout != "" {
		t.Errorf("a second apply printed %q", again.Stdout)
	}

	back := watched(t, lab, func() {
		narrations = append(narrations, cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud).Stderr)
	})
	s.noteBack(back)
	s.recreated = max(s.recreated, recreated(t, lab, nodes, cloud))
	verify()
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	settled(t, lab)
	unchanged(t, lab, before)
	s.isWhole = true
	return narrations
}
