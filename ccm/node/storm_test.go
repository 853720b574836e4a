package node

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

var storm = flag.Int("events", 20_000, "how many events come in a minute")

// heap is what is in use, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestManyEventsInAMinuteCostAsManyCallsAsNodesNeed: heartbeats cost nothing, and nodes that change all the time while
// they are being initialised are read no more often than others. A node that joins in the middle is served at once.
func TestManyEventsInAMinuteCostAsManyCallsAsNodesNeed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const nodes, unready = 200, 10
		api := nodetest.New(many(nodes)...)
		c, provider := lister(1000)
		c.Latency = 200 * time.Millisecond
		unknown := instanceOf
		c.Instance = func(node *corev1.Node) (state cloud.InstanceState) {
			if state = unknown(node); node.Labels["cloud"] == "knows nothing" {
				state.Exists, state.Metadata = true, nil
			}
			return state
		}
		controller := start(t.Context(), t, api, provider)
		pass(time.Minute)
		if n := tainted(api); n != 0 {
			t.Fatalf("%d nodes are not initialised", n)
		}
		for i := range unready {
			api.Put(nodeWith(fmt.Sprintf("unready%d", i), withLabels(map[string]string{"cloud": "knows nothing"})))
		}
		pass(10 * time.Second)
		calls, wrote, before := len(c.Calls()), len(writes(api)), heap()
		for i := range *storm {
			switch {
			case i == *storm/2:
				api.Put(nodeWith("new"))
			case i == *storm*2/3 && hasCloudTaint(api.Node("new")): // ten seconds later
				t.Error("a new node waits in the storm")
			case i%4 == 3: // which is none of what is asked for
				api.Change(fmt.Sprintf("unready%d", i/4%unready), func(n *corev1.Node) {
					n.Annotations = map[string]string{"n": fmt.Sprint(i)}
				})
			default:
				api.Change(fmt.Sprintf("n%04d", i%nodes), func(n *corev1.Node) {
					n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Duration(i) * time.Second))
				})
			}
			if i%50 == 49 {
				pass(time.Minute * 50 / time.Duration(*storm))
			}
		}
		pass(time.Second)
		if grown := int64(heap()) - int64(before); grown > 16<<20 {
			t.Errorf("the heap has grown by %d bytes", grown)
		}
		if n := len(c.Calls()) - calls; n > 65 { // one a second, for those of which the cloud knows nothing yet
			t.Errorf("made %d calls", n)
		}
		if n := len(writes(api)) - wrote; n > 2 {
			t.Errorf("made %d writes, want the two of the new node", n)
		}
		if n := controller.queue.Len(); n > unready {
			t.Errorf("%d items are in the queue", n)
		}
		controller.stop()
	})
}
