package nodelifecycle

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

// failing is a cloud that is asked for one instance at a time and does not answer until it does. Calls for nodes that
// never answers covers fail for good.
func failing(never string) (c *nodetest.Cloud, answers *atomic.Bool) {
	answers = &atomic.Bool{}
	c = &nodetest.Cloud{Batch: 1, Instance: func(node *corev1.Node) cloud.InstanceState {
		if !answers.Load() || never != "" && strings.HasPrefix(node.Name, never) {
			return cloud.InstanceState{Err: errors.New("503 Service Unavailable")}
		}
		return byName(node)
	}}
	return c, answers
}

// callsFor counts the calls that are about a node.
func callsFor(c *nodetest.Cloud, name string) (n int) {
	for _, call := range c.Calls() {
		if strings.HasSuffix(call, " "+name) {
			n++
		}
	}
	return n
}

// TestCallsThatFailAreMadeLessOften: the time between two calls for a node doubles, up to the limit.
func TestCallsThatFailAreMadeLessOften(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := failing("")
		controller := start(t.Context(), t, nodetest.New(many(3, "n")...), c, unlimited)
		pass(time.Hour)
		controller.stop()
		if n := callsFor(c, "n0000"); n < 50 || n > 65 {
			t.Errorf("%d calls for a node in an hour, want about one a minute", n)
		}
		if n := len(c.Calls()); n > 3*65 {
			t.Errorf("%d calls in an hour for 3 nodes", n)
		}
	})
}

// TestALateCloudIsAskedLessOftenWhereItIsAskedForOneNodeAtATime: each call runs into its limit, and takes the place of
// another.
func TestALateCloudIsAskedLessOftenWhereItIsAskedForOneNodeAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(10, "gone"), many(10, "alive")...)...)
		c, provider, _ := lateCloud(election.Unfenced(longAgo), 1, cloud.Options{CallTimeout: 10 * time.Second})
		controller := start(t.Context(), t, api, provider, unlimited)
		pass(time.Hour)
		controller.stop()
		if n := len(c.Calls()); n < 20*50 || n > 20*65 {
			t.Errorf("%d calls in an hour for 20 nodes, want about one a minute for each", n)
		}
	})
}

// TestANodeIsDeletedWithinTheLimitOnceTheCloudAnswersAgain: an answer ends the back-off. The second look comes a period
// after the first.
func TestANodeIsDeletedWithinTheLimitOnceTheCloudAnswersAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(2, "gone"), many(5, "alive")...)...)
		c, answers := failing("")
		start(t.Context(), t, api, c, unlimited)
		pass(time.Hour)
		answers.Store(true)
		pass(NewOptions().BackoffLimit + 2*6*time.Second)
		if n := withPrefix(api, "gone"); n != 0 {
			t.Errorf("%d nodes are left though the cloud has answered", n)
		}
		if n := withPrefix(api, "alive"); n != 5 {
			t.Errorf("%d of 5 nodes are left whose instance runs", n)
		}
		if told := eventsOf(api, NodeDeletionHeld); len(told) > 0 {
			t.Errorf("held: %q", told)
		}
	})
}

// TestANodeThatChangesIsAskedForAtOnceThoughCallsFail.
func TestANodeThatChangesIsAskedForAtOnceThoughCallsFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(many(2, "n")...)
		c, _ := failing("")
		start(t.Context(), t, api, c, unlimited)
		pass(10 * time.Minute)
		for before := len(c.Calls()); len(c.Calls()) == before; { // the next calls are a minute away then
			pass(time.Second)
		}
		changed, other := callsFor(c, "n0000"), callsFor(c, "n0001")
		pass(time.Second)
		api.Change("n0000", is(corev1.ConditionUnknown))
		pass(6 * time.Second)
		if n := callsFor(c, "n0000") - changed; n != 1 {
			t.Errorf("%d calls for a node whose condition has changed", n)
		}
		if n := callsFor(c, "n0001") - other; n != 0 {
			t.Errorf("%d calls for a node that has not", n)
		}
	})
}

// TestANodeThatIsAskedForLaterIsNoReasonToBelieveTheOnlyAnswer: calls for all others fail, so that an answer that
// an instance is gone has nothing to be compared with. It is held between those calls as well.
func TestANodeThatIsAskedForLaterIsNoReasonToBelieveTheOnlyAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := nodetest.New(append(many(1, "gone"), many(3, "broken")...)...)
		c, answers := failing("broken")
		start(t.Context(), t, api, c, unlimited)
		pass(10 * time.Minute)
		answers.Store(true)
		pass(30 * time.Minute)
		if n := withPrefix(api, "gone"); n != 1 {
			t.Error("a node was deleted by the only answer of a cloud that fails")
		}
		if reasons := eventsOf(api, NodeDeletionHeld); len(reasons) == 0 ||
			!slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(r, "none of the other instances") }) {
			t.Errorf("held: %q", reasons)
		}
	})
}
