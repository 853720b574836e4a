package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/faults"
	"github.com/transplant-dev/transplant/lab/hosts"
	"github.com/transplant-dev/transplant/lab/trial"
)

var (
	real   = flag.Bool("hosts.real", false, "migrate a kubeadm cluster of real hosts (make e2e-hosts)")
	name   = flag.String("hosts.name", "e2e", "name of the cluster; one that runs is taken as it is")
	subnet = flag.String("hosts.subnet", "10.79.0.0/24", "its network")
	planes = flag.Int("hosts.control-planes", 3, "control-plane hosts of a cluster that is made")
	nodes  = flag.Int("hosts.workers", 1, "its workers")
	keep   = flag.Bool("hosts.keep", false, "leave the cluster up")
	second = flag.String("hosts.second-subnet", "10.84.0.0/24", "network of the second cluster")
	owners = flag.Int("hosts.owner-steps", 3, "how often the step that moves the loops is measured, with the one of the whole cycle")
	out    = flag.String("hosts.out", "", "write reports into this directory, by cluster")
	only   = flag.String("hosts.until", "", "stop the migration behind this phase")
)

// mostGap is how long nobody may run a loop that moves, in seconds: what an operator of a busy cluster does not notice.
const mostGap = 2

// leaseDuration is the managers' --leader-elect-lease-duration, in seconds; nodeIPAMSleep is for how long 1.26 sleeps before it first lists nodes for node
// IPAM.
const leaseDuration, nodeIPAMSleep = 15, 10

// A real kubeadm cluster goes out of tree and back, through the Kubernetes API alone.
func TestRealHostsGoOutOfTreeAndBack(t *testing.T) {
	s := ownStage(t, theHosts())
	ctx := t.Context()
	before, cloud := settledFacts(t, s)
	must(t, s, append([]string{"check", "--cloud", Cloud}, s.MigrationFlags()...)...)
	judged(t, s, false, func() { must(t, s, s.apply()...) })
	must(t, s, "verify", "--cloud", Cloud)
	runsExternal(t, s)
	if err := s.Check(ctx, cloud); err != nil {
		t.Error(err)
	}
	r := s.report(t)
	if r.Result != v1.ResultOK {
		t.Errorf("the report says %s: %v", r.Result, r.Reasons)
	}
	t.Logf("migration of %d steps in %.0f s", len(r.Steps), r.DurationSeconds)
	judged(t, s, true, func() { must(t, s, "rollback", "--yes", "--cloud", Cloud) })
	tellTimes(t, s)
	must(t, s, "verify", "--cloud", Cloud)
	runsInTree(t, s)
	asBefore(t, s, before)
}

