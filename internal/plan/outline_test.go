package plan

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/outline"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// outlined are plans of every kind, and the ways back from them.
func outlined(t *testing.T) map[string]*v1.Plan {
	t.Helper()
	out := map[string]*v1.Plan{}
	for _, c := range compact {
		s := c.snap()
		p := mustMake(t, s, c.options)
		out[c.name] = p
		out[c.name+", back"] = rolledBackFrom(t, p, s)
	}
	for _, part := range []string{v1.PartHandover, v1.PartFinish} {
		out["in a seed, "+part] = mustMake(t, seeded(2), v1.Options{Image: seedImage, Part: part})
	}
	out["in a seed, install"] = mustMake(t, installed(), v1.Options{Part: v1.PartInstall})
	return out
}

// TestEveryChangeOfAPlanCanBeUndone: what an operator is told to be reversible is what the steps say. Each step that changes something says
// how it is undone.
func TestEveryChangeOfAPlanCanBeUndone(t *testing.T) {
	for name, p := range outlined(t) {
		for _, s := range p.Steps {
			if s.Undo == "" && s.Kind != v1.StepVerify && s.Kind != v1.StepAwait {
				t.Errorf("%s: step %s (%s) does not say how it is undone", name, s.ID, s.Kind)
			}
		}
		var want []string
		switch {
		case p.Options.Part == v1.PartFinish:
			want = []string{"all of it: no rollback goes back behind the part finish"}
		case slices.ContainsFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepInitializeNode }):
			want = []string{"it can be set once"}
		}
		got := outline.Of(p).Irreversible
		if len(got) != len(want) || len(want) > 0 && !strings.HasSuffix(got[0], want[0]) {
			t.Errorf("%s: irreversible is %q, want %q", name, got, want)
		}
		if r := outline.ReversalOf(p, p.Steps); (r.Lasting > 0) != (len(want) > 0) || r.Lasting > r.Changes {
			t.Errorf("%s: of %d changes %d cannot be taken back, and irreversible is %q", name, r.Changes, r.Lasting, got)
		}
	}
}

func TestAnIrreversibleStepIsNamed(t *testing.T) {
	p := mustMake(t, aws26HA(), v1.Options{})
	i := slices.IndexFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepEditManifest })
	p.Steps[i].Undo = ""
	if got := outline.Of(p).Irreversible; !slices.Equal(got, []string{p.Steps[i].Title}) {
		t.Errorf("irreversible is %q, want %q", got, p.Steps[i].Title)
	}
	azure := azure28()
	for i := range azure.Hosts {
		if m := kcmOf(azure, i); m != nil {
			m.Flags["cluster-name"] = "before"
		}
	}
	azure.Services = []v1.Service{{Namespace: "shop", Name: "web"}}
	made := mustMake(t, azure, v1.Options{Image: compact[2].options.Image, CredentialProvider: "bin/x", CredentialProviderSHA256: sha, ClusterName: "after"})
	if o := outline.Of(made); o.Risk != outline.RiskHigh || len(o.Irreversible) != 1 || !strings.Contains(o.Irreversible[0], "addresses of load balancers") {
		t.Errorf("load balancers that are made again: %s risk, irreversible %q; effects %q", o.Risk, o.Irreversible, made.Effects)
	}
}

