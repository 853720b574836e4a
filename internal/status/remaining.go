package status

import (
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const (
	// fewSteps is how many steps have to be measured before what they took says more than a guess.
	fewSteps = 3
	// guessLow and guessHigh are between what an estimate of a plan may be off where nothing was measured.
	guessLow, guessHigh = 0.5, 2.0
	// spread is how far apart the ends of the range are at least, from its middle.
	spread = 0.1
)

// remaining is how much longer the run takes: the plan's estimates of what is left, scaled by what the steps so far
// took against theirs. The ends of the range are the quartiles of those ratios. It is nil if no process works on the
// run.
func remaining(f Facts, s v1.Status) *v1.Range {
	if s.State != v1.StateApplying && s.State != v1.StateRollingBack || s.Lock == nil {
		return nil
	}
	left := estimateLeft(f, s)
	if left <= 0 {
		return nil
	}
	low, high := ratios(f)
	return &v1.Range{LowSeconds: float64(int(left*low + 0.5)), HighSeconds: float64(int(left*high + 0.5))}
}

// estimateLeft adds the estimates of the steps that are not done up, in seconds. Steps of a batch are done side by
// side, so that the longest of them counts. Of one that is under way, what is left of it counts.
func estimateLeft(f Facts, s v1.Status) float64 {
	have, left := results(f.Journal), 0.0
	batches := map[string]float64{}
	for _, step := range f.steps() {
		if have[step.ID].IsEnded() {
			continue
		}
		estimate := step.EstimateSeconds
		if at := slices.IndexFunc(s.Current, func(c v1.StepStatus) bool { return c.ID == step.ID }); at >= 0 {
			estimate = max(0, estimate-s.Current[at].SinceSeconds)
		}
		if step.Batch == "" {
			left += estimate
			continue
		}
		longest := max(batches[step.Batch], estimate)
		left += longest - batches[step.Batch]
		batches[step.Batch] = longest
	}
	return left
}

// ratios are the lower and the upper quartile of what steps took against their estimates.
func ratios(f Facts) (low, high float64) {
	have := results(f.Journal)
	var all []float64
	for _, step := range f.steps() {
		r := have[step.ID]
		if r.Result == "done" && r.Ended != nil && step.EstimateSeconds > 0 {
			all = append(all, max(0, r.Ended.Sub(r.Started).Seconds())/step.EstimateSeconds)
		}
	}
	if len(all) < fewSteps {
		return guessLow, guessHigh
	}
	slices.Sort(all)
	low, high = all[len(all)/4], all[(3*len(all))/4]
	middle := (low + high) / 2
	return min(low, middle*(1-spread)), max(high, middle*(1+spread))
}
