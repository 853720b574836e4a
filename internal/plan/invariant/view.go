package invariant

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// planView is a plan as the rules look at it.
type planView struct {
	*v1.Plan
	// snap is nil when only the plan is known.
	snap *v1.Snapshot
	// starts are the steps that start a cloud-controller-manager.
	starts []planstep.ManagerStart
}

func buildView(p *v1.Plan, snap *v1.Snapshot) (*planView, error) {
	r := &planView{Plan: p, snap: snap}
	for i, s := range p.Steps {
		if s.Component != component.CCM || s.Kind != v1.StepAddManifest && s.Kind != v1.StepEnsureObject {
			continue
		}
		start, err := planstep.ReadManagerStart(s)
		if err != nil {
			return nil, fmt.Errorf("step %s: reading the manager that it starts: %w", s.ID, err)
		}
		start.Index = i
		r.starts = append(r.starts, start)
	}
	return r, nil
}

// first is the index of the first start; false when the plan starts no manager by itself.
func (r *planView) first() (int, bool) {
	if len(r.starts) == 0 {
		return 0, false
	}
	return r.starts[0].Index, true
}

// external are the indexes of the steps that make a kube-controller-manager external.
func (r *planView) external() []int {
	return r.which(func(s v1.Step) bool {
		return s.Component == component.KCM && planstep.EditsFlags(s) && planstep.SetsFlag(s, "cloud-provider", "external")
	})
}

func (r *planView) kubelets() []int {
	return r.which(func(s v1.Step) bool { return s.Kind == v1.StepKubelet })
}

func (r *planView) which(match func(v1.Step) bool) []int {
	var out []int
	for i, s := range r.Steps {
		if match(s) {
			out = append(out, i)
		}
	}
	return out
}

// host of the snapshot by its name; nil when there is no snapshot.
func (r *planView) host(name string) *v1.Host {
	if r.snap == nil {
		return nil
	}
	for i := range r.snap.Hosts {
		if r.snap.Hosts[i].Name == name {
			return &r.snap.Hosts[i]
		}
	}
	return nil
}

// manager is the kube-controller-manager whose place a started manager takes.
func (r *planView) manager(s planstep.ManagerStart) *v1.Component {
	if r.snap == nil {
		return nil
	}
	if m := clusterview.FindHosted(r.snap, component.KCM); m != nil {
		return m
	}
	for _, h := range r.snap.Hosts {
		if s.Host == "" || h.Name == s.Host {
			if m := clusterview.FindComponent(h, component.KCM); m != nil {
				return m
			}
		}
	}
	return nil
}

// history calls f before each edit of flags with the value that the flag has then.
func (r *planView) history(flag string, f func(s v1.Step, before string, e v1.Edit) error) error {
	now := map[string]string{}
	for _, s := range r.Steps {
		if !planstep.EditsFlags(s) && s.Kind != v1.StepKubelet {
			continue
		}
		key := s.Host + "/" + s.Component + s.Ref
		for _, e := range s.Edits {
			if e.Name != flag || e.Op != v1.EditSetFlag && e.Op != v1.EditUnsetFlag {
				continue
			}
			before, known := now[key]
			if !known {
				before = r.original(s, flag)
			}
			if err := f(s, before, e); err != nil {
				return fmt.Errorf("step %s: %w", s.ID, err)
			}
			now[key] = e.Value
		}
	}
	return nil
}

// original is the value of a flag before the plan.
func (r *planView) original(s v1.Step, flag string) string {
	h := r.host(s.Host)
	if c := r.deployed(s); c != nil {
		return c.Flags[flag]
	}
	switch {
	case h == nil:
		return ""
	case s.Component == component.Kubelet && h.Kubelet != nil:
		return h.Kubelet.Flags[flag]
	}
	c := clusterview.FindComponent(*h, s.Component)
	if c == nil {
		return ""
	}
	if flag == flagvalue.FlagFeatureGates {
		return flagvalue.MergeGates(c.Command, c.Flags[flag])
	}
	return c.Flags[flag]
}

// deployed is the component of a step that edits a Deployment, as the snapshot has it; nil for another step.
func (r *planView) deployed(s v1.Step) *v1.Component {
	if r.snap == nil || s.Kind != v1.StepEditWorkload || !r.isHosted() {
		return nil
	}
	return clusterview.FindHosted(r.snap, s.Component)
}

// containsItem reports whether a value is in a list separated by commas.
func containsItem(list, item string) bool { return slices.Contains(strings.Split(list, ","), item) }
