package route

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
)

// late is how long the cloud takes for an answer.
const late = 30 * time.Second

func nodesWithCIDRs(n int) (nodes []*corev1.Node) {
	for i := range n {
		nodes = append(nodes, node(fmt.Sprintf("node-%02d", i), "", fmt.Sprintf("10.120.%d.0/24", i)))
	}
	return nodes
}

// TestACloudThatAnswersLateKeepsNoRouteWaitingForAnother: all that is to be made is made at once, and a node that joins
// meanwhile waits for its own calls.
func TestACloudThatAnswersLateKeepsNoRouteWaitingForAnother(t *testing.T) {
	s := newSky(to("gone", "10.120.99.0/24"))
	s.latency = late
	inWorld(t, s, nodesWithCIDRs(20), func(w *world) {
		w.pass(late + 10*time.Second) // the list has been answered, and creates are on their way
		w.add(node("later", "", "10.120.50.0/24"))
		w.pass(late - 5*time.Second)
		for name, got := range w.conditions() {
			if got != routed {
				t.Errorf("%s: %s", name, got)
			}
		}
		if n := len(w.conditions()); n != 20 {
			t.Errorf("%d nodes have the condition, want the 20 whose calls are answered", n)
		}
		w.pass(2 * late)
		if got := w.conditions()["later"]; got != routed {
			t.Errorf("a node that came later: %q", got)
		}
		if got := s.table(); len(got) != 21 || got["10.120.99.0/24"] != "" {
			t.Errorf("routes: %v", got)
		}
		if err := w.health(20 * time.Minute); err != nil {
			t.Errorf("health: %v", err)
		}
		calls := s.take()
		if creates, deletes := count(calls, "create"), count(calls, "delete"); creates != 21 || deletes != 1 {
			t.Errorf("%d creates and %d deletes, want one for each route", creates, deletes)
		}
		if got := strings.Join(w.events(), "\n"); got != "" {
			t.Errorf("though the cloud answers in time: %s", got)
		}
	}, guarded(s, cloud.Options{}))
}

// TestCallsThatTakeLongerThanTheirLimitAreToldAndMadeAgain: a call that the cloud has begun is not made twice.
func TestCallsThatTakeLongerThanTheirLimitAreToldAndMadeAgain(t *testing.T) {
	s := newSky()
	inWorld(t, s, nodesWithCIDRs(5), func(w *world) {
		w.pass(2 * time.Second)
		s.set(func() { s.latency = late })
		w.add(node("later", "", "10.120.50.0/24"))
		w.update("node-00", func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} })
		w.pass(20 * time.Minute)
		if got := w.conditions(); got["later"] != unrouted || got["node-00"] != routed {
			t.Errorf("conditions: %v", got)
		}
		events := strings.Join(w.events(), "\n")
		for _, said := range []string{"FailedToCreateRoute", "node later", "no answer within 10s"} {
			if !strings.Contains(events, said) {
				t.Errorf("no event says %q:\n%s", said, events)
			}
		}
		if n := count(s.take(), "create 10.120.50.0/24"); n < 2 || n > 30 {
			t.Errorf("%d attempts in 20 minutes", n)
		}
		s.set(func() { s.latency = 0 })
		w.pass(75 * time.Second)
		if diff := cmp.Diff(routed, w.conditions()["later"]); diff != "" {
			t.Errorf("once the cloud answers (-want +got):\n%s", diff)
		}
		if got := s.table(); len(got) != 6 {
			t.Errorf("routes: %v", got)
		}
	}, guarded(s, cloud.Options{CallTimeout: 10 * time.Second}))
}

func TestNothingIsWrittenWithARouteThatIsMadeAfterTheFenceClosed(t *testing.T) {
	guarded := func(s *sky, fence *election.Fence) cloudprovider.Interface {
		return cloud.New(skyProvider{sky: s}, cloud.Options{}).For(fence)
	}
	closedInFlight(t, guarded, late, late*3/2, time.Hour) // the create is on its way
}
