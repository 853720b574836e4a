package nodeipam

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// late holds up the first patches of podCIDRs that a manager sends.
func late(arrive chan struct{}, n int) func(*http.Request) fault {
	return func(r *http.Request) fault {
		if r.Method == http.MethodPatch && n > 0 {
			n--
			return fault{late: arrive}
		}
		return fault{}
	}
}

// frozen runs a manager that is frozen with requests under way for two nodes, lets its successor serve one of the two and a node of its own,
// and then the late requests arrive.
func frozen(t *testing.T, a *api, arriveAt time.Duration, successor func(*http.Request) fault) {
	t.Helper()
	arrive := make(chan struct{})
	first := start(t, a, late(arrive, 2))
	a.add("a")
	synctest.Wait()
	a.add("b")
	synctest.Wait()
	first.crash()
	go func() {
		<-time.After(arriveAt)
		close(arrive)
	}()
	second := start(t, a, successor)
	a.add("c")
	pass(time.Minute)
	second.end()
}

func TestAFrozenPredecessorsLateRequestGivesNoBlockTwice(t *testing.T) {
	for _, at := range []time.Duration{0, time.Nanosecond, time.Second, 30 * time.Second} {
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				// The successor's own requests for node a are held up, so that node a has no podCIDR while b and c get theirs.
				begun := time.Now()
				frozen(t, a, at, func(r *http.Request) fault {
					if r.Method == http.MethodPatch && r.URL.Path == "/api/v1/nodes/a" && time.Since(begun) < 40*time.Second && time.Since(begun) > 0 {
						return fault{refuse: errors.New("connection refused")}
					}
					return fault{}
				})
				if len(a.doubles) != 0 {
					t.Errorf("given twice: %q", a.doubles)
				}
				for name, cidr := range a.cidrs() {
					if cidr == "" {
						t.Errorf("node %s has no podCIDR", name)
					}
				}
			})
		})
	}
}

// This is the proof that the step is needed, and that the test above would find a fault. In which order the successor serves nodes is left to chance, and
// half of the orders go well.
func TestWithoutTheMarkALateRequestGivesABlockTwice(t *testing.T) {
	doubles := 0
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t)
			a.markLess = true
			patches := 0
			frozen(t, a, 5*time.Second, func(r *http.Request) fault {
				if r.Method != http.MethodPatch || r.URL.Path != "/api/v1/nodes/a" {
					return fault{}
				}
				if patches++; patches > 1 && patches < 10 { // the first is the mark
					return fault{refuse: errors.New("connection refused")}
				}
				return fault{}
			})
			doubles += len(a.doubles)
		})
	}
	if doubles == 0 {
		t.Error("no block was given twice")
	}
}

func TestNeitherChanceNorFaultsGiveABlockTwiceOrLoseOne(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { random(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

// random adds and deletes nodes, loses requests and answers, freezes managers with requests under way and starts others. At the end nothing goes wrong
// any more; then all nodes have podCIDRs, no block was ever given twice, and none is lost.
func random(t *testing.T, dice *rand.Rand) {
	a := newAPI(t)
	chance := rand.New(rand.NewPCG(dice.Uint64(), 7)) // of the API, under its lock
	a.lag = func() time.Duration {
		return time.Duration(chance.IntN(3)) * time.Duration(chance.IntN(2000)) * time.Millisecond
	}
	calm := false
	var held []chan struct{}
	faults := func(r *http.Request) fault {
		a.mu.Lock()
		defer a.mu.Unlock()
		if calm {
			return fault{}
		}
		switch n := chance.IntN(20); {
		case n < 2:
			return fault{refuse: errors.New("connection refused")}
		case n < 4:
			return fault{lost: errors.New("connection reset")}
		case n < 6 && r.Method == http.MethodPatch:
			held = append(held, make(chan struct{}))
			return fault{late: held[len(held)-1]}
		}
		return fault{}
	}
	release := func(all bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i, arrive := range held {
			if arrive != nil && (all || dice.IntN(4) == 0) {
				close(arrive)
				held[i] = nil
			}
		}
	}
	m := start(t, a, faults, clusterCIDR("10.0.0.0/20,fd00:1::/60"))
	for range 60 {
		name := fmt.Sprint("node-", dice.IntN(14))
		switch n := dice.IntN(12); {
		case n < 5:
			if _, exists := a.cidrs()[name]; !exists {
				a.add(name)
			}
		case n < 7:
			a.remove(name)
		case n == 7:
			a.touch(name)
		case n == 8:
			release(false)
		case n == 9:
			m.crash()
			m = start(t, a, faults, clusterCIDR("10.0.0.0/20,fd00:1::/60"))
		default:
			pass(time.Duration(dice.IntN(3000)) * time.Millisecond)
		}
	}
	m.crash()
	a.mu.Lock()
	calm = true
	a.mu.Unlock()
	m = start(t, a, faults, clusterCIDR("10.0.0.0/20,fd00:1::/60"))
	pass(10 * time.Second)
	release(true)
	pass(25 * time.Minute) // two sweeps
	if len(a.doubles) != 0 {
		t.Errorf("given twice: %q", a.doubles)
	}
	for name, cidr := range a.cidrs() {
		if cidr == "" {
			t.Errorf("node %s has no podCIDR", name)
		}
	}
	want, got := []uint64{16 - uint64(len(a.cidrs())), 16 - uint64(len(a.cidrs()))}, []uint64{}
	for _, p := range m.c.ledger.pools {
		got = append(got, p.freeBlocks())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("free blocks (-want +got):\n%s", diff)
	}
	m.end()
}
