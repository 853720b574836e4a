package operator

import (
	"slices"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/fleet/state"
)

func TestPlacesAreGivenInTurnAndToThoseInTheMiddleFirst(t *testing.T) {
	now := time.Now()
	r := newRuns(1, time.Minute, func() time.Time { return now })
	if _, ok := r.admit("first", false, state.Handover, false); !ok {
		t.Fatal("there is no place for the first")
	}
	for _, name := range []string{"second", "third"} {
		if _, ok := r.admit(name, false, state.Handover, false); ok {
			t.Errorf("%s has a place", name)
		}
	}
	if _, ok := r.admit("halfway", true, state.Handover, false); ok {
		t.Error("a place that is taken is given to one in the middle")
	}
	r.endRun("first")
	for _, want := range []string{"halfway", "second", "third"} {
		if got := r.next(); !slices.Equal(got, []string{want}) {
			t.Errorf("the next is %v, want %s", got, want)
		}
		if _, ok := r.admit(want, want == "halfway", state.Handover, false); !ok {
			t.Fatalf("%s has no place", want)
		}
		r.endRun(want)
	}
}

func TestStalledRunsGiveTheirPlacesUpToABound(t *testing.T) {
	now := time.Now()
	r := newRuns(2, time.Minute, func() time.Time { return now })
	begun := 0
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		if _, ok := r.admit(name, false, state.Handover, false); ok {
			begun++
		}
		r.forgetWaiting(name)
		if begun%2 == 0 {
			now = now.Add(2 * time.Minute)
		}
	}
	if active, _ := r.counts(); active != r.most || begun != r.most {
		t.Errorf("%d runs began and %d are under way, with a bound of %d", begun, active, r.most)
	}
	r.move("a")
	if _, ok := r.admit("k", false, state.Handover, false); ok {
		t.Error("a run began beyond the bound")
	}
}

func TestAProcessThatEndsBeginsNothing(t *testing.T) {
	r := newRuns(2, time.Minute, time.Now)
	a, _ := r.admit("a", false, state.Handover, false)
	r.stopAll()
	select {
	case <-a.stop:
	default:
		t.Error("the run under way was not told to end")
	}
	if _, ok := r.admit("b", false, state.Handover, false); ok {
		t.Error("another run began")
	}
}
