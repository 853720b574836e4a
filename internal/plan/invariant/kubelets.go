package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// batches says which steps are done side by side that must not be. Such steps are next to the canary, of other kinds,
// on one host, not next to each other, or more than the budget allows. A share of the nodes is only known with a
// snapshot.
func (r *planView) batches() error {
	last, canary := map[string]int{}, ""
	size := map[string]int{}
	hosts := map[string]bool{}
	for i, s := range r.Steps {
		if s.Canary && s.Kind == v1.StepKubelet {
			canary = s.ID
		}
		if s.Batch == "" {
			continue
		}
		at, begun := last[s.Batch]
		switch {
		case s.Canary:
			return fmt.Errorf("step %s is the first of its kind and done side by side with others (%s)", s.ID, s.Batch)
		case s.Kind != v1.StepKubelet || s.Host == "":
			return fmt.Errorf("step %s is done side by side with others (%s), which only kubelets are", s.ID, s.Batch)
		case canary == "":
			return fmt.Errorf("step %s is done side by side with others (%s) before one worker was changed alone", s.ID, s.Batch)
		case begun && at != i-1:
			return fmt.Errorf("steps %s and %s are one batch (%s) and stand apart", r.Steps[at].ID, s.ID, s.Batch)
		case hosts[s.Batch+"@"+s.Host]:
			return fmt.Errorf("step %s is the second of its batch (%s) on host %s", s.ID, s.Batch, s.Host)
		}
		last[s.Batch], hosts[s.Batch+"@"+s.Host] = i, true
		size[s.Batch]++
	}
	return r.sizes(size)
}

// canaries says which worker is changed before one of its kind was changed alone. Which workers are of one kind is only
// known with a snapshot: a plan of an earlier version has one canary.
func (r *planView) canaries() error {
	if r.snap == nil {
		return nil
	}
	nodes := map[string]*v1.Node{}
	for i := range r.snap.Nodes {
		nodes[r.snap.Nodes[i].Name] = &r.snap.Nodes[i]
	}
	proven, other := map[kubelet.Kind]bool{}, ""
	for _, i := range r.kubelets() {
		s := r.Steps[i]
		h := r.host(s.Host)
		if h == nil || h.Kubelet == nil || h.ControlPlane {
			continue
		}
		kind := kubelet.KindOf(*h, nodes[h.NodeName])
		switch {
		case s.Canary && other != "":
			return fmt.Errorf("step %s is the first of its kind and comes after %s, which is not", s.ID, other)
		case s.Canary:
			proven[kind] = true
		case !proven[kind]:
			return fmt.Errorf("step %s is the first of its kind and is not watched as such", s.ID)
		default:
			other = s.ID
		}
	}
	return nil
}

func (r *planView) sizes(size map[string]int) error {
	nodes := 0
	if r.snap != nil {
		nodes = len(r.snap.Nodes)
	}
	most := options.CountUnavailable(r.Options.MaxUnavailable, nodes)
	if r.snap == nil && len(r.Options.MaxUnavailable) > 0 &&
		r.Options.MaxUnavailable[len(r.Options.MaxUnavailable)-1] == '%' {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(size)) {
		if size[name] > most {
			return fmt.Errorf("batch %s has %d nodes, and at most %d may change at a time", name, size[name], most)
		}
	}
	return nil
}

// gatesSet are the gates that a step of a kubelet gives a value, in its flag or in its configuration file.
func gatesSet(s v1.Step) flagvalue.Gates {
	out := flagvalue.Gates{}
	if e, ok := planstep.LastEdit(s, flagvalue.FlagFeatureGates); ok {
		out = flagvalue.ParseGates(e.Value)
	}
	for _, e := range s.Edits {
		if e.Op == v1.EditSetGate {
			out[e.Name] = e.Value == flagvalue.GateOn
		}
	}
	return out
}

// gatesBefore are the gates that a kubelet had a value of, in its configuration file or in its flag, which wins.
func (r *planView) gatesBefore(s v1.Step) flagvalue.Gates {
	out := flagvalue.Gates{}
	if h := r.host(s.Host); h != nil && h.Kubelet != nil && h.Kubelet.Config != nil {
		maps.Copy(out, h.Kubelet.Config.FeatureGates)
	}
	maps.Copy(out, flagvalue.ParseGates(r.original(s, flagvalue.FlagFeatureGates)))
	return out
}

// everywhere says which file of a kubelet still holds what a step changes elsewhere.
func everywhere(r *planView) error {
	for _, i := range r.kubelets() {
		s := r.Steps[i]
		for _, e := range s.Edits {
			if e.Path != "" && !slices.Contains(s.Files, e.Path) {
				return fmt.Errorf("step %s edits %s and does not name it among its files", s.ID, e.Path)
			}
		}
		h := r.host(s.Host)
		if h == nil || h.Kubelet == nil {
			continue
		}
		changed := map[string][]string{}
		for _, e := range s.Edits {
			changed[e.Name] = append(changed[e.Name], cmp.Or(e.Path, s.Path))
		}
		k := h.Kubelet
		for _, flag := range slices.Sorted(maps.Keys(changed)) {
			if _, there := k.Flags[flag]; !there {
				continue
			}
			for _, at := range append(slices.Clone(k.Also[flag]), cmp.Or(k.Sources[flag], k.Source)) {
				if !slices.Contains(changed[flag], at) {
					return fmt.Errorf("step %s changes --%s in %v and leaves it in %s", s.ID, flag, changed[flag], at)
				}
			}
		}
	}
	return nil
}
