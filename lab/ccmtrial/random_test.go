package ccmtrial

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/edge"
)

var (
	randomRounds = flag.Int("ccmtrial.random", 3, "how many random disturbances there are")
	allInPods    = flag.Bool("ccmtrial.pods", false, "run the managers of all worlds of random disturbances in pods, not of every other one")
	randomSeed   = flag.Uint64("ccmtrial.seed", 1, "of the first world of random disturbances; 0 for one by the clock")
)

const (
	// roundsPerWorld is how many disturbances a seed stands for, at most.
	roundsPerWorld = 20
	// randomLanes is how many worlds there are at a time: what they do is to wait.
	randomLanes = 4
)

// situation is an event, and whether a kubelet is there that may tell of it: a standby then need not wait for the lease.
type situation struct {
	event  event
	inPods bool
}

func (s situation) String() string {
	if s.inPods {
		return string(s.event) + ", in pods"
	}
	return string(s.event)
}

// outcomes are what came of many rounds.
type outcomes struct {
	mu     sync.Mutex
	rounds map[situation]int
	gaps   map[situation]distribution
}

func newOutcomes() *outcomes {
	return &outcomes{rounds: map[situation]int{}, gaps: map[situation]distribution{}}
}

func (o *outcomes) add(s situation, r round) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rounds[s]++
	if r.passed {
		o.gaps[s] = append(o.gaps[s], r.gap)
	}
}

// lines are what came of each situation, and of how many disturbances.
func (o *outcomes) lines() (out []string) {
	total := 0
	byName := func(a, b situation) int { return strings.Compare(a.String(), b.String()) }
	for _, s := range slices.SortedFunc(maps.Keys(o.rounds), byName) {
		total += o.rounds[s]
		out = append(out, fmt.Sprintf("%4d times %s: the standby led after %d, without a change in the cloud %s", o.rounds[s], s, len(o.gaps[s]), o.gaps[s]))
	}
	return append(out, fmt.Sprintf("%d disturbances", total))
}

func (o *outcomes) log(t *testing.T) {
	t.Helper()
	for _, line := range o.lines() {
		t.Log(line)
	}
}

// TestRandomDisturbances: whatever happens to managers, the API or the cloud, no two managers act in one loop's place, no living leader loses its lease to a
// kubelet's word, and nothing is lost.
func TestRandomDisturbances(t *testing.T) {
	t.Parallel()
	first := *randomSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	t.Logf("the first seed is %d", first)
	o := newOutcomes()
	t.Cleanup(func() { o.log(t) })
	worlds := (*randomRounds + roundsPerWorld - 1) / roundsPerWorld
	seeds := make(chan uint64, worlds)
	for i := range worlds {
		seeds <- first + uint64(i)
	}
	close(seeds)
	for lane := range min(worlds, randomLanes) {
		t.Run(fmt.Sprintf("lane %d", lane+1), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				rounds := min(roundsPerWorld, *randomRounds-int(seed-first)*roundsPerWorld)
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { disturbWorld(t, seed, rounds, o) })
			}
		})
	}
}

// disturbWorld lets a seed's disturbances happen in a world of its own. To see them again: -run RandomDisturbances -ccmtrial.seed=SEED -ccmtrial.random=ROUNDS.
func disturbWorld(t *testing.T, seed uint64, rounds int, o *outcomes) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	times, migrates, inPods := allTimings[random.IntN(len(allTimings))], random.IntN(2) == 0, random.IntN(2) == 0 || *allInPods
	flags := times.flags()
	if migrates {
		flags = append(flags, "--enable-leader-migration")
	}
	t.Logf("leases of %s, leader migration %t, in pods %t", times.duration, migrates, inPods)
	w := newWorld(t, flags...)
	w.migrates, w.inPods, w.ways = migrates, inPods, map[string]*edge.Edge{}
	leader := w.runDisturbed(t)
	w.works(t, leader)
	standby := w.runDisturbed(t)
	for i := range rounds {
		d := draw(random, times, inPods)
		began := time.Now()
		r, err := w.round(t.Context(), d, times, leader, standby)
		if err != nil {
			t.Fatalf("round %d of seed %d, %s: %v", i+1, seed, d, err)
		}
		t.Logf("%2d %s: the standby took over: %t, gap %s; round of %s", i+1, d, r.passed, r.gap.Round(time.Millisecond), time.Since(began).Round(time.Second))
		for _, a := range r.late {
			t.Errorf("round %d of seed %d, %s: late: %s", i+1, seed, d, a)
		}
		if t.Failed() {
			return
		}
		o.add(situation{d.event, inPods}, r)
		if !r.passed {
			continue
		}
		if code := leader.ExitCode(); code != d.endsWith() {
			t.Errorf("round %d of seed %d, %s: %s ended with %d", i+1, seed, d, leader.Name(), code)
		}
		leader, standby = standby, w.runDisturbed(t)
	}
}

// runDisturbed starts a manager whose connection to the API can be disturbed.
func (w *world) runDisturbed(t *testing.T) *ccmlab.Manager {
	t.Helper()
	way, err := edge.Start(edge.Options{Name: "manager->kube-apiserver", Listen: "127.0.0.1:0", Target: w.api.Address()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	m := w.runAt(t, ours, way.Addr())
	w.ways[m.Name()] = way
	return m
}
