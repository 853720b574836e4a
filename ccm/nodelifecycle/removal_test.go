package nodelifecycle

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

// inBothWays runs a test with a provider that lists instances, and with one that is asked for one by one.
func inBothWays(t *testing.T, test func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface)) {
	t.Helper()
	for name, batch := range map[string]int{"listed": 1000, "one by one": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, provider := lister(batch)
				if batch == 1 {
					provider = c
				}
				holds.Reset()
				test(t, c, provider)
			})
		})
	}
}

var isReady = is(corev1.ConditionTrue)

func withAnnotation(value string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Annotations = map[string]string{ReleaseAnnotation: value} }
}

// heldNow returns how many nodes the metric says are held, by reason, without those of which there are none.
func heldNow(t *testing.T) map[string]float64 {
	t.Helper()
	now := counters(t, "transplant_ccm_node_deletions_held")
	maps.DeleteFunc(now, func(_ string, n float64) bool { return n == 0 })
	return now
}

func holdsBegun(t *testing.T) map[string]float64 {
	t.Helper()
	return counters(t, "transplant_ccm_node_deletion_holds_total")
}

// eventsOf returns the messages of the events with a reason.
func eventsOf(api *nodetest.API, reason string) []string {
	return slices.DeleteFunc(api.Events(), func(event string) bool { return !strings.Contains(event, " "+reason+": ") })
}

func TestCredentialsOfAnotherAccountDeleteNoNode(t *testing.T) {
	for name, present := range map[string][]*corev1.Node{
		"a few Ready nodes":         many(5, "alive", isReady),
		"more of them than limits":  many(500, "alive", isReady),
		"no Ready node, two others": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
				api := nodetest.New(append(many(2, "lost"), present...)...)
				var right atomic.Bool
				c.Instance = func(*corev1.Node) cloud.InstanceState { return cloud.InstanceState{Exists: right.Load()} }
				controller := start(t.Context(), t, api, provider)
				pass(time.Hour)
				if requests := api.Requests(); len(requests) > 0 {
					t.Errorf("made the requests %q", requests)
				}
				equal(t, "held", map[string]float64{"no_instance": 2}, heldNow(t))
				equal(t, "holds", map[string]float64{"no_instance": 1}, holdsBegun(t))
				if err := controller.HealthChecker().Check(nil); err != nil {
					t.Errorf("health: %v", err)
				}
				told := eventsOf(api, NodeDeletionHeld)
				if len(told) != 2 || !strings.Contains(told[0], "Check the account and the region") || !strings.Contains(told[0], "kubectl annotate nodes --all") ||
					!strings.HasPrefix(told[0], "lost0000: Warning ") || len(told[0]) > 1000 {
					t.Errorf("events: %q", told)
				}
				right.Store(true)
				pass(12 * time.Second)
				equal(t, "held", nil, heldNow(t))
				if n := withPrefix(api, "lost"); n != 2 {
					t.Errorf("%d nodes are left of 2 that exist", n)
				}
			})
		})
	}
}

func TestACloudThatDoesNotFindOurOwnInstanceDeletesNoNode(t *testing.T) {
	named := nodeWith("alive-own", isReady)
	at := func(address string) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		}
	}
	labelled := func(address string) *corev1.Node {
		return nodeWith("alive-own", isReady, at(address), func(node *corev1.Node) { node.Labels = map[string]string{corev1.LabelHostname: "host"} })
	}
	here := []string{"fd00::7", "10.0.0.7"}
	for name, test := range map[string]struct {
		own  *corev1.Node
		host Host
		held map[string]float64
	}{
		"by its name":                         {named, Host{Name: "alive-own"}, map[string]float64{"own_instance": 1}},
		"by the name of its host":             {labelled("10.0.0.7"), Host{"host", here}, map[string]float64{"own_instance": 1}},
		"by the host's IPv6 address":          {labelled("fd00:0::7"), Host{"host", here}, map[string]float64{"own_instance": 1}},
		"by the name of a host that is its":   {nodeWith("alive-own", isReady, at("10.0.0.7")), Host{"alive-own", here}, map[string]float64{"own_instance": 1}},
		"it is not Ready":                     {nodeWith("alive-own"), Host{Name: "alive-own"}, map[string]float64{"own_instance": 2}},
		"the host is another's":               {named, Host{Name: "host"}, nil},
		"it is not of this cloud":             {nodeWith("alive-own", isReady, func(node *corev1.Node) { node.Spec.ProviderID = "metal://own" }), Host{Name: "alive-own"}, nil},
		"the host has no name at all":         {named, Host{}, nil},
		"a Node of a seed's pod's name":       {named, Host{"alive-own", here}, nil},
		"a Node with the label of that pod":   {labelled("10.0.0.8"), Host{"host", here}, nil},
		"that label, and NODE_NAME was given": {labelled("10.0.0.7"), Host{Name: "host"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
				api := nodetest.New(append(many(20, "alive", isReady), nodeWith("gone"), test.own)...)
				c.Instance = func(node *corev1.Node) cloud.InstanceState {
					return cloud.InstanceState{Exists: node.Name != "gone" && node.Name != "alive-own"}
				}
				start(t.Context(), t, api, provider, func(config *Config) { config.Host = test.host })
				pass(time.Minute)
				equal(t, "held", test.held, heldNow(t))
				if kept := api.Node("gone") != nil; kept != (test.held != nil) {
					t.Errorf("kept: %v", kept)
				}
			})
		})
	}
}

