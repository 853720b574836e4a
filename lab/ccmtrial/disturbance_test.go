package ccmtrial

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWhatHappensToPodsIsDrawnWhereThereAreSome(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for _, inPods := range []bool{false, true} {
		drawn, lied := map[event]int{}, map[event]map[event]int{}
		for range 5000 {
			d := draw(random, allTimings[0], inPods)
			drawn[d.event]++
			if d.lie == "" {
				continue
			}
			if lied[d.event] == nil {
				lied[d.event] = map[event]int{}
			}
			lied[d.event][d.lie]++
			if !slices.Contains(withLies, d.event) || !strings.HasSuffix(d.String(), ", "+string(d.lie)) {
				t.Errorf("drawn: %s", d)
			}
			plain := d
			plain.lie = ""
			if d.keepsLeader(allTimings[0]) != plain.keepsLeader(allTimings[0]) || d.endsWith() != plain.endsWith() {
				t.Errorf("a lie changes what is demanded of the leader: %s", d)
			}
		}
		for _, e := range eventsOfPods {
			if (drawn[e] > 0) != inPods {
				t.Errorf("in pods %t, %q was drawn %d times of 5000", inPods, e, drawn[e])
			}
		}
		for _, e := range withLies {
			for _, lie := range lies {
				if (lied[e][lie] > 0) != inPods {
					t.Errorf("in pods %t, %q came with %q %d times of 5000", inPods, e, lie, lied[e][lie])
				}
			}
		}
	}
}

func TestALeaderOutlivesItsKubeletsRestart(t *testing.T) {
	d := disturbance{event: kubeletRestarted}
	if !d.keepsLeader(allTimings[0]) || d.endsLeader() {
		t.Error("a leader whose kubelet is restarted may lose its lease")
	}
	if err := (&world{}).lie(t.Context(), killed, nil); err == nil || !strings.Contains(err.Error(), "living leader") {
		t.Errorf("that a leader is killed passes for a lie: %v", err)
	}
	if err := (&world{}).lie(t.Context(), "", nil); err != nil {
		t.Error(err)
	}
}

func TestOutcomesInPodsAreCountedByThemselves(t *testing.T) {
	o := newOutcomes()
	o.add(situation{killed, true}, round{passed: true, gap: time.Second})
	o.add(situation{killed, true}, round{passed: true, gap: 2 * time.Second})
	o.add(situation{killed, false}, round{passed: true, gap: 14 * time.Second})
	o.add(situation{frozenStandby, false}, round{})
	want := []string{
		"   1 times leader killed: the standby led after 1, without a change in the cloud n 1, p50 14s, p99 14s, max 14s",
		"   2 times leader killed, in pods: the standby led after 2, without a change in the cloud n 2, p50 2s, p99 2s, max 2s",
		"   1 times standby frozen: the standby led after 0, without a change in the cloud n 0, p50 0s, p99 0s, max 0s",
		"4 disturbances",
	}
	if got := o.lines(); !slices.Equal(got, want) {
		t.Errorf("the outcomes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
