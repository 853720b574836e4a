package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
)

func TestALoadBalancerThatIsDeletedOutOfBandIsMadeAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web", withUID("uid")))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.set(func() { delete(w.cloud.balancers, "uid") })
		w.settle(38 * time.Minute) // the period, and its spread
		w.want(activity{
			Calls:  []string{"get web", "ensure web [n1]"},
			Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
			Writes: []string{"patch services default/web"},
		})
		if diff := cmp.Diff(statusOf("192.0.2.2"), w.service("web").Status.LoadBalancer); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
}

func TestDriftRightAfterATakeoverIsFoundSoon(t *testing.T) {
	inWorld(t, func(w *world) {
		led(w).leave()
		uid := w.service("s1").UID
		w.start()
		w.cloud.set(func() { delete(w.cloud.balancers, uid) })
		w.settle(3*time.Minute + 5*time.Second)
		want := []string{"get s0", "get s1", "get s2", "ensure s1 [n1 n2]"}
		if diff := cmp.Diff(want, w.took().Calls, inAnyOrder); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestMembersThatAreTakenAwayOutOfBandAreFoundByEnsuringNowAndThen(t *testing.T) {
	for name, start := range map[string]func(w *world){
		"by the leader": func(*world) {},
		"by the next leader": func(w *world) {
			led(w).leave()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options.ResyncPeriod = time.Hour
				start(w)
				if w.service("s1") == nil {
					led(w)
				} else {
					w.start()
				}
				uid := w.service("s1").UID
				w.cloud.set(func() {
					b := w.cloud.balancers[uid]
					b.nodes = nil
					w.cloud.balancers[uid] = b
				})
				w.settle(75*time.Minute + 5*time.Second)
				if diff := cmp.Diff([]string{"n1", "n2"}, w.cloud.balancers[uid].nodes); diff != "" {
					t.Errorf("members (-want +got):\n%s", diff)
				}
				got := w.took()
				if len(got.Events)+len(got.Writes) != 0 {
					t.Errorf("ensuring without a reason made events %q and writes %q", got.Events, got.Writes)
				}
			})
		})
	}
}

func TestAResyncThatFailsIsToldAndTriedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.DriftPeriod, w.options.ResyncPeriod = 0, time.Hour
		w.add(node("n1"), service("web"))
		r := w.start()
		w.settle(10 * time.Second)
		w.took()
		var tries []time.Duration
		w.cloud.on(trying(&tries, errors.New("something went wrong")))
		w.settle(76 * time.Minute)
		if len(tries) < 2 || tries[1] != 5*time.Second {
			t.Errorf("tries %v, want the second after 5s", tries)
		}
		if got := w.took().Events[0]; got != "Warning SyncLoadBalancerFailed web" {
			t.Errorf("the first event is %q", got)
		}
		if lb, _ := r.controller.store.get("default/web"); lb.isInSync() {
			t.Error("it counts as being in line")
		}
		d, err := r.controller.state.read(context.Background())
		if err != nil || d == nil || len(d.Services) != 0 {
			t.Errorf("a next leader would believe that it is in line: %+v, %v", d, err)
		}
	})
}

func TestADayInWhichNothingHappens(t *testing.T) {
	const services = 20
	inWorld(t, func(w *world) {
		w.options.ResyncPeriod = 0
		w.add(node("n1"))
		for i := range services {
			w.add(service(fmt.Sprintf("s%02d", i)))
		}
		w.start()
		w.settle(time.Minute)
		w.took()
		for range 24 {
			w.settle(time.Hour)
			w.changeNode("n1", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime.Time = time.Now() })
		}
		writes := w.stateWrites()
		got := w.took()
		if len(got.Writes)+len(got.Events)+writes != 0 {
			t.Errorf("writes %q, events %q, %d writes of the state", got.Writes, got.Events, writes)
		}
		// Each load balancer is looked at every half hour.
		if n := len(got.Calls); n < services*40 || n > services*56 {
			t.Errorf("%d calls, want about %d", n, services*48)
		}
	})
}

func TestDriftIsLookedForNoFasterThanAllowed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.DriftPeriod, w.options.DriftQPS, w.options.ResyncPeriod = time.Minute, 0.5, 0
		w.cloud.slow(50 * time.Millisecond)
		w.add(node("n1"))
		for i := range 200 {
			w.add(service(fmt.Sprintf("s%03d", i)))
		}
		w.start()
		w.settle(2 * time.Minute)
		for range 10 {
			w.took()
			w.settle(time.Minute)
			if got := w.cloud.count("get"); got < 28 || got > 32 {
				t.Errorf("%d calls in a minute, want 30", got)
			}
		}
	})
}