func TestMoreNodesThanTheLimitAreHeldUntilThereAreFewer(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
		api := nodetest.New(append(many(11, "gone"), many(50, "alive", isReady)...)...)
		start(t.Context(), t, api, provider)
		pass(29 * time.Minute)
		if requests := api.Requests(); len(requests) > 0 {
			t.Errorf("made the requests %q", requests)
		}
		equal(t, "held", map[string]float64{"limit": 11}, heldNow(t))
		equal(t, "holds", map[string]float64{"limit": 1}, holdsBegun(t))
		told := eventsOf(api, NodeDeletionHeld)
		if len(told) != 11 || !strings.Contains(told[0], "11 of 61 nodes have none") || !strings.Contains(told[0], "the limit is 10 (--node-deletion-limit)") {
			t.Errorf("events: %q", told)
		}
		api.Change("gone0003", isReady)
		pass(12 * time.Second)
		equal(t, "held", nil, heldNow(t))
		if n := withPrefix(api, "gone"); n != 1 || api.Node("gone0003") == nil {
			t.Errorf("%d nodes are left", n)
		}
	})
}

func TestDeletionsOfTheLastMinutesCountTowardsTheLimit(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
		api := nodetest.New(append(many(8, "gone-first"), many(50, "alive", isReady)...)...)
		start(t.Context(), t, api, provider)
		pass(12 * time.Second)
		if n := withPrefix(api, "gone-first"); n > 0 {
			t.Fatalf("%d nodes are left of those within the limit", n)
		}
		for _, node := range many(5, "gone-later") {
			api.Put(node)
		}
		pass(9 * time.Minute)
		if n := withPrefix(api, "gone-later"); n != 5 {
			t.Errorf("%d nodes are left of those beyond the limit", n)
		}
		equal(t, "held", map[string]float64{"limit": 5}, heldNow(t))
		pass(2 * time.Minute)
		if n := withPrefix(api, "gone-later"); n > 0 {
			t.Errorf("%d nodes are left when the others did not count any more", n)
		}
		equal(t, "held", nil, heldNow(t))
	})
}

// existing are instances of all nodes, but those whose names begin with "gone".
func existing(gone cloud.InstanceState) func(*corev1.Node) cloud.InstanceState {
	return func(node *corev1.Node) cloud.InstanceState {
		if strings.HasPrefix(node.Name, "gone") {
			return gone
		}
		return cloud.InstanceState{Exists: true}
	}
}

