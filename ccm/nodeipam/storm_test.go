package nodeipam

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var storm = flag.Int("events", 3_000, "how many events come in a minute")

// blow brings so many events in a minute.
func blow(next func(i int)) {
	for i := range *storm {
		next(i)
		if i%50 == 49 {
			pass(time.Minute * 50 / time.Duration(*storm))
		}
	}
	pass(time.Second)
}

// TestManyEventsInAMinuteAreNoWritesForNodesThatHavePodCIDRsOrWait: a node that joins in the middle gets its podCIDR at
// once, and the others wait for the next block without a write.
func TestManyEventsInAMinuteAreNoWritesForNodesThatHavePodCIDRsOrWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const served, waiting = 16, 20
		a := newAPI(t)
		m := start(t, a, nil, clusterCIDR("10.0.0.0/20"))
		defer m.end()
		for i := range served + waiting {
			a.add(fmt.Sprint("node-", i))
			synctest.Wait()
		}
		pass(time.Minute)
		if _, events := a.take(); len(events) != waiting {
			t.Fatalf("%d events for %d nodes that wait", len(events), waiting)
		}
		blow(func(i int) {
			switch i {
			case *storm / 2:
				a.remove("node-0")
			case *storm/2 + 50:
				if n := without(a); n != waiting-1 {
					t.Errorf("%d nodes wait, though a block is free", n)
				}
			default:
				a.touch(fmt.Sprint("node-", i%(served+waiting)))
			}
		})
		if patches, events := a.take(); patches < 1 || patches > 6 || len(events) > 0 { // an event may overtake the write
			t.Errorf("%d patches and events %q, want the one patch for the block that is free", patches, events)
		}
		if n := m.c.queue.Len(); n > waiting {
			t.Errorf("%d items are in the queue", n)
		}
		if n := len(m.c.ledger.names()); n != served {
			t.Errorf("%d nodes are remembered as holders", n)
		}
	})
}

// without returns how many nodes have no podCIDR.
func without(a *api) (n int) {
	for _, cidrs := range a.cidrs() {
		if cidrs == "" {
			n++
		}
	}
	return n
}

// TestManyEventsOfANodeWhosePodCIDRsAreRefusedAreAsManyWritesAsItsBackOffAllows: heartbeats do not repeat the write. A
// node that joins in the middle is served at once.
func TestManyEventsOfANodeWhosePodCIDRsAreRefusedAreAsManyWritesAsItsBackOffAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const refused = 5
		a, writes := newAPI(t), 0
		m := start(t, a, func(r *http.Request) (f fault) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "refused") {
				writes++
				f.refuse = errors.New("connection refused")
			}
			return f
		})
		defer m.end()
		for i := range refused {
			a.add(fmt.Sprint("refused-", i))
		}
		pass(time.Second)
		blow(func(i int) {
			switch i {
			case *storm / 2:
				a.add("new")
			case *storm/2 + 50:
				if a.cidrs()["new"] == "" {
					t.Error("a new node waits in the storm")
				}
			default:
				a.touch(fmt.Sprint("refused-", i%refused))
			}
		})
		if writes > refused*10 { // 200 ms, doubled each time
			t.Errorf("%d writes for %d nodes in a minute", writes, refused)
		}
		if patches, _ := a.take(); patches != 1 { // none overtakes it, as no event is of this node
			t.Errorf("%d patches arrived, want that of the new node", patches)
		}
		if n := m.c.queue.Len(); n > refused {
			t.Errorf("%d items are in the queue", n)
		}
	})
}

// TestManyNodesThatComeAndGoAreAsManyWritesAsNodes: nothing is kept of those that are gone.
func TestManyNodesThatComeAndGoAreAsManyWritesAsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		m := start(t, a, nil)
		defer m.end()
		a.take()
		for i := range *storm / 50 {
			for j := range 25 {
				a.add(fmt.Sprint("node-", j))
			}
			synctest.Wait()
			for j := range 25 {
				a.remove(fmt.Sprint("node-", j))
			}
			pass(time.Minute * 50 / time.Duration(*storm))
			if i == 0 {
				continue
			}
			if n := len(m.c.ledger.names()); n > 25 {
				t.Fatalf("%d nodes are remembered of 25", n)
			}
		}
		pass(time.Minute)
		if patches, _ := a.take(); patches > *storm/2 {
			t.Errorf("%d patches for %d nodes", patches, *storm/2)
		}
		if n := len(m.c.ledger.names()) + m.c.queue.Len() + len(m.c.waiting.Names()); n > 0 {
			t.Errorf("%d things are remembered of nodes that are gone", n)
		}
	})
}
