package route

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// client-go's fake takes milliseconds for each change.
var storm = flag.Int("events", 1000, "how many events come in a minute")

// TestManyEventsInAMinuteCostTheCloudLittle: heartbeats cost nothing, and a node whose addresses never rest is compared
// with its route no more often than others. A node that joins in the middle has its route soon.
func TestManyEventsInAMinuteCostTheCloudLittle(t *testing.T) {
	s := newSky()
	s.latency = 200 * time.Millisecond
	inWorld(t, s, nodesWithCIDRs(40), func(w *world) {
		w.pass(time.Minute)
		s.take()
		w.client.ClearActions()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range *storm {
			switch {
			case i == *storm/2:
				w.add(node("new", "", "10.120.50.0/24"))
			case i == *storm*5/6: // twenty seconds later
				if got := w.conditions()["new"]; got != routed {
					t.Errorf("a new node in the storm: %q", got)
				}
			case i%4 == 0:
				w.update("node-00", func(n *corev1.Node) {
					n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i/4%200+1)}}
				})
			default:
				w.update(fmt.Sprintf("node-%02d", i%39+1), func(n *corev1.Node) {
					n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Duration(i) * time.Second))
				})
			}
			if i%50 == 49 {
				w.pass(time.Minute * 50 / time.Duration(*storm))
			}
			if i%1000 == 999 {
				w.client.ClearActions() // client-go's fake keeps them
			}
		}
		w.pass(time.Second)
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("the heap has grown by %d bytes", grown)
		}
		calls := s.take()
		if lists, creates := count(calls, "list"), count(calls, "create"); lists > 15 || creates != 1 || len(calls) != lists+creates {
			t.Errorf("%d lists and %d creates of %d calls in a minute, want the one create of the new node", lists, creates, len(calls))
		}
	})
}
