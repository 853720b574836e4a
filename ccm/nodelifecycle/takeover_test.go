package nodelifecycle

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

func TestANodeThatWasNotReadyBeforeTheTakeoverHasItsGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		adopted := time.Now()
		fence := election.Unfenced(adopted)
		ctx := election.NewContext(t.Context(), fence)
		api := nodetest.New(
			nodeWith("gone-before", since(adopted.Add(-time.Hour))), nodeWith("gone-after", since(adopted.Add(time.Second))),
			nodeWith("gone-and-back", since(adopted.Add(-time.Hour))), nodeWith("gone-and-ready", since(adopted.Add(-time.Hour))),
			nodeWith("alive", is(corev1.ConditionTrue)),
		)
		c, provider := lister(10)
		var back atomic.Bool
		c.Instance = func(node *corev1.Node) cloud.InstanceState {
			return cloud.InstanceState{Exists: node.Name == "alive" || node.Name == "gone-and-back" && back.Load()}
		}
		pass(2 * time.Second)
		first := start(ctx, t, api, provider)
		pass(12 * time.Second)
		if api.Node("gone-after") != nil || withPrefix(api, "gone") != 3 {
			t.Errorf("left: %v", api.Nodes())
		}
		if calls := len(c.Calls()); calls > 4 {
			t.Errorf("made %d calls", calls)
		}
		pass(2 * time.Minute)
		first.stop()
		told := 0
		for _, event := range api.Events() {
			if strings.Contains(event, NodeDeletionDelayed) {
				told++
				if end := adopted.Add(5 * time.Minute).UTC().Format(time.RFC3339); !strings.Contains(event, "will be deleted after "+end) {
					t.Errorf("the event does not say when the grace ends, %s: %s", end, event)
				}
			}
		}
		if told != 3 {
			t.Errorf("told %d times of 3 nodes: %q", told, api.Events())
		}

		// Another replica goes on with the lease: the grace is what is left of it.
		back.Store(true)
		api.Change("gone-and-ready", is(corev1.ConditionTrue))
		start(ctx, t, api, provider)
		pass(time.Until(adopted.Add(5 * time.Minute).Add(-time.Second)))
		if withPrefix(api, "gone") != 3 {
			t.Errorf("left a second before the end: %v", api.Nodes())
		}
		pass(7 * time.Second)
		if api.Node("gone-before") != nil || withPrefix(api, "gone") != 2 {
			t.Errorf("left at the end: %v", api.Nodes())
		}
	})
}

func TestTheGraceCanBeTurnedOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := election.NewContext(t.Context(), election.Unfenced(time.Now()))
		api := nodetest.New(nodeWith("gone", since(time.Now().Add(-time.Hour))))
		_, provider := lister(10)
		start(ctx, t, api, provider, func(config *Config) { config.Options.TakeoverGrace = 0 })
		pass(7 * time.Second)
		if api.Node("gone") != nil {
			t.Error("the node is there still")
		}
	})
}

func TestAClosedFenceEndsEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(100, "gone"), nodeWith("alive", is(corev1.ConditionTrue)))...)
		c, provider := lister(1000)
		fence := election.Unfenced(time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC))
		client := api.Client(func(next http.RoundTripper) http.RoundTripper { return election.Transport(fence, next) })
		n := 0
		api.Fault = func(string) error {
			if n++; n == 20 {
				fence.Revoke("the test says so")
			}
			return nil
		}
		ctx := election.NewContext(t.Context(), fence)
		start(ctx, t, api, provider, func(config *Config) { config.Client, config.Workers = client, 1 }, unlimited)
		pass(time.Hour)
		if got := len(api.Requests()); got > 20 {
			t.Errorf("%d requests reached the API server, the fence was closed with the 20th", got)
		}
		equal(t, "calls", []string{"list 101", "list 101"}, c.Calls()) // with the Ready node: which one is the own is not known
		for _, reason := range reasons(api) {
			if strings.HasSuffix(reason, DeletingNodeFailed) {
				t.Errorf("unexpected event: %s", reason)
			}
		}
	})
}

func TestAStopFinishesWhatIsBeingWrittenAndBeginsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(100, "gone"), nodeWith("alive", is(corev1.ConditionTrue)))...)
		api.Latency = 100 * time.Millisecond
		_, provider := lister(1000)
		controller := start(t.Context(), t, api, provider, unlimited)
		for i := 0; withPrefix(api, "gone") == 100; i++ {
			if i > 6000 {
				t.Fatal("no node was deleted within a minute")
			}
			pass(10 * time.Millisecond)
		}
		controller.stop()
		if n := withPrefix(api, "gone"); n < 70 || n > 90 {
			t.Errorf("%d nodes are left of 100, of which 10 are deleted at the same time", n)
		}
	})
}
