package status

import (
	"cmp"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const (
	// settled is how many seconds of estimated work have to be done before what they took counts as much as a guess. The
	// first steps of a plan are estimated at a tenth of a second, and may take twenty times that.
	settled = 60.0
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
		estimate := f.estimateOf(step)
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

// ratio is what a step took against its estimate, in seconds.
type ratio struct{ of, estimate float64 }

// ratios are the lower and the upper quartile of what the work so far took against its estimates. They are mixed with
// the guess: the more of the work is measured, the less.
func ratios(f Facts) (low, high float64) {
	have := results(f.Journal)
	var all []ratio
	measured := 0.0
	for _, step := range f.steps() {
		r := have[step.ID]
		if estimate := f.estimateOf(step); r.Result == v1.StepResultDone && r.Ended != nil && estimate > 0 {
			all = append(all, ratio{max(0, r.Ended.Sub(r.Started).Seconds()) / estimate, estimate})
			measured += estimate
		}
	}
	if len(all) == 0 {
		return guessLow, guessHigh
	}
	slices.SortFunc(all, func(a, b ratio) int { return cmp.Compare(a.of, b.of) })
	low, high = quantile(all, measured/4), quantile(all, 3*measured/4)
	middle := (low + high) / 2
	low, high = min(low, middle*(1-spread)), max(high, middle*(1+spread))
	trust := measured / (measured + settled)
	return trust*low + (1-trust)*guessLow, trust*high + (1-trust)*guessHigh
}

// quantile is the ratio behind which a part of the estimated work lies, of ratios in their order.
func quantile(of []ratio, part float64) float64 {
	for _, r := range of {
		if part -= r.estimate; part < 0 {
			return r.of
		}
	}
	return of[len(of)-1].of
}
