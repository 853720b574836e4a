package nodeipam

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestNodesGetPodCIDRsOfEachFamilyInTurn(t *testing.T) {
	for _, test := range []struct {
		name   string
		config settings
		have   map[string][]string
		want   map[string]string
	}{
		{
			name: "one family", config: clusterCIDR("10.0.0.0/16"), have: map[string][]string{"a": nil},
			want: map[string]string{"a": "10.0.0.0/24"},
		},
		{
			name: "IPv6 alone", config: clusterCIDR("fd00:1::/48"), have: map[string][]string{"a": nil},
			want: map[string]string{"a": "fd00:1::/64"},
		},
		{
			name: "dual stack", config: clusterCIDR("10.0.0.0/16,fd00:1::/48"), have: map[string][]string{"a": nil},
			want: map[string]string{"a": "10.0.0.0/24 fd00:1::/64"},
		},
		{
			name: "dual stack, IPv6 first", config: clusterCIDR("fd00:1::/48,10.0.0.0/16"), have: map[string][]string{"a": nil},
			want: map[string]string{"a": "fd00:1::/64 10.0.0.0/24"},
		},
		{
			name: "what other nodes have is passed over", config: clusterCIDR("10.0.0.0/16"),
			have: map[string][]string{"a": nil, "b": {"10.0.0.0/24"}, "c": {"10.0.1.0/24"}, "d": {"10.0.3.0/24"}},
			want: map[string]string{"a": "10.0.2.0/24", "b": "10.0.0.0/24", "c": "10.0.1.0/24", "d": "10.0.3.0/24"},
		},
		{
			name: "a block of another size is passed over too", config: clusterCIDR("10.0.0.0/16"),
			have: map[string][]string{"a": nil, "b": {"10.0.0.0/22"}},
			want: map[string]string{"a": "10.0.4.0/24", "b": "10.0.0.0/22"},
		},
		{
			name: "the ranges of Services are passed over", have: map[string][]string{"a": nil},
			config: func(c *Config) {
				c.ClusterCIDR, c.Options.ServiceCIDRs = "10.0.0.0/8,fd00:1::/48", "10.0.0.0/12,fd00:1::/108"
			},
			want: map[string]string{"a": "10.16.0.0/24 fd00:1:0:1::/64"},
		},
		{
			name: "mask sizes of each family", have: map[string][]string{"a": nil, "b": {"10.0.0.0/25", "fd00:1::/80"}},
			config: func(c *Config) {
				c.ClusterCIDR, c.Options.NodeMaskSizeIPv4, c.Options.NodeMaskSizeIPv6 = "10.0.0.0/16,fd00:1::/48", 25, 80
			},
			want: map[string]string{"a": "10.0.0.128/25 fd00:1:0:0:1::/80", "b": "10.0.0.0/25 fd00:1::/80"},
		},
		{
			name: "one mask size", have: map[string][]string{"a": nil},
			config: func(c *Config) { c.ClusterCIDR, c.Options.NodeMaskSize = "10.0.0.0/8", 26 },
			want:   map[string]string{"a": "10.0.0.0/26"},
		},
		{
			name: "a cluster that was dual stack", config: clusterCIDR("10.0.0.0/16"),
			have: map[string][]string{"a": nil, "b": {"10.0.0.0/24", "fd00:1::/64"}},
			want: map[string]string{"a": "10.0.1.0/24", "b": "10.0.0.0/24 fd00:1::/64"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				for name, cidrs := range test.have {
					a.add(name, cidrs...)
				}
				m := start(t, a, nil, test.config)
				defer m.end()
				if diff := cmp.Diff(test.want, a.cidrs()); diff != "" {
					t.Errorf("podCIDRs (-want +got):\n%s", diff)
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				for name, node := range a.nodes {
					if len(node.Annotations) != 0 {
						t.Errorf("node %s keeps %v", name, node.Annotations)
					}
				}
			})
		})
	}
}

