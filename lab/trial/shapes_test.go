package trial

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/plan"
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := lab.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	settled(t, lab)
	return lab
}

// TestAControlPlaneOfUnitsIsMigrated has real components as systemd units: kube-controller-managers with the in-tree provider, which systemctl stops and starts.
// The short version has one host, which nobody could take the loops over from.
func TestAControlPlaneOfUnitsIsMigrated(t *testing.T) {
	o, strategies := Options{ControlPlanes: 1, Workers: 1, Shape: cluster.Units}, []string{plan.Downtime}
	if *whole {
		o.ControlPlanes, strategies = 2, []string{plan.LeaderMigration, plan.Downtime}
	}
	lab := ownLab(t, o)
	for _, strategy := range strategies {
		t.Run(strategy, func(t *testing.T) { thereAndBack(t, lab, append(MigrationFlags(), "--strategy", strategy)) })
	}
}

// thereAndBack checks the lab, migrates it and takes that back, and fails the test when two owners met, the cloud changed, or something was left behind.
func thereAndBack(t *testing.T, lab *Trial, flags []string) {
	t.Helper()
	before := facts(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	cli(t, lab, 0, nil, append([]string{"check", "--cloud", Cloud}, flags...)...)
	began := time.Now()
	watched(t, lab, func() { cli(t, lab, 0, nil, append([]string{"apply", "--yes", "--cloud", Cloud}, flags...)...) })
	adoptedGently(t, lab, began)
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	owners := map[string][]string{}
	for _, loop := range []string{"service", "route", "cloud-node-lifecycle"} {
		owners[loop] = []string{cluster.CloudControllerManager}
	}
	newOperator(t, lab).awaitOwners(t, owners)
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	r := readReport(t, lab)
	if lbs := r.Inventory.LoadBalancers; r.Result != "ok" || lbs.Before != 4 || lbs.After != 4 || lbs.Recreated != 0 || lbs.AddressChanged != 0 {
		t.Errorf("result %s %v, load balancers %+v", r.Result, r.Reasons, lbs)
	}
	if n := r.Handover.OverlappingWrites; n == nil || *n != 0 {
		t.Errorf("overlapping writes: %v", n)
	}
	if again := cli(t, lab, 0, nil, append([]string{"apply", "--yes", "--cloud", Cloud}, flags...)...); again.Stdout != "" {
		t.Errorf("a second apply printed %q", again.Stdout)
	}

	watched(t, lab, func() { cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud) })
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	settled(t, lab)
	unchanged(t, lab, before)
}