// tellTimes logs how long each phase of a migration and of its rollback took: nearly all of it is kubelets that wait before they start a pod again.
func tellTimes(t *testing.T, s *Stage) {
	t.Helper()
	j, err := journal.Open(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	doc := j.Doc()
	plans := []*v1.Plan{&doc.Plan}
	if doc.Rollback != nil {
		plans = append(plans, doc.Rollback)
	}
	for _, p := range plans {
		var names []string
		counts, spent := map[string]int{}, map[string]time.Duration{}
		for _, step := range p.Steps {
			if counts[step.Phase]++; counts[step.Phase] == 1 {
				names = append(names, step.Phase)
			}
			if r := j.Record(step.ID); r.Ended != nil {
				spent[step.Phase] += r.Ended.Sub(r.Started)
			}
		}
		for _, n := range names {
			t.Logf("phase %-26s %3d steps %7s", n, counts[n], spent[n].Round(time.Second))
		}
	}
}

// The step that moves the loops, again and again, on a cluster of its own.
func TestRealHostsMoveTheLoopsInNoTime(t *testing.T) {
	s := secondStage(t)
	before, _ := settledFacts(t, s)
	for i := range *owners - 1 {
		shape := []string{v1.ShapeDaemonSet, v1.ShapeStaticPod}[i%2] // the whole cycle has had static pods
		judged(t, s, false, func() { must(t, s, append(s.apply(), "--shape", shape, "--until", planstep.PhaseHandover)...) })
		if shape == v1.ShapeDaemonSet {
			flags(t, s, cluster.CloudControllerManager, s.controlPlanes(), []string{"--cloud-provider=aws", "--enable-leader-migration=true"}, nil)
		}
		judged(t, s, true, func() { must(t, s, "rollback", "--yes", "--cloud", Cloud) })
		t.Logf("handover %d there and back, shape %s", i+2, shape)
		tellTimes(t, s)
	}
	asBefore(t, s, before)
}

// made are the clusters of this package's tests, by name; those that tests share are taken down when the last one has ended.
var made struct {
	mu     sync.Mutex
	stages map[string]func() (*Stage, error)
}

// theStage is the cluster that most tests have.
func theStage(t *testing.T) *Stage {
	t.Helper()
	return stageOf(t, theHosts())
}

func theHosts() hosts.Options {
	return hosts.Options{Name: *name, Subnet: *subnet, ControlPlanes: *planes, Workers: *nodes}
}

// secondStage is a cluster of two control planes, which are enough to hand loops over. It does not run next to another cluster. On two processors ten hosts
// starve their managers, and the gaps that are measured would be those of the machine.
func secondStage(t *testing.T) *Stage {
	t.Helper()
	return ownStage(t, hosts.Options{Name: *name + "b", Subnet: *second, ControlPlanes: min(*planes, 2), Workers: *nodes})
}

// ownStage is a cluster that one test has. It is taken down with the test: the next ones need the processors.
func ownStage(t *testing.T, o hosts.Options) *Stage {
	t.Helper()
	t.Cleanup(func() {
		made.mu.Lock()
		_, up := made.stages[o.Name]
		delete(made.stages, o.Name)
		made.mu.Unlock()
		if !up {
			return // it was never made
		}
		if err := down(o.Name); err != nil {
			t.Errorf("taking the hosts down: %v", err)
		}
	})
	return stageOf(t, o)
}

func stageOf(t *testing.T, o hosts.Options) *Stage {
	t.Helper()
	if !*real {
		t.Skip("minutes on real hosts: make e2e-hosts")
	}
	made.mu.Lock()
	if made.stages == nil {
		made.stages = map[string]func() (*Stage, error){}
	}
	get := made.stages[o.Name]
	if get == nil {
		get = sync.OnceValues(func() (*Stage, error) { return open(o) })
		made.stages[o.Name] = get
	}
	made.mu.Unlock()
	s, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(o hosts.Options) (*Stage, error) {
	ctx := context.Background()
	o.Progress = told(o.Name)
	if *goWrong {
		o.Tags = []string{"faults"}
	}
	if *versions != "" {
		o.Versions = strings.Split(*versions, ",")
	}
	c, err := hosts.Open(o)
	if err == nil && c.Hosts()[0].Running() {
		err = c.Load(ctx)
	} else {
		c, err = hosts.Up(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Dir, "stage")
	if *out != "" {
		dir = filepath.Join(*out, o.Name)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	s, err := Open(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	return s, c.Workload(ctx)
}

// told is standard error with a cluster's name and the time in front of each line.
func told(name string) io.Writer { return &lines{name: name} }

type lines struct {
	name string
	mu   sync.Mutex
	part []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, p...)
	for {
		line, rest, found := bytes.Cut(l.part, []byte("\n"))
		if !found {
			return len(p), nil
		}
		fmt.Fprintf(os.Stderr, "%s %s %s\n", time.Now().Format(time.TimeOnly), l.name, line)
		l.part = rest
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for name := range made.stages {
		if err := down(name); err != nil {
			fmt.Fprintln(os.Stderr, "taking the hosts down:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// down removes a cluster, or what is left of it where it did not come up.
func down(name string) error {
	if *keep {
		return nil
	}
	c, err := hosts.New(hosts.Options{Name: name})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return c.Down(ctx)
}

// apply are the arguments of a migration.
func (s *Stage) apply() []string {
	args := append([]string{"apply", "--yes", "--probe", "--cloud", Cloud}, s.MigrationFlags()...)
	if *only != "" {
		args = append(args, "--until", *only)
	}
	return args
}

// settledFacts are the facts once they no longer change: a young cluster still fills in what every cluster has.
func settledFacts(t *testing.T, s *Stage) (facts []string, cloud string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		first := gather(t, s)
		select {
		case <-time.After(3 * time.Second):
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
		facts = gather(t, s)
		diff := faults.Different(first, facts)
		if diff == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cluster does not come to rest:\n%s", diff)
		}
	}
	cloud, err := s.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return facts, cloud
}

func gather(t *testing.T, s *Stage) []string {
	t.Helper()
	f, err := s.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// asBefore fails the test if anything is other than before, save the facts that may be.
func asBefore(t *testing.T, s *Stage, before []string, save ...func(fact string) bool) {
	t.Helper()
	saved := func(fact string) bool {
		return slices.ContainsFunc(save, func(may func(string) bool) bool { return may(fact) })
	}
	if diff := faults.Different(slices.DeleteFunc(slices.Clone(before), saved), slices.DeleteFunc(gather(t, s), saved)); diff != "" {
		t.Errorf("the cluster is not as it was before (- is missing, + is there instead):\n%s", diff)
	}
}

// must runs a command that has to end well, and tells what it says.
func must(t *testing.T, s *Stage, args ...string) trial.Result {
	t.Helper()
	begin := time.Now()
	r, err := s.Run(t.Context(), told(s.Cluster.Name), args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 0 {
		t.Fatalf("transplant %s ended with exit code %d\n%s\n%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	t.Logf("%s took %s", args[0], time.Since(begin).Round(time.Second))
	return r
}

// judged runs f under the stage's own recorder, and fails the test on two owners and on a gap that is too long.
func judged(t *testing.T, s *Stage, back bool, f func()) {
	t.Helper()
	w, still := s.Watch(t.Context()), WatchStandstills(t.Context())
	f()
	still.Stop()
	j, err := w.Judge()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range j.Overlaps {
		t.Errorf("two owners of %s: %s and %s, %s to %s, by %s %v", o.Loop, o.Old, o.New, o.Start, o.End, o.Evidence, o.Calls)
	}
	for _, g := range j.Gaps {
		t.Logf("gap of %-20s %6.2fs  %s -> %s (%s)", g.Loop, g.Seconds, g.From, g.To, g.Cause)
		seconds := g.Seconds
		if stood := still.During(g); stood > 0 {
			seconds -= stood.Seconds()
			t.Logf("for %s of this gap the whole machine stood still", stood)
		}
		if most := limit(g, back); seconds > most {
			t.Errorf("no manager ran %s for %.2f s, more than %.0f", g.Loop, seconds, most)
		}
	}
}

// limit is for how long nobody may run a loop at a change of its owner, in seconds. Node IPAM stays where it is and begins with a sleep at each start, so that
// a lease that expires shows in it as 25 s. On the way back the last change is between two kube-controller-managers with their own settings again: 1.26 asks
// for its lease every 2 s, and starts one loop after the other, so that any of them may stand behind that sleep.
func limit(g v1.Gap, back bool) float64 {
	between := strings.HasPrefix(g.From, cluster.ControllerManager) && strings.HasPrefix(g.To, cluster.ControllerManager)
	if g.Loop == "nodeipam" || back && between {
		return leaseDuration + nodeIPAMSleep
	}
	return mostGap
}

// runsExternal fails the test unless every component's process has the flags of a cluster that is out of tree.
func runsExternal(t *testing.T, s *Stage) {
	t.Helper()
	flags(t, s, cluster.ControllerManager, s.controlPlanes(), []string{"--cloud-provider=external"}, []string{"--cloud-config=", "--enable-leader-migration=true"})
	flags(t, s, cluster.CloudControllerManager, s.controlPlanes(), []string{"--cloud-provider=aws"}, []string{"--enable-leader-migration=true"})
	flags(t, s, cluster.APIServer, s.controlPlanes(), nil, []string{"--cloud-provider=aws"})
	flags(t, s, "kubelet", s.Cluster.Hosts(), []string{"--cloud-provider=external"}, []string{"--cloud-config="})
}

// runsInTree is the opposite.
func runsInTree(t *testing.T, s *Stage) {
	t.Helper()
	flags(t, s, cluster.ControllerManager, s.controlPlanes(), []string{"--cloud-provider=aws"}, []string{"--enable-leader-migration"})
	flags(t, s, cluster.APIServer, s.controlPlanes(), []string{"--cloud-provider=aws"}, nil)
	flags(t, s, "kubelet", s.Cluster.Hosts(), []string{"--cloud-provider=aws"}, nil)
	for _, h := range s.controlPlanes() {
		if found, err := h.Processes(t.Context(), cluster.CloudControllerManager); err != nil || len(found) > 0 {
			t.Errorf("host %s still runs %v (%v)", h.Name, found, err)
		}
	}
}

func flags(t *testing.T, s *Stage, component string, on []*hosts.Host, has, hasNot []string) {
	t.Helper()
	found, err := s.Arguments(t.Context(), component, on...)
	if err != nil {
		t.Error(err)
	}
	for host, args := range found {
		for _, want := range has {
			if !slices.Contains(args, want) {
				t.Errorf("%s on %s runs without %s: %q", component, host, want, args)
			}
		}
		for _, not := range hasNot {
			if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, not) }) {
				t.Errorf("%s on %s still runs with %s: %q", component, host, not, args)
			}
		}
	}
}

// report is what the product says of the migration, with the cloud's audit log as evidence; all formats are written where somebody wants to look at them.
func (s *Stage) report(t *testing.T) v1.Report {
	t.Helper()
	evidence := []string{"--cloud", Cloud, "--cloud-audit", s.AuditFile(), "--cloud-keys", s.KeysFile()}
	for format, file := range map[string]string{"json": "report.json", "html": "report.html", "markdown": "report.md"} {
		must(t, s, append([]string{"report", "-o", format, "--out", filepath.Join(s.dir, file)}, evidence...)...)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r v1.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}
