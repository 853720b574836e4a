package service

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"
)

func TestServiceLivesAndGoes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), node("n2"))
		w.start()
		w.add(service("web", withUID("web-uid")))
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"ensure web [n1 n2]"},
			Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
			Writes: []string{"patch services default/web", "patch services default/web"},
		})
		s := w.service("web")
		if diff := cmp.Diff(statusOf("192.0.2.1"), s.Status.LoadBalancer); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string(nil), s.Labels); diff != "" {
			t.Errorf("what the provider did to its Service is in the API:\n%s", diff)
		}

		w.changeService("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 443 })
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"ensure web [n1 n2]"},
			Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
		})
		if diff := cmp.Diff([]string{"web-uid 192.0.2.1 :443 [n1 n2]"}, w.cloud.has()); diff != "" {
			t.Errorf("cloud (-want +got):\n%s", diff)
		}

		w.deleteService("web")
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"get web", "delete web"},
			Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web"},
			Writes: []string{"patch services default/web"},
		})
		if w.service("web") != nil || len(w.cloud.has()) != 0 {
			t.Errorf("left: %v, %v", w.service("web"), w.cloud.has())
		}
		w.settle(time.Hour)
		w.want(activity{})
	})
}

func TestAServiceChangesItsType(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web", withUID("uid")))
		w.start()
		w.settle(time.Second)
		w.took()
		w.changeService("web", withType(corev1.ServiceTypeClusterIP))
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"get web", "delete web"},
			Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web"},
			Writes: []string{"patch services default/web"},
		})
		if s := w.service("web"); len(s.Finalizers) != 0 || len(s.Status.LoadBalancer.Ingress) != 0 {
			t.Errorf("left: finalizers %q, status %v", s.Finalizers, s.Status)
		}
		w.changeService("web", withType(corev1.ServiceTypeLoadBalancer))
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"ensure web [n1]"},
			Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
			Writes: []string{"patch services default/web", "patch services default/web"},
		})
		w.changeService("web", withType(corev1.ServiceTypeExternalName))
		w.changeService("web", withType(corev1.ServiceTypeLoadBalancer)) // before anything was done
		w.settle(time.Minute)
		if ingress := w.service("web").Status.LoadBalancer.Ingress; len(ingress) != 1 || ingress[0].IP != w.cloud.balancers["uid"].address {
			t.Errorf("status %v, want the address of the load balancer in %v", ingress, w.cloud.has())
		}
	})
}

func TestAServiceGoesToSomebodyElsesClass(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.took()
		// The API server lets the class change together with the type only, and both changes may come as one.
		w.changeService("web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other") })
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"get web", "delete web"},
			Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web"},
			Writes: []string{"patch services default/web"},
		})
		w.changeService("web", withAddress("198.51.100.1"))
		w.settle(time.Hour)
		w.want(activity{})
	})
}

func TestAServiceIsDeletedWhileItsLoadBalancerIsBeingMade(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.slow(30 * time.Second)
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.deleteService("web")
		w.settle(5 * time.Minute)
		if diff := cmp.Diff([]string{"ensure web [n1]", "get web", "delete web"}, w.took().Calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if w.service("web") != nil || len(w.cloud.has()) != 0 {
			t.Errorf("left: %v, %v", w.service("web"), w.cloud.has())
		}
	})
}

func TestAServiceIsChangedWhileItsLoadBalancerIsBeingMade(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.slow(30 * time.Second)
		w.add(node("n1"), service("web", withUID("uid")))
		w.start()
		w.settle(time.Second)
		w.changeService("web", withPort(81))
		w.settle(time.Second)
		w.changeService("web", withPort(82))
		w.settle(5 * time.Minute)
		if diff := cmp.Diff([]string{"ensure web [n1]", "ensure web [n1]"}, w.took().Calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"uid 192.0.2.1 :82 [n1]"}, w.cloud.has()); diff != "" {
			t.Errorf("cloud (-want +got):\n%s", diff)
		}
	})
}

func TestAChangeThatIsTakenBackCostsNoCall(t *testing.T) {
	inWorld(t, func(w *world) {
		w.workers = 1
		w.add(node("n1"), service("s0"), service("s1"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.slow(30 * time.Second)
		w.changeService("s0", withPort(81))
		w.settle(time.Second) // the worker is busy
		w.changeService("s1", withPort(81))
		w.changeService("s1", withPort(80))
		w.settle(5 * time.Minute)
		if diff := cmp.Diff([]string{"ensure s0 [n1]"}, w.took().Calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestAServiceIsMadeAgainByTheSameName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web", withUID("old")))
		w.start()
		w.settle(time.Second)
		w.took()
		w.changeService("web", func(s *corev1.Service) { s.Finalizers = nil }) // or it could not go so quickly
		w.deleteService("web")
		w.add(service("web", withUID("new")))
		w.settle(time.Second)
		w.want(activity{
			Calls: []string{"delete web", "ensure web [n1]"},
			Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web",
				"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
			Writes: []string{"patch services default/web", "patch services default/web"},
		})
		if diff := cmp.Diff([]string{"new 192.0.2.2 :80 [n1]"}, w.cloud.has()); diff != "" {
			t.Errorf("cloud (-want +got):\n%s", diff)
		}
	})
}

func TestALoadBalancerThatSomebodyWantsToKeepIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web", withUID("uid")))
		w.start()
		w.settle(time.Second)
		w.took()
		w.changeService("web", func(s *corev1.Service) { s.Finalizers = nil })
		w.settle(time.Second)
		w.deleteService("web")
		w.settle(100 * time.Hour)
		w.want(activity{})
		if diff := cmp.Diff([]string{"uid 192.0.2.1 :80 [n1]"}, w.cloud.has()); diff != "" {
			t.Errorf("cloud (-want +got):\n%s", diff)
		}
	})
}

