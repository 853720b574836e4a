// Package outline decides what a plan means for a cluster: how long it takes, what restarts, and how risky it is. It
// also names what of it cannot be undone, and which findings block it. It goes by the plan's steps and findings.
package outline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Outline is what a reader of a plan decides by.
type Outline struct {
	// Low and High are between how long the steps take, by the plan's estimates.
	Low, High time.Duration
	// Restarts are how often each component restarts.
	Restarts []Restart
	// Risk is low, medium or high, and Reasons are why it is not low.
	Risk    string
	Reasons []string
	// Irreversible names what a rollback does not take back; empty for nothing.
	Irreversible []string
	// Blocking are the codes of the findings because of which apply refuses the plan.
	Blocking []string
}

// Restart is how often a component restarts.
type Restart struct {
	Component string
	Times     int
}

// Words of a risk.
const (
	RiskLow    = "low"
	RiskMedium = "medium"
	RiskHigh   = "high"
)

// Factors between which an estimate may be off before a step was measured; status uses the same ones.
const (
	lowFactor  = 0.5
	highFactor = 2
)

// Of returns the outline of a plan.
func Of(p *v1.Plan) Outline {
	seconds := estimate(p)
	o := Outline{
		Low:          time.Duration(seconds * lowFactor * float64(time.Second)),
		High:         time.Duration(seconds * highFactor * float64(time.Second)),
		Restarts:     restarts(p.Steps),
		Irreversible: irreversible(p),
		Blocking:     blocking(p),
	}
	o.Risk, o.Reasons = risk(p)
	return o
}

// estimate adds the estimates of the steps up, in seconds. Of steps that are done at the same time the longest one
// counts. The first worker of each kind is watched for a while.
func estimate(p *v1.Plan) float64 {
	sum, batches := 0.0, map[string]float64{}
	for _, s := range p.Steps {
		if s.Batch == "" {
			sum += options.Estimate(p.Options, s)
			continue
		}
		if longer := s.EstimateSeconds - batches[s.Batch]; longer > 0 {
			sum += longer
			batches[s.Batch] = s.EstimateSeconds
		}
	}
	return sum
}

// restarts are those of the components of a control plane and of kubelets.
func restarts(steps []v1.Step) []Restart {
	times := effect.Restarts(steps)
	var out []Restart
	for _, name := range []string{component.KAS, component.KCM, component.CCM, component.Kubelet} {
		if times[name] > 0 {
			out = append(out, Restart{name, times[name]})
		}
	}
	return out
}

// irreversible says what no rollback takes back.
func irreversible(p *v1.Plan) []string {
	var out []string
	providerIDs, changes := 0, 0
	for _, s := range p.Steps {
		switch {
		case !changesSomething(s):
			continue
		case setsProviderID(s):
			providerIDs++ // the taint can be removed again, the providerID cannot
		case s.Undo == "":
			out = append(out, s.Title)
		}
		changes++
	}
	if p.Options.Part == v1.PartFinish && changes > 0 {
		return []string{"all of it: no rollback goes back behind the part finish"}
	}
	if providerIDs > 0 {
		out = append(out, fmt.Sprintf("%s: it can be set once", english.Count(providerIDs, "providerID")))
	}
	if recreatesLoadBalancers(p) {
		out = append(out, "the addresses of load balancers, which are made again")
	}
	return out
}

// Reversal is how much of some steps a rollback takes back.
type Reversal struct {
	// Changes are the steps that change something. A verification and a wait leave nothing to take back.
	Changes int
	// Lasting are those of them that no rollback takes back.
	Lasting int
}

// ReversalOf returns how much of some steps of a plan a rollback takes back.
func ReversalOf(p *v1.Plan, steps []v1.Step) Reversal {
	var out Reversal
	recreates := recreatesLoadBalancers(p)
	for _, s := range steps {
		if !changesSomething(s) {
			continue
		}
		out.Changes++
		isLasting := s.Undo == "" || setsProviderID(s) || recreates && startsManager(s)
		if isLasting || p.Options.Part == v1.PartFinish {
			out.Lasting++
		}
	}
	return out
}

// changesSomething reports whether a step is more than a verification or a wait.
func changesSomething(s v1.Step) bool { return s.Kind != v1.StepVerify && s.Kind != v1.StepAwait }

