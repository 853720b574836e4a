package trial

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

var runs = flag.Int("lab.runs", 0, "migrate and roll back so many times, and print how long nobody ran each loop")

// A measurement, not a test of times: the machine decides those. It fails on a migration that fails.
func TestGapDistribution(t *testing.T) {
	if *runs == 0 {
		t.Skip("a measurement of minutes: make gaps RUNS=10")
	}
	lab := theLab(t)
	var largest, durations, pauses []float64
	byHandover := map[string][]float64{}
	for i := range *runs {
		cli(t, lab, 0, nil, apply()...)
		r := readReport(t, lab)
		checkReport(t, lab, r)
		largest, durations = append(largest, r.Handover.GapSeconds), append(durations, r.DurationSeconds)
		for _, g := range r.Gaps {
			byHandover[kind(g)] = append(byHandover[kind(g)], g.Seconds)
		}
		for _, g := range r.Pauses {
			pauses = append(pauses, g.Seconds)
		}
		t.Logf("run %d: largest gap %.2f s, migration %.0f s", i+1, r.Handover.GapSeconds, r.DurationSeconds)
		cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
	}
	t.Logf("%-28s %s", "largest gap of a migration", distribution(largest))
	for _, k := range slices.Sorted(maps.Keys(byHandover)) {
		t.Logf("%-28s %s", k, distribution(byHandover[k]))
	}
	t.Logf("%-28s %s", "pauses of node IPAM", distribution(pauses))
	t.Logf("%-28s %s", "duration of a migration", distribution(durations))
}

// kind is the change of owner that a gap belongs to.
func kind(g v1.Gap) string {
	short := func(who string) string {
		if len(who) > 0 && who[0] == 'k' {
			return "KCM"
		}
		return "CCM"
	}
	return "gaps " + short(g.From) + " -> " + short(g.To)
}

func distribution(v []float64) string {
	if len(v) == 0 {
		return "none"
	}
	s := slices.Sorted(slices.Values(v))
	at := func(q float64) float64 { return s[min(len(s)-1, int(q*float64(len(s))))] }
	return fmt.Sprintf("n=%d  min %.2f  median %.2f  p90 %.2f  max %.2f s", len(s), s[0], at(0.5), at(0.9), s[len(s)-1])
}