func TestATakeoverWritesNothingWhenAllNodesHaveTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		for i := range 200 {
			a.add(fmt.Sprint("node-", i), fmt.Sprintf("10.0.%d.0/24", i))
		}
		m := start(t, a, nil)
		defer m.end()
		pass(time.Hour)
		if patches, events := a.take(); patches != 0 || len(events) != 0 {
			t.Errorf("%d patches, events %q", patches, events)
		}
		a.add("new")
		pass(time.Second)
		if patches, _ := a.take(); patches != 1 || a.cidrs()["new"] != "10.0.200.0/24" {
			t.Errorf("%d patches, and the new node has %q", patches, a.cidrs()["new"])
		}
	})
}

func TestAnExhaustedRangeIsToldOnceAndServesANodeAsSoonAsAnotherGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		m := start(t, a, nil, clusterCIDR("10.0.0.0/23,fd00:1::/48"))
		defer m.end()
		for i := range 4 {
			a.add(fmt.Sprint("node-", i))
			synctest.Wait()
		}
		pass(9 * time.Minute)
		want := []string{
			"cidrAllocator Normal CIDRNotAvailable node-2-3: Node node-2 status is now: CIDRNotAvailable",
			"cidrAllocator Normal CIDRNotAvailable node-3-4: Node node-3 status is now: CIDRNotAvailable",
		}
		_, events := a.take()
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if got := m.c.ledger.pools[1].freeBlocks(); got != 1<<16-2 {
			t.Errorf("%d IPv6 blocks are free: those of nodes that got no IPv4 block are lost", got)
		}
		a.remove("node-0")
		pass(time.Second)
		a.remove("node-2")
		a.remove("node-3")
		pass(time.Second)
		a.add("node-5")
		pass(time.Second)
		served := a.cidrs()["node-5"]
		if served == "" || len(a.doubles) != 0 {
			t.Errorf("the freed block: %v, %v", a.cidrs(), a.doubles)
		}
	})
}

func TestAnUnknownOutcomeNeitherLeaksNorFreesABlock(t *testing.T) {
	for name, lost := range map[string]fault{
		"the answer is lost":      {lost: errors.New("connection reset")},
		"the request is lost":     {refuse: errors.New("connection refused")},
		"the server timed out":    {refuse: apierrors.NewServerTimeout(resource, "patch", 1)},
		"the request was refused": {refuse: errors.New("no route to host")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				failures := 3
				m := start(t, a, func(r *http.Request) fault {
					if r.Method == http.MethodPatch && failures > 0 {
						failures--
						return lost
					}
					return fault{}
				}, clusterCIDR("10.0.0.0/22"))
				defer m.end()
				a.add("a")
				pass(10 * time.Second)
				a.add("b")
				pass(10 * time.Second)
				if diff := cmp.Diff(map[string]string{"a": "10.0.0.0/24", "b": "10.0.1.0/24"}, a.cidrs()); diff != "" {
					t.Errorf("podCIDRs (-want +got):\n%s", diff)
				}
				if got := m.c.ledger.pools[0].freeBlocks(); got != 2 {
					t.Errorf("%d blocks are free, want 2", got)
				}
				_, events := a.take()
				if told := strings.Contains(strings.Join(events, "\n"), "CIDRAssignmentFailed"); told == (lost.lost != nil) {
					t.Errorf("events %q", events)
				}
			})
		})
	}
}

func TestAnOldEventDoesNotFreeTheBlockThatAnotherNodeHasByNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.add("old", "10.0.0.0/24")
		lag := time.Duration(0)
		a.lag = func() time.Duration { return lag }
		standby := start(t, a, nil) // its cache has the old node
		standby.end()
		lag = time.Minute // the watch lags; the predecessor's does not
		a.remove("old")
		a.add("heir", "10.0.0.0/24")
		lag = 0
		m := start(t, a, nil, clusterCIDR("10.0.0.0/23"))
		defer m.end()
		pass(2 * time.Minute)
		a.add("new")
		pass(time.Second)
		if diff := cmp.Diff(map[string]string{"heir": "10.0.0.0/24", "new": "10.0.1.0/24"}, a.cidrs()); diff != "" {
			t.Errorf("podCIDRs (-want +got):\n%s", diff)
		}
	})
}

