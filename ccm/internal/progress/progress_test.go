package progress

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at returns a tracker with a limit of a minute, and what moves its clock on.
func at() (*Tracker, func(time.Duration)) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tracker := New(time.Minute)
	tracker.now = func() time.Time { return now }
	return tracker, func(d time.Duration) { now = now.Add(d) }
}

func TestThePieceOfWorkThatHasGoneOnForTooLongIsNamed(t *testing.T) {
	tracker, pass := at()
	doneSlow := tracker.Start("service default/slow")
	pass(30 * time.Second)
	doneNext := tracker.Start("service default/next")
	pass(30 * time.Second)
	if err := tracker.Stuck(); err != nil {
		t.Errorf("at the limit it counts as stuck: %v", err)
	}
	pass(time.Second)
	const want = "service default/slow has been going on for 1m1s, longer than 1m0s"
	if err := tracker.Check(nil); err == nil || err.Error() != want {
		t.Errorf("the check says %v, want %q", err, want)
	}
	doneSlow()
	if err := tracker.Stuck(); err != nil {
		t.Errorf("what ended still counts: %v", err)
	}
	doneNext()
}

func TestWorkThatNeverBeganIsNotStuck(t *testing.T) {
	tracker := New(time.Nanosecond)
	if err := tracker.Stuck(); err != nil {
		t.Error(err)
	}
	if !tracker.Last().IsZero() {
		t.Errorf("something ended at %s", tracker.Last())
	}
}

func TestTwoPiecesOfWorkByOneNameAreTwo(t *testing.T) {
	tracker, pass := at()
	first := tracker.Start("tick")
	pass(2 * time.Minute)
	second := tracker.Start("tick")
	second()
	if tracker.Stuck() == nil {
		t.Error("the end of one ended the other")
	}
	if got := tracker.Last(); !got.Equal(tracker.now()) {
		t.Errorf("the last end was at %s, want now, %s", got, tracker.now())
	}
	first()
	if err := tracker.Stuck(); err != nil {
		t.Error(err)
	}
}