func TestWhatDoesNotConcernTheLoadBalancerDoesNotShortenItsBackOff(t *testing.T) {
	inWorld(t, func(w *world) {
		var tries []time.Duration
		w.cloud.on(trying(&tries, errors.New("something went wrong")))
		w.add(node("n1"), service("web"))
		w.start()
		for i := range 14 {
			w.settle(time.Second)
			w.changeService("web", func(s *corev1.Service) { s.Labels = map[string]string{"i": fmt.Sprint(i)} })
			w.add(node(fmt.Sprintf("m%d", i)))
		}
		if diff := cmp.Diff([]time.Duration{0, 5 * time.Second}, tries); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
		w.changeService("web", withPort(81)) // what does, does
		w.settle(0)
		if len(tries) != 3 {
			t.Errorf("%d tries after the Service was corrected, want 3", len(tries))
		}
	})
}

func TestAnAPIServerThatDropsWhatItDoesNotKnowIsNotPatchedForEver(t *testing.T) {
	inWorld(t, func(w *world) {
		proxy := corev1.LoadBalancerIPModeProxy
		w.dropsModes = true
		w.cloud.answers = func(*corev1.Service) *corev1.LoadBalancerStatus {
			return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &proxy}}}
		}
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(24 * time.Hour)
		if got := len(w.took().Writes); got > 5 { // finalizer, status, and at most one more for each time that it is ensured
			t.Errorf("%d writes", got)
		}
	})
}

func TestAnOldPatchDoesNotReachAnotherServiceByTheSameName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.slow(10 * time.Second)
		w.add(node("n1"), service("web", withUID("old")))
		w.start()
		w.settle(time.Second)
		w.changeService("web", func(s *corev1.Service) { s.Finalizers = nil })
		w.deleteService("web")
		w.add(service("web", withUID("new"), func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other") }))
		w.settle(time.Hour)
		if s := w.service("web"); len(s.Finalizers) != 0 || len(s.Status.LoadBalancer.Ingress) != 0 {
			t.Errorf("somebody else's Service got finalizers %q and status %v", s.Finalizers, s.Status.LoadBalancer)
		}
	})
}

func TestTwoServicesDoNotWaitForEachOther(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.on(func(_ context.Context, _, name string) error {
			if name == "slow" {
				pass(5 * time.Minute)
			}
			return nil
		})
		w.add(node("n1"), service("slow"), service("quick"))
		w.start()
		w.settle(time.Second)
		if len(w.service("quick").Status.LoadBalancer.Ingress) == 0 {
			t.Error("one Service waits for another")
		}
		w.settle(10 * time.Minute)
		if len(w.service("slow").Status.LoadBalancer.Ingress) == 0 {
			t.Error("the slow one was not served")
		}
	})
}

func TestAServiceThatIsForcedAwayBeforeItWasServedLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.on(func(_ context.Context, call, _ string) error {
			if call == "ensure" {
				w.cloud.set(func() { w.cloud.balancers["uid"] = fakeBalancer{address: "192.0.2.1", port: 80} })
				return errors.New("half-way")
			}
			return nil
		})
		w.add(node("n1"), service("web", withUID("uid")))
		w.start()
		w.settle(time.Second)
		w.took()
		w.changeService("web", func(s *corev1.Service) { s.Finalizers = nil })
		w.deleteService("web")
		w.settle(10 * time.Second)
		w.want(activity{Calls: []string{"delete web"}, Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web"}})
		if diff := cmp.Diff([]string(nil), w.cloud.has()); diff != "" {
			t.Errorf("cloud (-want +got):\n%s", diff)
		}
	})
}

func TestAServiceThatIsForcedAwayWhileItIsServedLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.slow(30 * time.Second)
		w.add(node("n1"), service("web", withUID("uid")))
		w.start()
		w.settle(time.Second)
		w.changeService("web", func(s *corev1.Service) { s.Finalizers = nil })
		w.deleteService("web")
		w.settle(5 * time.Minute)
		if diff := cmp.Diff([]string{"ensure web [n1]", "delete web"}, w.took().Calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string(nil), w.cloud.has()); diff != "" {
			t.Errorf("cloud (-want +got):\n%s", diff)
		}
	})
}

func TestEventsComeFromWhereUpstreamsDo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.realEvents = true
		w.cloud.slow(time.Second) // events are named by their times
		w.add(node("n1"), service("web"))
		r := w.start()
		w.settle(3 * time.Second)
		events, err := w.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, e := range events.Items {
			got[e.Reason] = e.Source.Component + ": " + e.Message
		}
		want := map[string]string{
			"EnsuringLoadBalancer": "service-controller: Ensuring load balancer",
			"EnsuredLoadBalancer":  "service-controller: Ensured load balancer",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		r.stop()
	})
}

func TestTheMetricsSayWhatIsPending(t *testing.T) {
	inWorld(t, func(w *world) {
		pending := func() float64 {
			synctest.Wait()
			v, err := testutil.GetGaugeMetricValue(pendingServices)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		w.cloud.slow(30 * time.Second)
		w.add(node("n1"), service("s0"), service("s1"))
		w.start()
		w.settle(time.Second)
		if got := pending(); got != 2 {
			t.Errorf("%v Services are pending while two are made", got)
		}
		w.settle(time.Minute)
		if got := pending(); got != 0 {
			t.Errorf("%v Services are pending when all is done", got)
		}
		w.deleteService("s0")
		w.settle(time.Second)
		if got := pending(); got != 1 {
			t.Errorf("%v Services are pending while one is deleted", got)
		}
		w.settle(2 * time.Minute)
		if got := pending(); got != 0 {
			t.Errorf("%v Services are pending after it was", got)
		}
	})
}