func TestANodeThatEverybodyWritesToGetsItsPodCIDR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		writes := 3
		m := start(t, a, func(r *http.Request) fault {
			if r.Method == http.MethodPatch && writes > 0 {
				writes--
				a.touch("a")
			}
			return fault{}
		})
		defer m.end()
		a.add("a")
		synctest.Wait()
		if got := a.cidrs()["a"]; got != "10.0.0.0/24" {
			t.Errorf("podCIDR %q", got)
		}
		if _, events := a.take(); len(events) != 0 {
			t.Errorf("events %q", events)
		}
	})
}

func TestSharedAndForeignPodCIDRsAreToldNotFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.add("a", "10.0.0.0/24")
		a.add("b", "10.0.0.0/24")
		a.add("c", "192.168.0.0/24")
		m := start(t, a, nil)
		a.add("d")
		pass(time.Second)
		_, events := a.take()
		want := []string{
			"cidrAllocator Warning CIDRConflict b-2: Node b has the podCIDR 10.0.0.0/24, which overlaps with that of [node a]: something else gives out podCIDRs. " +
				"Drain and delete the younger node, and let it register again",
			"cidrAllocator Warning CIDROutOfRange c-3: Node c has the podCIDR 192.168.0.0/24, which is not in the ranges of --cluster-cidr",
		}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		a.remove("b")
		pass(time.Second)
		a.add("e")
		pass(time.Second)
		if got := a.cidrs(); got["d"] != "10.0.1.0/24" || got["e"] != "10.0.2.0/24" {
			t.Errorf("podCIDRs %v: the block of node a must stay its own", got)
		}
		m.end()
	})
}

const wholeRange = "10.0.0.0/16"

// TestANodeWithTheWholeRangeKeepsNoOtherFromGettingOne: a kubelet that registers its Node chooses its podCIDRs.
func TestANodeWithTheWholeRangeKeepsNoOtherFromGettingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.add("a", "10.0.0.0/24")
		m := start(t, a, nil)
		a.add("evil", wholeRange)
		a.add("b")
		pass(time.Second)
		_, events := a.take()
		want := []string{"cidrAllocator Warning CIDRConflict evil-2: Node evil has the podCIDR " + wholeRange + ", a whole range of --cluster-cidr, of which other nodes have parts: " +
			"it is not counted as used. Drain and delete the node, and find out who set it"}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if got := a.cidrs(); got["b"] != "10.0.1.0/24" {
			t.Errorf("podCIDRs %v", got)
		}
		a.remove("a")
		a.remove("b")
		pass(time.Second)
		a.take()
		a.add("c")
		pass(time.Second)
		if got := a.cidrs(); got["c"] != "" {
			t.Errorf("podCIDRs %v: alone, the node has all of the range", got)
		}
		a.remove("evil")
		pass(time.Minute)
		if got := a.cidrs(); got["c"] == "" {
			t.Errorf("podCIDRs %v: the range is free", got)
		}
		m.end()
	})
}

func TestTheStartWaitsForTheAPIServerAndHealthSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.add("a")
		var down atomic.Bool
		down.Store(true)
		m := start(t, a, func(r *http.Request) fault {
			if down.Load() && r.Method == http.MethodPatch {
				return fault{refuse: errors.New("connection refused")}
			}
			return fault{}
		})
		defer m.end()
		pass(3 * time.Minute)
		if err := m.c.HealthChecker().Check(nil); err == nil || !strings.Contains(err.Error(), "looking at all nodes") {
			t.Errorf("health: %v", err)
		}
		down.Store(false)
		pass(15 * time.Second)
		if err := m.c.HealthChecker().Check(nil); err != nil || a.cidrs()["a"] == "" {
			t.Errorf("health: %v, podCIDRs %v", err, a.cidrs())
		}
	})
}