func TestANodeThatIsRegisteredAgainAndAgainTakesUpOnePlaceOfALimit(t *testing.T) {
	for name, gone := range map[string]cloud.InstanceState{"missing": {}, "terminated": {Terminated: true}} {
		t.Run(name, func(t *testing.T) {
			inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
				c.Instance = existing(gone)
				api := nodetest.New(many(20, "alive", isReady)...)
				controller := start(t.Context(), t, api, provider, func(config *Config) { config.Options.TerminatedLimitPercent = 10 })
				for again := range 15 { // by one kubelet, and the limit is 10
					api.Put(nodeWith("gone-again"))
					pass(12 * time.Second)
					if api.Node("gone-again") != nil {
						t.Fatalf("registered for the %d. time, the node is kept", again+1)
					}
				}
				for _, node := range many(9, "gone-other") {
					api.Put(node)
				}
				pass(12 * time.Second)
				equal(t, "held", nil, heldNow(t))
				if n := withPrefix(api, "gone-other"); n > 0 {
					t.Errorf("%d nodes of other machines are left", n)
				}
				api.Put(nodeWith("gone-again")) // which counts already
				pass(12 * time.Second)
				if api.Node("gone-again") != nil {
					t.Error("with the limit used up by it and others, the node counts twice")
				}
				api.Put(nodeWith("gone-more"))
				pass(12 * time.Second)
				if api.Node("gone-more") == nil {
					t.Error("an eleventh node is deleted within the window")
				}
				pass(controller.options.DeletionWindow + 12*time.Second)
				pass(controller.options.DeletionWindow + 12*time.Second) // the eleventh was deleted meanwhile
				controller.mu.Lock()
				defer controller.mu.Unlock()
				if n := len(controller.recent) + len(controller.recentTerminated); n > 0 {
					t.Errorf("%d deletions are remembered beyond the window", n)
				}
			})
		})
	}
}

func TestANodeCountsOnceAmongAllThoughItWasDeletedAndIsThereAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(5, "alive", isReady), nodeWith("gone"))...)
		c, provider := lister(10)
		controller := start(t.Context(), t, api, provider)
		nodes := func() int {
			controller.mu.Lock()
			defer controller.mu.Unlock()
			return controller.countMissing(controller.clock.Now()).nodes
		}
		pass(12 * time.Second)
		if n := nodes(); api.Node("gone") != nil || n != 6 {
			t.Errorf("%d nodes count of 5 and one that was deleted: %v", n, api.Node("gone") == nil)
		}
		c.Instance = func(*corev1.Node) cloud.InstanceState { return cloud.InstanceState{Exists: true} }
		api.Put(nodeWith("gone", isReady))
		pass(12 * time.Second)
		if n := nodes(); n != 6 {
			t.Errorf("%d nodes count of 6", n)
		}
	})
}

func TestTerminatedInstancesDoNotCountAsMissingAndNeedOneLook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(400, "alive"), many(100, "gone")...)...)
		c, provider := lister(1000)
		c.Instance = func(node *corev1.Node) cloud.InstanceState {
			state := byName(node)
			state.Terminated = !state.Exists
			return state
		}
		controller := start(t.Context(), t, api, provider)
		pass(time.Second)
		if n := withPrefix(api, "gone"); n > 0 {
			t.Errorf("%d nodes are left", n)
		}
		controller.stop()
		if n := len(eventsOf(api, NodeDeletionHeld)); n > 0 {
			t.Errorf("%d nodes were held", n)
		}
	})
}

// endedInstances is a cloud that calls the instances of nodes terminated whose name begins with "gone" or with more.
func endedInstances(more ...string) func(*corev1.Node) cloud.InstanceState {
	return func(node *corev1.Node) cloud.InstanceState {
		ended := slices.ContainsFunc(append(more, "gone"), func(prefix string) bool { return strings.HasPrefix(node.Name, prefix) })
		return cloud.InstanceState{Exists: !ended, Terminated: ended}
	}
}

