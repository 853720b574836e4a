package node

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

// late is how long the cloud takes for an answer.
const late = 30 * time.Second

// lateCloud is a guarded provider that lists instances, or is asked for one at a time.
func lateCloud(fence *election.Fence, batch int, o cloud.Options) (*nodetest.Cloud, cloudprovider.Interface) {
	c, provider := lister(batch)
	if batch == 1 {
		provider = c
	}
	c.Latency = late
	return c, cloud.New(provider, o).For(fence)
}

func tainted(api *nodetest.API) (n int) {
	for _, node := range api.Nodes() {
		if hasCloudTaint(node) {
			n++
		}
	}
	return n
}

// TestACloudThatAnswersLateKeepsNoNodeLongerThanItsOwnCall, and no node at all that needs no call.
func TestACloudThatAnswersLateKeepsNoNodeLongerThanItsOwnCall(t *testing.T) {
	for name, test := range map[string]struct{ nodes, batch, calls int }{"listed": {1500, 1000, 4}, "one by one": {9, 1, 10}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(many(test.nodes)...)
				c, provider := lateCloud(election.Unfenced(time.Now()), test.batch, cloud.Options{})
				controller := start(t.Context(), t, api, provider)
				pass(10 * time.Second)
				api.Put(nodeWith("later"))
				api.Put(nodeWith("labels", untainted, withLabels(map[string]string{corev1.LabelFailureDomainBetaZone: "a"})))
				pass(2 * time.Second)
				if got := api.Node("labels").Labels[corev1.LabelTopologyZone]; got != "a" {
					t.Errorf("a node that only needs a label waits for the cloud: %q", got)
				}
				pass(late - 10*time.Second)
				if n := tainted(api); n != 1 || !hasCloudTaint(api.Node("later")) {
					t.Errorf("%d nodes wait still, want the one that came later", n)
				}
				pass(10 * time.Second)
				if n := tainted(api); n != 0 {
					t.Errorf("%d nodes wait for more than their own call", n)
				}
				if n := len(c.Calls()); n > test.calls {
					t.Errorf("made %d calls: %v", n, c.Calls())
				}
				if err := controller.HealthChecker().Check(nil); err != nil {
					t.Errorf("health: %v", err)
				}
				controller.stop()
				if warned := slices.DeleteFunc(api.Events(), func(e string) bool { return strings.Contains(e, ": Normal ") }); len(warned) > 0 {
					t.Errorf("though the cloud answers in time: %q", warned)
				}
			})
		})
	}
}

// TestNodesThatWaitForALateCloudKeepNoOthers: more than are asked for at the same time.
func TestNodesThatWaitForALateCloudKeepNoOthers(t *testing.T) {
	for name, test := range map[string]struct{ nodes, batch int }{"listed": {200, 10}, "one by one": {50, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(many(test.nodes)...)
				c, provider := lateCloud(election.Unfenced(time.Now()), test.batch, cloud.Options{})
				controller := start(t.Context(), t, api, provider)
				pass(10 * time.Second)
				api.Put(nodeWith("labels", untainted, withLabels(map[string]string{corev1.LabelFailureDomainBetaZone: "a"})))
				api.Remove("n0000")
				api.Change("n0001", untainted)
				pass(time.Second)
				if got := api.Node("labels").Labels[corev1.LabelTopologyZone]; got != "a" {
					t.Errorf("a node that only needs a label waits for the cloud: %q", got)
				}
				pass(3*late + 5*time.Second)
				controller.stop()
				if n := tainted(api); n > test.nodes/2 {
					t.Errorf("%d of %d nodes wait after three rounds of calls", n, test.nodes)
				}
				if n := len(c.Calls()); n > test.nodes {
					t.Errorf("made %d calls for %d nodes", n, test.nodes)
				}
			})
		})
	}
}

// TestACallThatTakesLongerThanItsLimitIsToldAndMadeAgain: no node loses its taint without an answer, and all do with one.
func TestACallThatTakesLongerThanItsLimitIsToldAndMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(many(100)...)
		c, provider := lateCloud(election.Unfenced(time.Now()), 1000, cloud.Options{CallTimeout: 10 * time.Second})
		controller := start(t.Context(), t, api, provider)
		pass(10 * time.Minute)
		if n := tainted(api); n != 100 || len(writes(api)) > 0 {
			t.Errorf("%d nodes are tainted still, and %d writes were made, without an answer", n, len(writes(api)))
		}
		if n := len(c.Calls()); n < 5 || n > 100 {
			t.Errorf("%d calls in ten minutes", n)
		}
		events := api.Events()
		if len(events) == 0 || len(events) > 100 {
			t.Fatalf("%d events for 100 nodes", len(events))
		}
		for _, said := range []string{"n0000: Warning " + ReadingInstanceFailed, "ListInstances", "no answer within 10s"} {
			if !strings.Contains(strings.Join(events, "\n"), said) {
				t.Errorf("no event says %q: %q", said, events[0])
			}
		}
		c.SetLatency(0)
		pass(2*time.Minute + 15*time.Second)
		if n := tainted(api); n != 0 {
			t.Errorf("%d nodes are tainted though the cloud answers", n)
		}
		controller.stop()
	})
}

// TestNothingIsWrittenWithAnAnswerThatComesAfterTheFenceClosed.
func TestNothingIsWrittenWithAnAnswerThatComesAfterTheFenceClosed(t *testing.T) {
	for name, batch := range map[string]int{"listed": 1000, "one by one": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := nodetest.New(many(8)...)
				fence := election.Unfenced(time.Now())
				c, provider := lateCloud(fence, batch, cloud.Options{})
				client := api.Client(func(next http.RoundTripper) http.RoundTripper { return election.Transport(fence, next) })
				start(election.NewContext(t.Context(), fence), t, api, provider, func(config *Config) { config.Client = client })
				pass(late / 2)
				fence.Revoke("the test says so")
				calls := len(c.Calls())
				pass(time.Hour)
				if n := tainted(api); n != 8 || len(writes(api)) > 0 || len(api.Events()) > 0 || len(c.Calls()) != calls {
					t.Errorf("%d of 8 nodes are tainted; writes %v, events %v, calls %v", n, writes(api), api.Events(), c.Calls())
				}
			})
		})
	}
}