func TestDriftIsNotLookedForWhenTurnedOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.DriftPeriod, w.options.ResyncPeriod = 0, 0
		led(w).leave()
		w.took()
		w.start()
		w.settle(100 * time.Hour)
		w.want(activity{})
	})
}

func TestALookThatFailsSaysNothingOfTheLoadBalancer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.ResyncPeriod = 0
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.on(failing("get", errors.New("the cloud is down")))
		w.settle(38 * time.Minute)
		w.want(activity{Calls: []string{"get web"}})
	})
}

func TestALoadBalancerThatIsNotAtItsAddressIsEnsured(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.ResyncPeriod = 0
		w.add(node("n1"), service("web", withUID("uid")))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.set(func() {
			w.cloud.balancers["uid"] = fakeBalancer{address: "192.0.2.77", port: 80, nodes: []string{"n1"}}
		})
		w.settle(38 * time.Minute)
		w.want(activity{
			Calls:  []string{"get web", "ensure web [n1]"},
			Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
			Writes: []string{"patch services default/web"},
		})
	})
}

func TestAProviderWhoseAnswersNeverAgreeIsNotEnsuredForEver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.ResyncPeriod = 0
		w.cloud.answers = func(*corev1.Service) *corev1.LoadBalancerStatus {
			return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}}
		}
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(24 * time.Hour)
		if got := w.cloud.count("ensure"); got > 2 {
			t.Errorf("%d calls, want at most 2", got)
		}
	})
}

// Some providers do not implement GetLoadBalancer and say that there is none.
func TestALoadBalancerThatIsNeverFoundIsNotEnsuredForEver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.ResyncPeriod = 0
		w.cloud.set(func() { w.cloud.blind = true })
		looks := func() float64 {
			n, err := testutil.GetCounterMetricValue(driftChecks.WithLabelValues("not_found"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := looks()
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(24 * time.Hour)
		if got := w.cloud.count("ensure"); got != 1+maxNotFound {
			t.Errorf("it was ensured %d times in a day, want %d", got, 1+maxNotFound)
		}
		counted, told := looks()-before, 0
		for _, event := range w.took().Events {
			if event == "Warning LoadBalancerNotFound web" {
				told++
			}
		}
		if want := 1 + int(counted-1)/notFoundLooks; counted < 2*notFoundLooks*3/4-maxNotFound || told != want {
			t.Errorf("%v looks in a day have not found it, and %d events say so, want %d", counted, told, want)
		}
		w.changeService("web", withPort(81))
		w.settle(time.Minute)
		w.want(activity{Calls: []string{"ensure web [n1]"}, Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"}})
	})
}

func TestALoadBalancerThatIsFoundAgainIsEnsuredWhenItIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.ResyncPeriod = 0
		w.add(node("n1"), service("web", withUID("uid")))
		w.start()
		for i := range 2 * maxNotFound {
			w.settle(38 * time.Minute) // it is found
			w.took()
			w.cloud.set(func() { delete(w.cloud.balancers, "uid") })
			w.settle(76 * time.Minute)
			if !slices.Contains(w.took().Calls, "ensure web [n1]") {
				t.Errorf("the load balancer is not made again when it is gone for time %d", i+1)
			}
		}
	})
}

func TestAStatusThatSomebodyTakesAwayIsRepairedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.changeService("web", func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} })
		w.want(activity{Writes: []string{"patch services default/web"}})
		if diff := cmp.Diff(statusOf("192.0.2.1"), w.service("web").Status.LoadBalancer); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
}

func TestTwoWritersOfAStatusDoNotKeepTheAPIServerBusy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.DriftPeriod, w.options.ResyncPeriod = 0, 0
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.took()
		for range 3600 {
			if w.service("web").Status.LoadBalancer.Ingress[0].IP != "198.51.100.1" {
				w.changeService("web", withAddress("198.51.100.1"))
			}
			w.settle(time.Second)
		}
		if got := len(w.took().Writes); got < 5 || got > 20 {
			t.Errorf("%d writes in an hour, want a growing back-off", got)
		}
	})
}
