package boottime

import (
	"testing"
	"time"
)

func TestTheClockGoesOnAsTheMonotonicOneDoes(t *testing.T) {
	before, began := Now(), time.Now()
	for Now() == before { //nolint:revive // it ticks in nanoseconds
	}
	went, passed := Now()-before, time.Since(began)
	if went <= 0 || went > passed+time.Millisecond {
		t.Errorf("%s went by on it in at most %s", went, passed)
	}
}