// A cloud, or whoever answers for it, that calls everything terminated does not empty the cluster.
func TestTerminatedInstancesHaveALimitOfTheirOwn(t *testing.T) {
	for name, test := range map[string]struct {
		gone, alive int
		change      func(*Options)
		left        int
	}{
		"half of them":            {50, 50, nil, 0},
		"more than half":          {51, 49, nil, 51},
		"few nodes, nearly all":   {9, 1, nil, 0},
		"few nodes, all":          {10, 0, nil, 10},
		"a higher percentage":     {60, 40, func(o *Options) { o.TerminatedLimitPercent = 60 }, 0},
		"a lower percentage":      {50, 50, func(o *Options) { o.TerminatedLimitPercent = 20 }, 50},
		"the other is higher":     {60, 40, func(o *Options) { o.DeletionLimitPercent = 70 }, 0},
		"turned off":              {30, 0, func(o *Options) { o.TerminatedLimitPercent = 100 }, 0},
		"turned off for all":      {30, 0, func(o *Options) { o.DeletionLimitPercent = 100 }, 0},
		"nothing to compare with": {1, 0, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(append(many(test.gone, "gone"), many(test.alive, "alive")...)...)
				c, provider := lister(1000)
				c.Instance = endedInstances()
				controller := start(t.Context(), t, api, provider, func(config *Config) {
					if test.change != nil {
						test.change(&config.Options)
					}
				})
				pass(12 * time.Second)
				if n := withPrefix(api, "gone"); n != test.left {
					t.Errorf("%d nodes are left, want %d", n, test.left)
				}
				want := map[string]float64{}
				if test.left > 0 {
					want["terminated"] = float64(test.left)
				}
				equal(t, "held", want, heldNow(t))
				for _, node := range api.Nodes() {
					api.Change(node.Name, withAnnotation(time.Now().UTC().Format(time.RFC3339)))
				}
				pass(12 * time.Second)
				if gone, alive := withPrefix(api, "gone"), withPrefix(api, "alive"); gone != 0 || alive != test.alive {
					t.Errorf("an operator has released them, and %d are left; of %d others %d", gone, test.alive, alive)
				}
				controller.stop()
				told := eventsOf(api, NodeDeletionHeld)
				if len(told) != test.left || test.left > 0 && !strings.Contains(told[0], "(--node-deletion-limit-terminated-percent)") {
					t.Errorf("events: %q", told)
				}
			})
		})
	}
}

func TestTerminatedInstancesOfTheLastMinutesCountTowardsTheirLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(40, "gone-first"), many(60, "alive", isReady)...)...)
		c, provider := lister(1000)
		c.Instance = endedInstances()
		start(t.Context(), t, api, provider)
		pass(12 * time.Second)
		if n := withPrefix(api, "gone-first"); n > 0 {
			t.Fatalf("%d nodes are left of those within the limit", n)
		}
		for _, node := range many(25, "gone-later") {
			api.Put(node)
		}
		pass(9 * time.Minute)
		equal(t, "held", map[string]float64{"terminated": 25}, heldNow(t))
		pass(2 * time.Minute)
		equal(t, "held", nil, heldNow(t))
		if n := withPrefix(api, "gone-later"); n > 0 {
			t.Errorf("%d nodes are left when the others did not count any more", n)
		}
	})
}

// We run: a cloud that calls our own instance terminated speaks of another one.
func TestACloudThatCallsOurOwnInstanceTerminatedDeletesNoNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(20, "alive", isReady), nodeWith("gone"), nodeWith("own", isReady))...)
		c, provider := lister(1000)
		c.Instance = endedInstances("own")
		start(t.Context(), t, api, provider, func(config *Config) { config.Host = Host{Name: "own"} })
		pass(time.Minute)
		equal(t, "held", map[string]float64{"own_instance": 1}, heldNow(t))
		if api.Node("gone") == nil {
			t.Error("the node is deleted")
		}
	})
}

// TestAnEndpointThatCallsAllInstancesTerminatedDeletesNoNodeOfAManagerWithoutOne: a manager that does not know its own
// node, as that of a seed, has the Ready nodes to compare with.
func TestAnEndpointThatCallsAllInstancesTerminatedDeletesNoNodeOfAManagerWithoutOne(t *testing.T) {
	for name, test := range map[string]struct {
		ended []string
		held  map[string]float64
	}{
		"all are ended":    {[]string{"alive-1", "alive-2", "alive-3", "alive-4"}, map[string]float64{"no_instance": 1}},
		"this one is":      {nil, nil},
		"one more is that": {[]string{"alive-2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				holds.Reset()
				ready := []*corev1.Node{nodeWith("alive-1", isReady), nodeWith("alive-2", isReady), nodeWith("alive-3", isReady), nodeWith("alive-4", isReady)}
				api := nodetest.New(append(ready, nodeWith("gone"))...)
				c, provider := lister(1000)
				c.Instance = endedInstances(test.ended...)
				start(t.Context(), t, api, provider, func(config *Config) { config.Host = Host{Name: "a-pod-of-a-seed"} })
				pass(time.Minute)
				equal(t, "held", test.held, heldNow(t))
				if kept := api.Node("gone") != nil; kept != (test.held != nil) {
					t.Errorf("kept: %v", kept)
				}
			})
		})
	}
}