// setsProviderID reports whether a step gives a node its providerID. On the way back such a step removes a taint alone.
func setsProviderID(s v1.Step) bool { return s.Kind == v1.StepInitializeNode && s.Restore == "" }

// startsManager reports whether a step starts a cloud-controller-manager.
func startsManager(s v1.Step) bool {
	return strings.HasPrefix(s.ID, "start/"+component.CCM) || s.Component == component.CCM && s.Kind == v1.StepEnsureObject
}

// recreatesLoadBalancers reports whether the load balancers get new addresses.
func recreatesLoadBalancers(p *v1.Plan) bool {
	return slices.ContainsFunc(p.Effects, func(e string) bool { return strings.HasPrefix(e, effect.Recreated) })
}

// risk returns the risk of a plan, and why it is not low.
func risk(p *v1.Plan) (word string, reasons []string) {
	word = RiskLow
	medium := func(format string, a ...any) {
		reasons = append(reasons, fmt.Sprintf(format, a...))
		if word == RiskLow {
			word = RiskMedium
		}
	}
	if recreatesLoadBalancers(p) {
		word = RiskHigh
		reasons = append(reasons, "load balancers get new addresses")
	}
	gap := Gap(p.Steps)
	if p.Direction == planstep.Rollback {
		gap = GapBack(p.Steps)
	}
	if p.Strategy == planstep.Downtime && gap > 0 {
		medium("no manager runs the cloud loops for about %d s", gap)
	}
	if n := countSteps(p, func(s v1.Step) bool { return s.Drain }); n > 0 {
		medium("%s drained", findings.Counting(n, "node", "is", "are"))
	}
	if n := countSteps(p, func(s v1.Step) bool { return s.Kind == v1.StepAwait }); n > 0 {
		medium("%s for hosts that you replace", findings.Counting(n, "step", "waits", "wait"))
	}
	accepted, warned := tolerated(p)
	if len(accepted) > 0 {
		medium("accepted: %s", strings.Join(accepted, ", "))
	}
	if len(warned) > 0 {
		medium("serious warnings: %s", strings.Join(warned, ", "))
	}
	return word, reasons
}

func countSteps(p *v1.Plan, is func(v1.Step) bool) (n int) {
	for _, s := range p.Steps {
		if is(s) {
			n++
		}
	}
	return n
}

// tolerated are the codes of the findings that were accepted, and of the warnings that are as bad as an error.
func tolerated(p *v1.Plan) (accepted, warned []string) {
	for _, f := range p.Findings {
		isBad := f.Level == findings.LevelError || f.Level == findings.LevelCritical
		switch {
		case f.Accepted != "" && (f.Outcome == v1.Fail || f.Outcome == v1.Unknown):
			accepted = append(accepted, f.Code)
		case f.Outcome == v1.Warn && isBad:
			warned = append(warned, f.Code)
		}
	}
	return accepted, warned
}

// blocking are the codes of the findings that block and were not accepted.
func blocking(p *v1.Plan) []string {
	var out []string
	for _, f := range p.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == "" {
			out = append(out, f.Code)
		}
	}
	return out
}

// Gap is for how many seconds no manager runs the loops in a plan with downtime. It goes from the end of the last
// in-tree owner to the first cloud-controller-manager.
func Gap(steps []v1.Step) int {
	from, to := -1, -1
	for i, s := range steps {
		if strings.HasPrefix(s.ID, "external/"+component.KCM+"@") && s.Restore == "" ||
			strings.HasPrefix(s.ID, "stop/"+component.KCM+"@") {
			from = i
		}
		if to < 0 && startsManager(s) {
			to = i
		}
	}
	if from < 0 || to < from {
		return 0
	}
	return planstep.SumEstimates(steps[from : to+1])
}

// GapBack is for how many seconds no manager runs the loops on the way back. It goes from the end of the last
// cloud-controller-manager to the first manager that is in tree again; 0 where that one is there before.
func GapBack(steps []v1.Step) int {
	from := -1
	for i, s := range steps {
		if s.Component == component.CCM && (s.Kind == v1.StepRemoveManifest || s.Kind == v1.StepDeleteObject) {
			from = i
		}
		if s.Component != component.KCM || s.Restore == "" || planstep.StopsComponent(s) ||
			s.Phase == planstep.PhaseReenable { // it stays external
			continue
		}
		if from < 0 {
			return 0
		}
		return planstep.SumEstimates(steps[from : i+1])
	}
	return 0
}
