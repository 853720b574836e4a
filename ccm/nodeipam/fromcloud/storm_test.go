package fromcloud

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var storm = flag.Int("events", 3_000, "how many events come in a minute")

// TestManyEventsInAMinuteCostAsManyReadsAsNodesThatWait: heartbeats cost nothing, also of nodes of which the cloud knows
// no range yet. A node that joins in the middle is served at once.
func TestManyEventsInAMinuteCostAsManyReadsAsNodesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, waiting = 200, 10
		w := newWorld()
		for i := range nodes {
			w.Put(reached(fmt.Sprintf("n%03d", i), fmt.Sprintf("10.1.%d.0/24", i)))
		}
		for i := range waiting {
			w.Put(nodeOf(fmt.Sprint("waits", i)))
		}
		c, stop := w.start(t.Context(), t)
		pass(time.Minute)
		reads, wrote, said := len(w.reads()), len(w.writes()), len(w.Events())
		for i := range *storm {
			name := fmt.Sprintf("n%03d", i%nodes)
			if i%4 == 0 {
				name = fmt.Sprint("waits", i/4%waiting)
			}
			switch i {
			case *storm / 2:
				w.say("new", "10.2.0.0/24")
				w.Put(nodeOf("new"))
			case *storm * 2 / 3: // ten seconds later
				if got := w.Node("new").Spec.PodCIDRs; len(got) != 1 {
					t.Error("a new node waits in the storm")
				}
			default:
				w.Change(name, func(n *corev1.Node) {
					n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Duration(i) * time.Second))
				})
			}
			if i%50 == 49 {
				pass(time.Minute * 50 / time.Duration(*storm))
			}
		}
		pass(time.Second)
		if n := len(w.reads()) - reads; n > 2*waiting+2 { // each waits for a minute between two reads by now
			t.Errorf("%d reads in a minute", n)
		}
		if n := len(w.writes()) - wrote; n != 2 {
			t.Errorf("%d writes, want the podCIDRs and the condition of the new node", n)
		}
		if n := len(w.Events()) - said; n > 0 {
			t.Errorf("%d more events", n)
		}
		if n := c.queue.Len(); n > waiting {
			t.Errorf("%d items are in the queue", n)
		}
		stop()
	})
}
