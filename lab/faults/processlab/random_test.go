package processlab

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/lab/faults"
)

var (
	randomMoves = flag.Int("faults.random", 0, "how often loops are moved, there or back, under random faults")
	randomSeed  = flag.Uint64("faults.seed", 0, "of the first move under random faults; 0 for one by the clock")
)

// randomShare is the share of steps that something happens at.
const randomShare = 0.25

// TestRandomFaults moves the loops there and back under random faults. Each move has a seed, which stands for its faults: to see them again, give it with
// -faults.seed, and 1 or 2 moves with -faults.random.
func TestRandomFaults(t *testing.T) {
	if *randomMoves == 0 {
		t.Skip("a campaign of an hour: make handovers, or -faults.random=2")
	}
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	t.Logf("the first seed is %d", seed)
	left := *randomMoves
	for i, s := range strategies {
		n := left / (len(strategies) - i)
		left -= n
		if n == 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) { movedAtRandom(t, s, seed, n) })
		seed += uint64(n)
	}
}

// movedAtRandom moves the loops of one lab n times, each time back if they were moved before.
func movedAtRandom(t *testing.T, s strategy, seed uint64, n int) {
	lab := start(t, s)
	before := facts(t, lab)
	must(t, lab, s.apply()...)
	after := facts(t, lab)
	must(t, lab, rollback()...)
	if diff := faults.Different(before, facts(t, lab)); diff != "" {
		t.Fatalf("without a fault it is not as it was (- is missing, + is there instead):\n%s", diff)
	}
	made := map[faults.Kind]int{}
	total := 0
	for i := range n {
		args, want := s.apply(), after
		if i%2 == 1 {
			args, want = rollback(), before
		}
		part := &faults.Part{Campaign: fmt.Sprintf("seed %d", seed+uint64(i))}
		ok := t.Run(part.Campaign, func(t *testing.T) {
			nothing := func(*faults.Part) error { return nil }
			disturbed(t, lab, part, nothing, faults.Random(seed+uint64(i), randomShare, faults.Whole), want, args...)
			if err := part.Verified(t.Context(), lab.verify); err != nil {
				t.Error(err)
			}
		})
		for _, o := range part.Outcomes {
			if !o.Missed {
				made[o.Kind]++
				total++
			}
		}
		if !ok {
			t.Fatalf("the lab is not as it was: the other moves would tell nothing")
		}
	}
	t.Logf("%d moves with %d faults: %v", n, total, made)
}
