package election

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestNoStampIsUsedTwice whatever the wall clock does. It is the clock's own time wherever that was not used.
func TestNoStampIsUsedTwice(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		r, wall := &leaseRecord{}, time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
		was := map[int64]bool{}
		for range 2000 {
			switch random.IntN(20) {
			case 0:
				wall = wall.Add(time.Duration(random.IntN(36_000_000)-18_000_000) * time.Millisecond)
			case 1:
				wall = wall.Add(time.Duration(random.IntN(5)-2) * time.Second)
			case 2, 3:
			default:
				wall = wall.Add(time.Second)
			}
			stamp := r.nextStamp(wall)
			if was[stamp.UnixMicro()] || stamp.Time.Before(wall) {
				t.Fatalf("seed %d: at %s the stamp is %s, and was used before: %t", seed, wall, stamp, was[stamp.UnixMicro()])
			}
			was[stamp.UnixMicro()] = true
			if len(r.used) > mostStretches {
				t.Fatalf("seed %d: %d stretches are kept", seed, len(r.used))
			}
		}
	}
}

// TestAClockThatIsSetRightIsBelieved: what a lease shows is the time of its renewal again.
func TestAClockThatIsSetRightIsBelieved(t *testing.T) {
	r, now := &leaseRecord{}, time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for i, ahead := range []time.Duration{0, 0, 5 * time.Hour, 5 * time.Hour, 0, -5 * time.Hour, 0} {
		for range 10 {
			now = now.Add(time.Second)
			if stamp := r.nextStamp(now.Add(ahead)); !stamp.Time.Equal(now.Add(ahead)) {
				t.Errorf("part %d: at %s the stamp is %s", i, now.Add(ahead), stamp)
			}
		}
	}
	if len(r.used) > 6 {
		t.Errorf("%d stretches are kept", len(r.used))
	}
}
