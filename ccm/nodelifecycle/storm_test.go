package nodelifecycle

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

var storm = flag.Int("events", 20_000, "how many events come in a minute")

// TestManyEventsInAMinuteAreNoMoreCallsThanTicks: the cloud is asked once in a period at most, whatever nodes change, and
// a node whose instance goes in the middle is deleted.
func TestManyEventsInAMinuteAreNoMoreCallsThanTicks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const nodes = 200
		api := nodetest.New(many(nodes, "alive")...)
		c, provider := lister(1000)
		controller := start(t.Context(), t, api, provider, unlimited)
		pass(time.Minute)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		calls := len(c.Calls())
		for i := range *storm {
			switch {
			case i == *storm/2:
				api.Put(nodeWith("gone"))
			case i == *storm*5/6 && api.Node("gone") != nil: // twenty seconds later
				t.Error("a node whose instance is gone is left in the storm")
			case i%2 == 0: // it begins to be unschedulable, or ends, which is a reason to ask at once
				api.Change(fmt.Sprintf("alive%04d", i/2%nodes), func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
			default:
				api.Change(fmt.Sprintf("alive%04d", i/2%nodes), func(n *corev1.Node) {
					n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Duration(i) * time.Second))
				})
			}
			if i%50 == 49 {
				pass(time.Minute * 50 / time.Duration(*storm))
			}
		}
		pass(time.Second)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("the heap has grown by %d bytes", grown)
		}
		if n := len(c.Calls()) - calls; n > 13*groupsPerTick {
			t.Errorf("%d calls in a minute of 12 periods", n)
		}
		controller.stop()
		if n := withPrefix(api, "alive"); n != nodes || len(api.Requests()) != 1 {
			t.Errorf("%d of %d nodes are left; requests %v, want the one that deletes", n, nodes, api.Requests())
		}
	})
}
