package stage

import (
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestOnlyAStandstillInAGapIsLeftOutOfIt(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	}
	s := &Standstills{last: at(0)}
	for _, seconds := range []float64{1, 2.5, 10, 11, 44, 44.2, 43} { // a clock that is set back is no standstill
		s.see(at(seconds))
	}
	for _, c := range []struct{ from, to, want float64 }{
		{0, 2.5, 0},   // looks that are a little late
		{3, 9, 6},     // inside of one
		{9, 20, 10},   // the end of one, and the beginning of another
		{11, 60, 33},  // one as a whole
		{44, 60, 0},   // behind them
		{0, 60, 40.5}, // both
	} {
		if got := s.During(v1.Gap{Start: at(c.from), End: at(c.to)}).Seconds(); got != c.want {
			t.Errorf("from %v to %v: %v s, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestAMachineThatRunsStandsNotStill(t *testing.T) {
	begun := time.Now()
	s := WatchStandstills(t.Context())
	s.Stop()
	s.Stop()
	if still := s.During(v1.Gap{Start: begun, End: time.Now()}); still != 0 {
		t.Errorf("it stood still for %s", still)
	}
}
