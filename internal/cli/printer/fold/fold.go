// Package fold decides which steps of a plan are printed together, in few lines. It is for plans that this program has
// made: of another one each step is read before it is approved.
package fold

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Part is one step of a plan, or neighbouring steps that are printed together.
type Part struct {
	// First and End are the places in the plan of its first step, and of the first one after it.
	First, End int
	// Prepares is set for the steps that prepare a migration.
	Prepares bool
	// Workers are the places of steps that change kubelets of workers, those that change the same together. It is empty
	// for any other part.
	Workers [][]int
}

// Single returns a part for each step of a plan.
func Single(p *v1.Plan) []Part {
	return singleParts(0, len(p.Steps))
}

func singleParts(first, end int) []Part {
	var out []Part
	for i := first; i < end; i++ {
		out = append(out, Part{First: i, End: i + 1})
	}
	return out
}

// Together returns the parts of a plan: the steps that prepare it, those of workers, and each of the others.
func Together(p *v1.Plan) []Part {
	workers := map[string]bool{}
	for _, host := range planstep.Workers(p) {
		workers[host] = host != ""
	}
	var out []Part
	for i := 0; i < len(p.Steps); {
		parts := singleParts(i, i+1)
		if end := endOfPreparation(p, i); end > i {
			parts = []Part{{First: i, End: end, Prepares: true}}
		} else if end := endOfWorkers(p, i, workers); end > i {
			parts = workerParts(p, i, end)
		}
		out = append(out, parts...)
		i = out[len(out)-1].End
	}
	return out
}

// endOfPreparation is the end of the steps that prepare a migration, if they begin at a step. It is that step where it
// is none of them. None may wait for the operator, or be the last one of this apply: it would not be seen.
func endOfPreparation(p *v1.Plan, first int) int {
	if first > 0 && p.Steps[first-1].Phase == p.Steps[first].Phase {
		return first
	}
	end := first
	for ; end < len(p.Steps) && p.Steps[end].Phase == planstep.PhasePrepare; end++ {
		if p.Steps[end].Await != nil || p.Steps[end].ID == p.Until {
			return first
		}
	}
	return end
}

// endOfWorkers is the end of neighbouring steps of workers, if they begin at a step. A canary is not one of them: the
// change is proven by it. They end with the last step of this apply.
func endOfWorkers(p *v1.Plan, first int, workers map[string]bool) int {
	end := first
	for ; end < len(p.Steps); end++ {
		s := p.Steps[end]
		if s.Phase != planstep.PhaseKubelets || s.Kind != v1.StepKubelet || s.Canary || !workers[s.Host] {
			break
		}
		if s.ID == p.Until {
			return end + 1
		}
	}
	return end
}

// workerParts is one part with the steps of workers. They are parts of their own where no two change the same.
func workerParts(p *v1.Plan, first, end int) []Part {
	group := map[string]int{}
	var groups [][]int
	for i := first; i < end; i++ {
		key := changeKey(p.Steps[i])
		at, is := group[key]
		if !is {
			at = len(groups)
			group[key], groups = at, append(groups, nil)
		}
		groups[at] = append(groups[at], i)
	}
	if len(groups) == end-first {
		return singleParts(first, end)
	}
	return []Part{{First: first, End: end, Workers: groups}}
}

// changeKey is the same for steps that change the same, but for the names of their hosts.
func changeKey(s v1.Step) string {
	s = WithoutHost(s)
	return fmt.Sprintf("%q %q %q %q %t", s.Changes, s.Edits, s.Path, s.Files, s.Drain)
}