func TestTheFlagsOfTheLimitAreObeyed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		left   int
	}{
		"turned off":              {func(o *Options) { o.DeletionLimitPercent = 100 }, 0},
		"a higher number":         {func(o *Options) { o.DeletionLimit = 30 }, 0},
		"a higher percentage":     {func(o *Options) { o.DeletionLimitPercent = 60 }, 0},
		"a percentage and number": {func(o *Options) { o.DeletionLimit, o.DeletionLimitPercent = 29, 59 }, 30},
		"nothing":                 {func(o *Options) { o.DeletionLimit, o.DeletionLimitPercent = 0, 0 }, 30},
	} {
		t.Run(name, func(t *testing.T) {
			inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
				api := nodetest.New(append(many(30, "gone"), many(20, "alive", isReady)...)...)
				start(t.Context(), t, api, provider, func(config *Config) { test.change(&config.Options) })
				pass(15 * time.Second)
				if n := withPrefix(api, "gone"); n != test.left {
					t.Errorf("%d nodes are left, want %d", n, test.left)
				}
			})
		})
	}
}

func TestAnOperatorReleasesNodesThatAreHeld(t *testing.T) {
	for name, test := range map[string]struct {
		value    string
		released bool
	}{
		"now":                  {"2000-01-01T01:00:00Z", true},
		"50 minutes ago":       {"2000-01-01T00:10:00Z", true},
		"by a clock that errs": {"2000-01-01T01:04:00Z", true},
		"two hours ago":        {"1999-12-31T23:00:00Z", false},
		"tomorrow":             {"2000-01-02T01:00:00Z", false},
		"not a time":           {"true", false},
	} {
		t.Run(name, func(t *testing.T) {
			inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
				api := nodetest.New(append(many(12, "gone"), append(many(8, "alive"), many(20, "alive-ready", isReady)...)...)...)
				start(t.Context(), t, api, provider)
				pass(time.Hour)
				if n := withPrefix(api, "gone"); n != 12 {
					t.Fatalf("%d nodes are left of 12 that are held", n)
				}
				api.Change("gone0000", withAnnotation(test.value))
				for _, node := range api.Nodes() {
					if strings.HasPrefix(node.Name, "alive") {
						api.Change(node.Name, withAnnotation(test.value))
					}
				}
				pass(12 * time.Second)
				if n := withPrefix(api, "alive"); n != 28 {
					t.Errorf("%d nodes are left of 28 that exist", n)
				}
				if got := api.Node("gone0000") == nil; got != test.released {
					t.Errorf("deleted: %v", got)
				}
				if n := withPrefix(api, "gone"); test.released && n != 11 || !test.released && n != 12 {
					t.Errorf("%d nodes are left", n)
				}
				equal(t, "held", map[string]float64{"limit": float64(withPrefix(api, "gone"))}, heldNow(t))
				if !test.released {
					pass(31 * time.Minute)
					if told := strings.Join(eventsOf(api, NodeDeletionHeld), "\n"); !strings.Contains(told, "is not a time of the last hour") {
						t.Errorf("no event says that the annotation is not valid: %s", told)
					}
				}
			})
		})
	}
}

func TestASingleNodeHasNothingToBeComparedWith(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
		api := nodetest.New(nodeWith("gone"))
		start(t.Context(), t, api, provider)
		pass(12 * time.Second)
		if api.Node("gone") != nil {
			t.Error("the node is there still")
		}
	})
}

func TestOneInstanceThatIsFoundEndsTheDoubt(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
		api := nodetest.New(many(2, "gone")...)
		start(t.Context(), t, api, provider)
		pass(time.Minute)
		equal(t, "held", map[string]float64{"no_instance": 2}, heldNow(t))
		api.Put(nodeWith("alive", isReady))
		pass(12 * time.Second)
		if n := withPrefix(api, "gone"); n > 0 {
			t.Errorf("%d nodes are left", n)
		}
		equal(t, "held", nil, heldNow(t))
	})
}

// Ready nodes without an instance, as machines that were joined by hand, are not the only ones that are asked for.
func TestOtherNodesAreAskedForInEachPass(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
		api := nodetest.New(append(many(9, "gone-ready", isReady), nodeWith("gone"), nodeWith("own", isReady))...)
		start(t.Context(), t, api, provider)
		pass(time.Minute)
		if api.Node("gone") != nil || withPrefix(api, "gone-ready") != 9 {
			t.Errorf("left: %d", withPrefix(api, "gone"))
		}
	})
}

