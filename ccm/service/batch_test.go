package service

import (
	"fmt"
	"strings"
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
			b.noteChange(what, now)
		}
		if gives(&b, now) {
			times = append(times, float64(tick)/10)
		}
	}
	return times
}

// gives gives a batch that is due at a time, or so soon after it that the steps of a simulation are too long to see it.
func gives(b *batching, now time.Time) bool {
	due := b.dueTime()
	if due.IsZero() || due.After(now.Add(joinDelay)) {
		return false
	}
	b.given(later(now, due))
	return true
}

// Events of one answer of a watch are a fraction of a millisecond apart. They are no lone node with a group behind it.
func TestNodesWhoseEventsComeTogetherAreOneBatch(t *testing.T) {
	b := batching{window: time.Second, interval: 10 * time.Second}
	for _, at := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 30 * time.Millisecond} {
		now := noon.Add(at)
		if due := b.dueTime(); !due.IsZero() && !due.After(now) {
			t.Errorf("given after %s, and there is another", at)
		}
		b.noteChange(changeJoins, now)
	}
	if due, want := b.dueTime(), noon.Add(50*time.Millisecond); !due.Equal(want) {
		t.Errorf("given at %s, want %s", due, want)
	}
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
		{"one node joins", map[float64]change{0: changeJoins}, []float64{0}},
		{"two nodes join together", map[float64]change{0: changeJoins, 0.5: changeJoins}, []float64{0, 1.5}},
		{"twenty nodes join over ten seconds", every(0.5, 20, changeJoins), []float64{0, 10}},
		{"twenty nodes join over ten seconds, the last ones late", func() map[float64]change {
			m := every(0.5, 19, changeJoins)
			m[11.8] = changeJoins
			return m
		}(), []float64{0, 10, 20}},
		{"nodes never stop joining", every(0.5, 60, changeJoins), []float64{0, 10, 20.5, 31}},
		{"ten nodes join within five seconds", every(0.5, 10, changeJoins), []float64{0, 6.5}},
		{"others join right after a batch", func() map[float64]change {
			m := every(0.5, 5, changeJoins)
			m[4.5] = changeJoins
			return m
		}(), []float64{0, 4, 14}},
		{"twenty nodes join over ten seconds, with a pause", func() map[float64]change {
			m := every(0.5, 20, changeJoins)
			delete(m, 4.5)
			delete(m, 5)
			return m
		}(), []float64{0, 10}},
		{"one joins long after another", map[float64]change{0: changeJoins, 20: changeJoins}, []float64{0, 20}},
		{"one node leaves", map[float64]change{0: changeLeaves}, []float64{0.2}},
		{"many nodes leave together", every(0.1, 10, changeLeaves), []float64{0.2, 2.2}},
		{"one joins in place of another", map[float64]change{0: changeLeaves, 3: changeJoins}, []float64{0.2, 3}},
		{"one leaves while others wait to join", map[float64]change{0: changeJoins, 2: changeJoins, 2.5: changeLeaves}, []float64{0, 2.7}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, given(10*time.Second, tc.changes)); diff != "" {
				t.Errorf("given at (-want +got):\n%s", diff)
			}
		})
	}
}

// Without an interval, those after the first wait for the window, and for twice as long at most.
func TestWithoutAnIntervalNodesThatNeverStopJoiningWaitForTwoWindows(t *testing.T) {
	joins := map[float64]change{}
	for i := range 8 {
		joins[float64(i)/2] = changeJoins
	}
	if diff := cmp.Diff([]float64{0, 2, 4.5}, given(0, joins)); diff != "" {
		t.Errorf("given at (-want +got):\n%s", diff)
	}
}

// event is that a node is there and not initialised, or that it is initialised.
type event struct {
	at     time.Duration
	node   string
	coming bool
}

// steadily are nodes that join every half second, and are initialised at once.
func steadily(count int) []event {
	var events []event
	for i := range count {
		events = append(events, event{time.Duration(i) * time.Second / 2, fmt.Sprint(i), false})
	}
	return events
}

