package service

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// given simulates when batches are given, in seconds, for changes at given times.
func given(interval time.Duration, changes map[float64]change) []float64 {
	b := batching{window: time.Second, interval: interval}
	start := noon
	var times []float64
	for tick := range 600 { // a minute in tenths
		now := start.Add(time.Duration(tick) * 100 * time.Millisecond)
		if what, ok := changes[float64(tick)/10]; ok {
			b.note(what, now)
		}
		if due := b.due(); !due.IsZero() && !due.After(now) {
			b.given(now)
			times = append(times, float64(tick)/10)
		}
	}
	return times
}

func TestWhenNodesAreGivenToLoadBalancers(t *testing.T) {
	every := func(step float64, count int, what change) map[float64]change {
		m := map[float64]change{}
		for i := range count {
			m[float64(int(float64(i)*step*10+0.5))/10] = what
		}
		return m
	}
	for _, tc := range []struct {
		name    string
		changes map[float64]change
		want    []float64
	}{
		{"nothing happens", nil, nil},
		{"one node joins", map[float64]change{0: changeJoins}, []float64{1}},
		{"two nodes join together", map[float64]change{0: changeJoins, 0.5: changeJoins}, []float64{2.5}},
		{"twenty nodes join over ten seconds", every(0.5, 20, changeJoins), []float64{10}},
		{"twenty nodes join over ten seconds, the last ones late", func() map[float64]change {
			m := every(0.5, 19, changeJoins)
			m[11.8] = changeJoins
			return m
		}(), []float64{10, 20}},
		{"nodes never stop joining", every(0.5, 60, changeJoins), []float64{10, 20.5, 31}},
		{"ten nodes join within five seconds", every(0.5, 10, changeJoins), []float64{6.5}},
		{"others join right after a batch", func() map[float64]change {
			m := every(0.5, 5, changeJoins)
			m[4.5] = changeJoins
			return m
		}(), []float64{4, 14}},
		{"twenty nodes join over ten seconds, with a pause", func() map[float64]change {
			m := every(0.5, 20, changeJoins)
			delete(m, 4.5)
			delete(m, 5)
			return m
		}(), []float64{10}},
		{"one joins long after another", map[float64]change{0: changeJoins, 20: changeJoins}, []float64{1, 21}},
		{"one node leaves", map[float64]change{0: changeLeaves}, []float64{0.2}},
		{"many nodes leave together", every(0.1, 10, changeLeaves), []float64{0.2, 2.2}},
		{"one joins in place of another", map[float64]change{0: changeLeaves, 3: changeJoins}, []float64{0.2, 4}},
		{"one leaves while others wait to join", map[float64]change{0: changeJoins, 2: changeJoins, 3: changeLeaves}, []float64{1, 3.2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, given(10*time.Second, tc.changes)); diff != "" {
				t.Errorf("given at (-want +got):\n%s", diff)
			}
		})
	}
}

// Without an interval nodes wait as they did before there was one: for the window, and for twice as long at most.
func TestWithoutAnIntervalNodesThatNeverStopJoiningWaitForTwoWindows(t *testing.T) {
	joins := map[float64]change{}
	for i := range 8 {
		joins[float64(i)/2] = changeJoins
	}
	if diff := cmp.Diff([]float64{2, 4.5}, given(0, joins)); diff != "" {
		t.Errorf("given at (-want +got):\n%s", diff)
	}
}