func TestOurOwnInstanceIsNotWaitedForForGood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(20, "alive", isReady), nodeWith("gone"))...)
		c, _ := lister(1)
		c.Call = func(ctx context.Context, nodes []*corev1.Node) error {
			if nodes[0].Name == "alive0000" {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		start(t.Context(), t, api, c, func(config *Config) { config.Host = Host{Name: "alive0000"} })
		pass(20 * time.Second)
		if api.Node("gone") != nil {
			t.Error("the node is there still")
		}
	})
}

func TestAManagerThatStopsHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(many(2, "gone")...)
		_, provider := lister(10)
		controller := start(t.Context(), t, api, provider)
		pass(time.Minute)
		equal(t, "held", map[string]float64{"no_instance": 2}, heldNow(t))
		controller.stop()
		equal(t, "held", nil, heldNow(t))
	})
}

func TestALookSoonAfterAnotherIsNoSecondOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(nodeWith("gone"))
		_, provider := lister(10)
		start(t.Context(), t, api, provider, func(config *Config) { config.MonitorPeriod = 500 * time.Millisecond })
		pass(1900 * time.Millisecond)
		if api.Node("gone") == nil {
			t.Error("the node is deleted within two seconds")
		}
		pass(2 * time.Second)
		if api.Node("gone") != nil {
			t.Error("the node is there still")
		}
	})
}

// inherited is the lease of a manager that another one of its kind has held before.
func inherited(t *testing.T) context.Context {
	t.Helper()
	long := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	return election.NewContext(t.Context(), election.UnfencedAfter(long, long))
}

func TestManagersThatCrashOneAfterTheOtherDeleteNoMoreThanOneThatLives(t *testing.T) {
	for name, batch := range map[string][]func(*corev1.Node){"missing": nil, "terminated": {func(n *corev1.Node) { n.Name = "ended-" + n.Name }}} {
		t.Run(name, func(t *testing.T) {
			inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
				c.Instance = func(node *corev1.Node) cloud.InstanceState {
					ended := strings.HasPrefix(node.Name, "ended-")
					return cloud.InstanceState{Exists: !ended && !strings.HasPrefix(node.Name, "gone"), Terminated: ended}
				}
				api := nodetest.New(many(20, "alive", isReady)...)
				made := 0
				for crash := range 8 { // one each minute
					for _, node := range many(8, "gone"+string(rune('a'+crash)), batch...) {
						api.Put(node)
						made++
					}
					controller := start(inherited(t), t, api, provider)
					pass(time.Minute - time.Second)
					controller.stop()
				}
				left := withPrefix(api, "gone") + withPrefix(api, "ended-")
				if deleted := made - left; deleted > 10 {
					t.Errorf("%d nodes were deleted within 8 minutes, and the limit is 10 within 10", deleted)
				}
			})
		})
	}
}

func TestASingleNodeIsDeletedAtOnceAfterARestart(t *testing.T) {
	for name, gone := range map[string]cloud.InstanceState{"missing": {}, "terminated": {Terminated: true}} {
		t.Run(name, func(t *testing.T) {
			inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
				c.Instance = existing(gone)
				api := nodetest.New(append(many(1, "gone"), many(2, "alive", isReady)...)...)
				start(inherited(t), t, api, provider)
				pass(30 * time.Second)
				equal(t, "held", nil, heldNow(t))
				if n := withPrefix(api, "gone"); n > 0 {
					t.Error("the Node is there, as after each failover for the rest of the window")
				}
			})
		})
	}
}

func TestALimitGrowsBackAfterARestart(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *nodetest.Cloud, provider cloudprovider.Interface) {
		api := nodetest.New(append(many(3, "gone"), many(50, "alive", isReady)...)...)
		start(inherited(t), t, api, provider)
		pass(2*time.Minute + 50*time.Second)
		equal(t, "held", map[string]float64{"restart": 3}, heldNow(t))
		told := eventsOf(api, NodeDeletionHeld)
		if n := withPrefix(api, "gone"); n != 3 || len(told) != 3 || !strings.Contains(told[0], "took over less than 10m0s ago (--node-deletion-window)") {
			t.Errorf("%d nodes are left, events: %q", n, told)
		}
		pass(30 * time.Second)
		equal(t, "held", nil, heldNow(t))
		if n := withPrefix(api, "gone"); n > 0 {
			t.Errorf("%d nodes are left though the limit allows 3 after 3 minutes", n)
		}
	})
}