// A node that is being initialised is on its way: the ones before it are given with it, in one call, as long as that is no later than they would be anyway.
func TestNodesThatAreBeingInitialisedAreWaitedFor(t *testing.T) {
	const second = time.Second
	for _, tc := range []struct {
		name   string
		events []event
		want   []time.Duration
	}{
		{"a lone node", []event{{0, "a", true}, {second / 10, "a", false}}, []time.Duration{second / 10}},
		{"a lone node after an hour of nothing", []event{{time.Hour, "a", true}, {time.Hour + second/10, "a", false}}, []time.Duration{time.Hour + second/10}},
		{"two that come together", []event{{0, "a", true}, {0, "b", true}, {100 * time.Millisecond, "a", false}, {300 * time.Millisecond, "b", false}},
			[]time.Duration{300 * time.Millisecond}},
		{"one of two takes long", []event{{0, "a", true}, {0, "b", true}, {100 * time.Millisecond, "a", false}, {5 * second, "b", false}},
			[]time.Duration{1100 * time.Millisecond, 11100 * time.Millisecond}},
		{"one is never initialised, and another comes in its time", []event{{0, "a", true}, {3 * second, "b", true}, {3100 * time.Millisecond, "b", false}},
			[]time.Duration{4100 * time.Millisecond}},
		{"one is never initialised, and another comes long after", []event{{0, "a", true}, {30 * second, "b", true}, {30100 * time.Millisecond, "b", false}},
			[]time.Duration{30100 * time.Millisecond}},
		{"one that was never initialised goes", []event{{0, "a", true}, {0, "b", true}, {100 * time.Millisecond, "b", false}, {500 * time.Millisecond, "a gone", false}},
			[]time.Duration{500 * time.Millisecond}},
		{"nodes keep coming, and their initialisation stalls", []event{
			{0, "a", true}, {100 * time.Millisecond, "a", false}, {second, "b", true}, {1100 * time.Millisecond, "b", false}, {2 * second, "c", true},
			{3 * second, "d", true}, {4 * second, "e", true}, {5 * second, "c", false}, {5 * second, "d", false}, {5 * second, "e", false},
		}, []time.Duration{100 * time.Millisecond, 7 * second}},
		{"the last of a group is being initialised when it has gathered for long enough",
			append(steadily(19), event{9500 * time.Millisecond, "last", true}, event{10400 * time.Millisecond, "last", false}),
			[]time.Duration{0, 10400 * time.Millisecond}},
		{"the last of a group takes too long",
			append(steadily(19), event{9500 * time.Millisecond, "last", true}, event{12 * second, "last", false}),
			[]time.Duration{0, 11 * second, 21 * second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := batching{window: second, interval: 10 * second}
			var got []time.Duration
			begin := tc.events[0].at
			for at := begin; at <= begin+time.Minute; at += 50 * time.Millisecond {
				now := noon.Add(at)
				for _, e := range tc.events {
					name, gone := strings.CutSuffix(e.node, " gone")
					if e.at != at {
						continue
					}
					b.noteComing(name, e.coming, now)
					if !e.coming && !gone {
						b.noteChange(changeJoins, now)
					}
				}
				if gives(&b, now) {
					got = append(got, at)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("given at (-want +got):\n%s", diff)
			}
		})
	}
}

// Thousands of nodes that come at once, and go again, leave nothing behind and cost little.
func TestWhatIsKnownOfComingNodesIsForgottenWhenTheyHaveArrived(t *testing.T) {
	b := batching{window: time.Second, interval: 10 * time.Second}
	for i := range 5000 {
		b.noteComing(fmt.Sprint(i), true, noon)
		b.noteComing(fmt.Sprint(i), true, noon.Add(time.Second)) // an event that changes nothing
	}
	if want := noon.Add(10 * time.Second); !b.arrived().Equal(want) {
		t.Errorf("nodes are expected until %s, want %s", b.arrived(), want)
	}
	for i := range 5000 {
		b.noteComing(fmt.Sprint(i), false, noon.Add(2*time.Second))
	}
	if !b.arrived().IsZero() || len(b.coming) != 0 || len(b.order) != 0 {
		t.Errorf("%d and %d nodes are remembered, want none", len(b.coming), len(b.order))
	}
}
