package service

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

var storm = flag.Int("events", 20_000, "how many events come in a minute")

// blow brings so many events in a minute. A watch of client-go's fake holds a hundred.
func blow(events int, next func(i int)) {
	for i := range events {
		next(i)
		if i%50 == 49 {
			pass(time.Minute * 50 / time.Duration(events))
			synctest.Wait()
		}
	}
}

// heap is what is in use, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestManyEventsInAMinuteThatDoNotMatterCostNothing: heartbeats of nodes, and changes of Services that concern no load
// balancer. A Service that is made in the middle of them is served at once.
func TestManyEventsInAMinuteThatDoNotMatterCostNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.DriftPeriod, w.options.ResyncPeriod = 0, 0
		for i := range 40 {
			w.add(node(fmt.Sprintf("n%02d", i)), service(fmt.Sprintf("s%02d", i)))
		}
		r := w.start()
		w.settle(5 * time.Minute)
		if got := len(w.cloud.has()); got != 40 {
			t.Fatalf("%d load balancers", got)
		}
		w.took()
		before := heap()
		blow(*storm, func(i int) {
			switch {
			case i == *storm/2:
				w.add(service("new"))
			case i == *storm/2+200 && w.service("new").Status.LoadBalancer.Ingress == nil:
				t.Error("a new Service waits in the storm")
			case i%2 == 0:
				w.changeNode(fmt.Sprintf("n%02d", i/2%40), func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() })
			default:
				w.changeService(fmt.Sprintf("s%02d", i/2%40), func(s *corev1.Service) { s.Labels = map[string]string{"n": fmt.Sprint(i)} })
			}
		})
		w.settle(5 * time.Minute)
		if grown := int64(heap()) - int64(before); grown > 16<<20 {
			t.Errorf("the heap has grown by %d bytes", grown)
		}
		got := w.took()
		if len(got.Calls) > 2 || len(got.Writes) > 2 {
			t.Errorf("calls %v, writes %v, want those of the new Service", got.Calls, got.Writes)
		}
		if err := r.controller.HealthChecker().Check(nil); err != nil {
			t.Errorf("health: %v", err)
		}
	})
}

// TestManyChangesOfAFewServicesInAMinuteAreAsManyCallsAsTheCloudCanAnswer: what comes during a call is one call after it,
// with the newest state, and no other Service waits.
func TestManyChangesOfAFewServicesInAMinuteAreAsManyCallsAsTheCloudCanAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		const latency, busy = 500 * time.Millisecond, 4
		w.workers = 2
		w.options.DriftPeriod, w.options.ResyncPeriod = 0, 0
		ports := map[string]int32{}
		w.cloud.slow(latency)
		w.add(node("n1"))
		for i := range busy {
			w.add(service(fmt.Sprintf("busy%d", i)))
		}
		w.start()
		w.settle(time.Minute)
		w.took()
		blow(*storm, func(i int) {
			switch name := fmt.Sprintf("busy%d", i%busy); i {
			case *storm / 2:
				w.add(service("new"))
			case *storm * 3 / 4: // a quarter of a minute later
				if w.service("new").Status.LoadBalancer.Ingress == nil {
					t.Error("a new Service waits for those that change")
				}
			default:
				ports[name] = int32(1000 + i%20_000)
				w.changeService(name, func(s *corev1.Service) { s.Spec.Ports[0].Port = ports[name] })
			}
		})
		w.settle(10 * time.Second)
		if got, most := w.cloud.count("ensure busy"), busy*int(time.Minute/latency)+2*busy; got > most || got < busy {
			t.Errorf("%d calls, the cloud can answer %d", got, most)
		}
		for name, port := range ports {
			var got int32
			w.cloud.set(func() { got = w.cloud.balancers[w.service(name).UID].port })
			if got != port {
				t.Errorf("the load balancer of %s has port %d, want the last one, %d", name, got, port)
			}
		}
	})
}
