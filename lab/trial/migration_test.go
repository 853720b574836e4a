package trial

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// The whole way there and back, and what the report says of it, in the hands of an operator who may do what the roles of deploy/rbac allow. The audit logs
// of the API servers have every request.
func TestAMigrationMovesTheLoopsAndARollbackBringsThemBack(t *testing.T) {
	lab := withRoles(t, theLab(t))
	before := facts(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	cli(t, lab, 0, nil, append([]string{"check", "--cloud", Cloud}, MigrationFlags()...)...)
	began := time.Now()
	judgement := watched(t, lab, func() { cli(t, lab, 0, nil, apply()...) })
	adoptedGently(t, lab, began)
	assisted(t, lab, judgement)
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	checkReport(t, lab, readReport(t, lab))
	if again := cli(t, lab, 0, nil, apply()...); again.Stdout != "" {
		t.Errorf("a second apply printed %q", again.Stdout)
	}
	cli(t, lab, 0, nil, "status")
	cli(t, lab, 0, nil, "timeline")
	lifeOfTheManager(t, lab)
	granted := grantedTo(t, lab, layout.CCMAccount)

	watched(t, lab, func() { cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud) })
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	unchanged(t, lab, before)
	leastPrivilege(t, lab, granted)
}

func readReport(t *testing.T, lab *Trial) v1.Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	cli(t, lab, 0, nil, "report", "-o", "json", "--out", file, "--cloud", Cloud, "--cloud-audit", lab.AuditFile(), "--cloud-keys", lab.KeysFile())
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r v1.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// adoption are the requests that change something and that our manager may make when it takes over what the in-tree manager has made. Each of them
// sets what is set already: that nothing has changed is what Check looks at.
var adoption = []string{
	"AddTags",                      // those of the annotation for additional tags
	"CreateLoadBalancerPolicy",     // refused, and taken for done, when there is one by the name
	"ModifyLoadBalancerAttributes", // those that are set
}

// adoptedGently fails the test if a cloud-controller-manager made any other changing request since a moment.
func adoptedGently(t *testing.T, lab *Trial, since time.Time) {
	t.Helper()
	var keys []string
	for _, h := range lab.Hosts() {
		if h.ControlPlane {
			keys = append(keys, cluster.AccessKey(h.Name, cluster.CloudControllerManager))
		}
	}
	made := map[string]int{}
	for _, call := range lab.AWS().Audit().Calls(awssim.Filter{Keys: keys, Mutating: ptr.To(true), Since: since}) {
		made[call.Action]++
		if !slices.Contains(adoption, call.Action) {
			t.Errorf("the adoption made %s %s as %s, with %v", call.Service, call.Action, call.Key, call.Params)
		}
	}
	t.Logf("changing requests of the adoption: %v", made)
}

func checkReport(t *testing.T, lab *Trial, r v1.Report) {
	t.Helper()
	if r.Result != "ok" {
		t.Errorf("result %q: %v", r.Result, r.Reasons)
	}
	if r.Handover.OverlappingWrites == nil || *r.Handover.OverlappingWrites != 0 {
		t.Errorf("overlapping writes: %v", r.Handover.OverlappingWrites)
	}
	if lbs := r.Inventory.LoadBalancers; lbs.Before != 4 || lbs.After != 4 || lbs.Recreated != 0 || lbs.AddressChanged != 0 {
		t.Errorf("load balancers: %+v", lbs)
	}
	if routes := r.Inventory.Routes; routes.Before != 5 || routes.After != 5 {
		t.Errorf("routes: %+v", routes)
	}
	if nodes := r.Inventory.Nodes; nodes.Before != 5 || nodes.After != 5 || nodes.ChangedProviderID != 0 || nodes.Recreated != 0 {
		t.Errorf("nodes: %+v", nodes)
	}
	// The three planned changes of owner: leader migration on, the handover, leader migration off.
	for _, loop := range []string{"service", "route", "cloud-node-lifecycle"} {
		if n := len(slices.DeleteFunc(slices.Clone(r.Gaps), func(g v1.Gap) bool { return g.Loop != loop })); n != 3 {
			t.Errorf("%d gaps of %s, want 3: %+v; %s", n, loop, r.Gaps, lost(t, lab))
		}
	}
	for _, g := range r.Gaps {
		if g.Seconds > r.Handover.GapSeconds {
			t.Errorf("gap %+v is larger than the largest, %v", g, r.Handover.GapSeconds)
		}
		if !g.Certain {
			t.Errorf("gap %+v is not certain", g)
		}
	}
	if len(r.Steps) == 0 || slices.ContainsFunc(r.Steps, func(s v1.StepReport) bool { return s.Result != "done" && s.Result != "already-done" }) {
		t.Errorf("steps: %+v", r.Steps)
	}
}

// A rollback from the end of each phase that restarts something, each in turn on the same cluster. The middle of the handover is
// TestAnUpgradeIsRolledBackFromItsMiddle's, and the end TestAMigrationMovesTheLoopsAndARollbackBringsThemBack's.
func TestARollbackFromEveryPhaseLeavesNothingBehind(t *testing.T) {
	long(t)
	lab := theLab(t)
	before := facts(t, lab)
	for _, phase := range []string{planstep.PhaseMigration, planstep.PhaseHandover, planstep.PhaseKubelets} {
		t.Run(phase, func(t *testing.T) {
			last := lastStep(t, lab, phase)
			watched(t, lab, func() {
				if phase == planstep.PhaseMigration {
					interrupted(t, lab, last.Title)
				} else {
					cli(t, lab, -1, []string{"TRANSPLANT_TEST_KILL=after:" + last.ID}, apply()...)
				}
				cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
			})
			unchanged(t, lab, before)
		})
	}
}

// steps are those of a plan made now.
func steps(t *testing.T, lab *Trial, more ...string) []v1.Step {
	t.Helper()
	r := cli(t, lab, 0, nil, append(append([]string{"plan", "--cloud", Cloud, "-o", "json"}, MigrationFlags()...), more...)...)
	var p v1.Plan
	if err := json.Unmarshal([]byte(r.Stdout), &p); err != nil {
		t.Fatal(err)
	}
	return p.Steps
}

func lastStep(t *testing.T, lab *Trial, phase string) v1.Step {
	t.Helper()
	var last v1.Step
	for _, s := range steps(t, lab) {
		if s.Phase == phase {
			last = s
		}
	}
	if last.ID == "" {
		t.Fatalf("no step of phase %s", phase)
	}
	return last
}

// interrupted presses Ctrl-C while apply is at a step: the step is finished, and how to go on is said.
func interrupted(t *testing.T, lab *Trial, title string) {
	t.Helper()
	ctx, press := context.WithCancel(t.Context())
	defer press()
	begun := "] " + title + "\n" // with its number before it; the plan, which is printed first, has the title alone
	r, err := lab.CLI(ctx, &whenSaid{text: begun, do: press}, nil, apply()...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 130 || !strings.Contains(r.Stderr, "transplant apply") || !strings.Contains(r.Stderr, "transplant rollback") {
		t.Fatalf("after Ctrl-C: exit code %d\n%s", r.Code, tail(r.Stderr, 10))
	}
	if n := strings.Count(r.Stderr, begun); n != 1 {
		t.Errorf("the step was begun %d times", n)
	}
}

// whenSaid does something once a text has been written.
type whenSaid struct {
	text string
	do   func()
	said strings.Builder
}

func (w *whenSaid) Write(p []byte) (int, error) {
	w.said.Write(p)
	if strings.Contains(w.said.String(), w.text) {
		w.do()
	}
	return len(p), nil
}
