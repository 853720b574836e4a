package migrate

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// phases splits the steps into runs of one phase.
func phases(steps []v1.Step) [][]v1.Step {
	var out [][]v1.Step
	for i, s := range steps {
		if i == 0 || steps[i-1].Phase != s.Phase {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	return out
}

// nextGroup takes the next group of a phase. A group that would restart an owner comes after the others of its phase.
// The owner's host is rolled last wherever ownership went since the plan was made. So there is one planned handover and
// not one for each host.
func (e *Engine) nextGroup(ctx context.Context, phase []v1.Step) (group, rest []v1.Step, err error) {
	groups := groupsOf(phase)
	for i, g := range groups {
		owns, why, err := e.restartsOwner(ctx, g)
		if err != nil {
			return nil, nil, err
		}
		if owns && i < len(groups)-1 && canDeferGroup(groups[i+1:]) {
			if !e.deferred[g[0].Group] {
				e.deferred[g[0].Group] = true
				e.env.Report(g[0], step.EventDeferred, why)
			}
			continue
		}
		return g, without(groups, i), nil
	}
	return groups[0], without(groups, 0), nil
}

func groupsOf(phase []v1.Step) [][]v1.Step {
	var out [][]v1.Step
	for i, s := range phase {
		if i == 0 || s.Group == "" || phase[i-1].Group != s.Group {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	return out
}

// canDeferGroup reports whether another group of this kind follows, which can go first; steps without a group keep
// their place.
func canDeferGroup(later [][]v1.Step) bool { return later[0][0].Group != "" }

func without(groups [][]v1.Step, i int) []v1.Step {
	var out []v1.Step
	for j, g := range groups {
		if j != i {
			out = append(out, g...)
		}
	}
	return out
}

// restartsOwner reports whether a step of the group that is still to be done restarts a process that leads one of the
// step's leases.
func (e *Engine) restartsOwner(ctx context.Context, group []v1.Step) (bool, string, error) {
	for _, s := range group {
		rec := e.env.Journal.Record(s.ID)
		if s.Group == "" || len(s.Leases) == 0 || rec.Result != "" && rec.Result != v1.StepResultStarted ||
			len(rec.Handovers) > 0 {
			continue // finished, or on its way out
		}
		managers, err := manager.Ask(ctx, e.env, s.Component)
		if err != nil {
			return false, "", fmt.Errorf("looking who owns the loops: %w", err)
		}
		for _, m := range managers {
			if m.Host != s.Host || m.Error != "" {
				continue
			}
			for _, lease := range s.Leases {
				if slices.Contains(m.Leads, lease) {
					return true, fmt.Sprintf(
						"%s on %s holds lease %s: its host comes last",
						s.Component,
						s.Host,
						lease,
					), nil
				}
			}
		}
	}
	return false, "", nil
}
