package planstep

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// LastCanary is the step of a plan behind which apply pauses where it was asked to. Before it, the first worker of each
// kind was changed. It is empty where there is no worker.
func LastCanary(p *v1.Plan) string {
	for _, s := range slices.Backward(p.Steps) {
		if s.Canary {
			return s.ID
		}
	}
	return ""
}

// Until returns how many steps of a plan come until a point, that point's included. The point is a step, by its ID or
// by a part of it that no other step has, or a phase, by its name. A point at which no manager would run the loops is
// refused.
func Until(p *v1.Plan, point string) (int, error) {
	n := 0
	var matching []string
	for i, s := range p.Steps {
		switch {
		case s.ID == point:
			return i + 1, safeToStop(p, i+1)
		case s.Phase == point:
			n = i + 1
		case strings.Contains(s.ID, point):
			matching = append(matching, s.ID)
			if len(matching) == 1 && n == 0 {
				n = i + 1
			}
		}
	}
	for _, s := range p.Steps {
		if s.Phase == point {
			return n, safeToStop(p, n)
		}
	}
	switch len(matching) {
	case 1:
		return n, safeToStop(p, n)
	case 0:
		return 0, fmt.Errorf(
			"the plan has no step and no phase %q; its phases are %s",
			point,
			strings.Join(phaseNames(p), ", "),
		)
	}
	return 0, fmt.Errorf(
		"%q is a part of %d steps (%s, %s, ...): give the whole ID of one",
		point,
		len(matching),
		matching[0],
		matching[1],
	)
}

func phaseNames(p *v1.Plan) []string {
	var out []string
	for i, s := range p.Steps {
		if i == 0 || p.Steps[i-1].Phase != s.Phase {
			out = append(out, s.Phase)
		}
	}
	return out
}

// safeToStop refuses to stop where the strategy downtime has the loops without an owner. Under leader migration any
// step is as good as the next: each leaves one owner behind.
func safeToStop(p *v1.Plan, n int) error {
	first, last, in := downtimeSteps(p, n)
	if !in {
		return nil
	}
	before := "before the first step"
	if first > 0 {
		before = "at " + p.Steps[first-1].ID
	}
	return fmt.Errorf(
		"step %s is in the downtime: no manager would run the loops until the rest is done; stop %s, or at %s or later",
		p.Steps[n-1].ID,
		before,
		p.Steps[last].ID,
	)
}

// IdleUntil returns the step after which a manager runs the loops again, if none runs them after the first n steps of a
// plan. Otherwise it is empty.
func IdleUntil(p *v1.Plan, n int) string {
	_, last, in := downtimeSteps(p, n)
	if !in {
		return ""
	}
	return p.Steps[last].ID
}

// downtimeSteps are the first and the last step of the time in which no manager runs the loops. in reports whether that
// time has come after n steps, and is not over.
func downtimeSteps(p *v1.Plan, n int) (first, last int, in bool) {
	if p.Strategy != Downtime {
		return 0, 0, false
	}
	first, last = len(p.Steps), -1
	for i, s := range p.Steps {
		if endsLoops(p, s) && i < first {
			first = i
		}
		if beginsLoops(p, s) {
			last = i
		}
	}
	if first == len(p.Steps) && p.Direction == Rollback {
		first = -1 // no new manager is ended, so that none has begun
	}
	return first, last, n > first && n <= last
}

// endsLoops reports whether the owner of the loops may be gone after a step.
func endsLoops(p *v1.Plan, s v1.Step) bool {
	if p.Direction == Rollback && s.Component == component.CCM && (StopsComponent(s) || s.Kind == v1.StepDeleteObject) {
		return true
	}
	return s.Component == component.KCM && (StopsComponent(s) ||
		strings.HasPrefix(s.ID, "external/") || strings.HasPrefix(s.ID, "loops-off/"))
}

// beginsLoops reports whether a step starts a manager, or gives it back what makes it run the loops. Gates that a
// kube-controller-manager loses later, behind the kubelets, are no part of the downtime.
func beginsLoops(p *v1.Plan, s v1.Step) bool {
	switch s.Component {
	case component.KCM:
		return strings.HasPrefix(s.ID, "external/") && ChangesComponent(s) ||
			p.Direction == Rollback &&
				(s.Kind == v1.StepRestoreManifest || s.Kind == v1.StepStartUnit || s.Kind == v1.StepEditWorkload)
	case component.CCM:
		return p.Direction != Rollback && (s.Kind == v1.StepAddManifest || s.Kind == v1.StepEnsureObject)
	}
	return false
}

// Remaining counts the steps of each phase behind the first n, in order, as "phase (count)".
func Remaining(p *v1.Plan, n int) []string {
	var out []string
	count := 0
	for i := n; i < len(p.Steps); i++ {
		count++
		if i+1 == len(p.Steps) || p.Steps[i+1].Phase != p.Steps[i].Phase {
			out = append(out, fmt.Sprintf("%s (%d)", p.Steps[i].Phase, count))
			count = 0
		}
	}
	return out
}