func TestStepsThatNoRollbackTakesBackAreCounted(t *testing.T) {
	verify, wait := v1.Step{Kind: v1.StepVerify}, v1.Step{Kind: v1.StepAwait, Undo: "x"}
	change, forever := v1.Step{Kind: v1.StepWriteFile, Undo: "x"}, v1.Step{Kind: v1.StepWriteFile}
	fill, untaint := v1.Step{Kind: v1.StepInitializeNode, Undo: "x"}, v1.Step{Kind: v1.StepInitializeNode, Undo: "x", Restore: "a"}
	start := v1.Step{ID: "start/" + component.CCM + "@cp-1", Kind: v1.StepAddManifest, Component: component.CCM, Undo: "x"}
	for name, c := range map[string]struct {
		plan  v1.Plan
		steps []v1.Step
		want  outline.Reversal
	}{
		"nothing":                                 {want: outline.Reversal{}},
		"verifications and waits":                 {steps: []v1.Step{verify, wait}, want: outline.Reversal{}},
		"changes that are undone":                 {steps: []v1.Step{change, start, verify}, want: outline.Reversal{Changes: 2}},
		"one that does not say how":               {steps: []v1.Step{change, forever}, want: outline.Reversal{Changes: 2, Lasting: 1}},
		"a providerID":                            {steps: []v1.Step{change, fill}, want: outline.Reversal{Changes: 2, Lasting: 1}},
		"a taint that is removed on the way back": {steps: []v1.Step{untaint}, want: outline.Reversal{Changes: 1}},
		"the part finish": {plan: v1.Plan{Options: v1.Options{Part: v1.PartFinish}}, steps: []v1.Step{change, verify},
			want: outline.Reversal{Changes: 1, Lasting: 1}},
		"load balancers that are made again": {plan: v1.Plan{Effects: []string{effect.Recreated + "2 are made again"}}, steps: []v1.Step{change, start},
			want: outline.Reversal{Changes: 2, Lasting: 1}},
	} {
		if got := outline.ReversalOf(&c.plan, c.steps); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	back := &v1.Plan{Direction: planstep.Rollback, Steps: []v1.Step{untaint}}
	if got := outline.Of(back).Irreversible; len(got) > 0 {
		t.Errorf("a way back that removes a taint is irreversible: %q", got)
	}
}

func TestWhatAPlanMeansIsReckonedFromItsSteps(t *testing.T) {
	p := &v1.Plan{Direction: planstep.Forward, Strategy: planstep.LeaderMigration, Steps: []v1.Step{
		{ID: "a", Kind: v1.StepEditManifest, Component: component.KCM, EstimateSeconds: 20, Undo: "x"},
		{ID: "b", Kind: v1.StepKubelet, Component: component.Kubelet, EstimateSeconds: 5, Undo: "x", Canary: true},
		{ID: "c", Kind: v1.StepKubelet, Component: component.Kubelet, EstimateSeconds: 5, Undo: "x", Batch: "1"},
		{ID: "d", Kind: v1.StepKubelet, Component: component.Kubelet, EstimateSeconds: 15, Undo: "x", Batch: "1"},
		{ID: "e", Kind: v1.StepKubelet, Component: component.Kubelet, EstimateSeconds: 9, Undo: "x", Batch: "1"},
	}, Options: v1.Options{Soak: "60s"}}
	o := outline.Of(p)
	if o.Low.Seconds() != 50 || o.High.Seconds() != 200 { // 20 + 60 + 5 + the longest of a batch, 15
		t.Errorf("it takes %s to %s", o.Low, o.High)
	}
	if want := []outline.Restart{{Component: component.KCM, Times: 1}, {Component: component.Kubelet, Times: 4}}; !slices.Equal(o.Restarts, want) {
		t.Errorf("restarts %v, want %v", o.Restarts, want)
	}
	if o.Risk != outline.RiskLow || len(o.Reasons)+len(o.Blocking)+len(o.Irreversible) > 0 {
		t.Errorf("a plan without anything special: %+v", o)
	}
	p.Steps[1].Drain, p.Strategy = true, planstep.Downtime
	p.Steps = append([]v1.Step{{ID: "external/" + component.KCM + "@cp-1", Component: component.KCM, EstimateSeconds: 20, Undo: "x"},
		{ID: "start/" + component.CCM + "@cp-1", Component: component.CCM, EstimateSeconds: 10, Undo: "x"}}, p.Steps...)
	p.Findings = []v1.Finding{
		{Code: "A-001", Outcome: v1.Fail},
		{Code: "A-002", Outcome: v1.Unknown},
		{Code: "A-003", Outcome: v1.Fail, Accepted: "because"},
		{Code: "A-004", Outcome: v1.Warn, Level: "error"},
		{Code: "A-005", Outcome: v1.Warn, Level: "info"},
	}
	o = outline.Of(p)
	if !slices.Equal(o.Blocking, []string{"A-001", "A-002"}) {
		t.Errorf("blocked by %v", o.Blocking)
	}
	want := []string{"no manager runs the cloud loops for about 30 s", "1 node is drained", "accepted: A-003", "serious warnings: A-004"}
	if o.Risk != outline.RiskMedium || !slices.Equal(o.Reasons, want) {
		t.Errorf("%s because %q, want %q", o.Risk, o.Reasons, want)
	}
}

// TestTheGapOfTheWayBackIsNamed: with downtime no lease keeps the managers apart, and the last one of the new ends before the first one of the old
// comes. With leader migration the in-tree managers are there before.
func TestTheGapOfTheWayBackIsNamed(t *testing.T) {
	for name, p := range outlined(t) {
		if p.Direction != planstep.Rollback {
			continue
		}
		named := slices.ContainsFunc(p.Effects, func(e string) bool { return strings.HasPrefix(e, "gap: for about ") })
		risky := slices.ContainsFunc(outline.Of(p).Reasons, func(r string) bool { return strings.HasPrefix(r, "no manager runs the cloud loops for about ") })
		if want := p.Strategy == planstep.Downtime; named != want || risky != want {
			t.Errorf("%s, strategy %s: a gap is named: %v, is a risk: %v", name, p.Strategy, named, risky)
		}
	}
}
