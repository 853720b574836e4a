package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/ccm/election"
)

func TestAProviderThatPanicsIsToldAndDoesNotStopOthers(t *testing.T) {
	for _, call := range []string{"ensure", "update", "get", "delete"} {
		t.Run(call, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options.DriftPeriod = time.Minute
				w.add(node("n1"), service("bad"), service("good"))
				w.cloud.on(func(_ context.Context, c, name string) error {
					if c == call && name == "bad" {
						panic("out of luck")
					}
					return nil
				})
				w.start()
				w.settle(time.Second)
				w.add(node("n2"))
				w.settle(2 * time.Minute)
				w.mu.Lock()
				messages := strings.Join(w.messages, "; ")
				w.mu.Unlock()
				w.deleteService("bad")
				w.deleteService("good")
				w.settle(time.Second)
				w.mu.Lock()
				messages += strings.Join(w.messages, "; ")
				w.mu.Unlock()
				if w.service("good") != nil {
					t.Error("the other Service was not served")
				}
				if !strings.Contains(messages, "the cloud provider panicked in") || !strings.Contains(messages, "out of luck") {
					t.Errorf("the events do not say what is wrong: %s", messages)
				}
				if gone := w.service("bad") == nil; gone != (call == "ensure" || call == "update") {
					t.Errorf("the bad Service is gone: %t", gone)
				}
			})
		})
	}
}

func TestAStatusOfNilIsAnErrorAndTakesNoAddressAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.answers = func(*corev1.Service) *corev1.LoadBalancerStatus { return nil }
		w.add(node("n1"), service("web", withFinalizer, withAddress("192.0.2.1")))
		w.start()
		w.settle(time.Second)
		w.want(activity{Calls: []string{"ensure web [n1]"}, Events: []string{"Normal EnsuringLoadBalancer web", "Warning SyncLoadBalancerFailed web"}})
		if diff := cmp.Diff(statusOf("192.0.2.1"), w.service("web").Status.LoadBalancer); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
}

func TestWhatSomebodyElseImplementsIsLeftToThem(t *testing.T) {
	elsewhere := fmt.Errorf("class external: %w", cloudprovider.ImplementedElsewhere)
	inWorld(t, func(w *world) {
		w.cloud.on(func(context.Context, string, string) error { return elsewhere })
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.want(activity{Calls: []string{"ensure web [n1]"}, Events: []string{"Normal EnsuringLoadBalancer web"}, Writes: []string{"patch services default/web"}})
		w.add(node("n2"))
		w.settle(24 * time.Hour)
		w.want(activity{})
		w.changeService("web", withAddress("198.51.100.1")) // by the one who implements it
		w.settle(time.Minute)
		w.want(activity{})
		w.deleteService("web")
		w.settle(time.Minute)
		w.want(activity{Calls: []string{"get web"}, Events: []string{"Normal DeletedLoadBalancer web"}, Writes: []string{"patch services default/web"}})
	})
}

func TestAnUpdateThatSomebodyElseImplementsIsNone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.on(failing("update", fmt.Errorf("wrapped: %w", cloudprovider.ImplementedElsewhere)))
		w.add(node("n2"))
		w.settle(20 * time.Second)
		w.want(activity{Calls: []string{"update web [n1 n2]"}})
	})
}

func TestWhatIsFencedIsNeitherToldNorTriedAgain(t *testing.T) {
	for _, call := range []string{"ensure", "update", "get", "delete"} {
		t.Run(call, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.options.DriftPeriod, w.options.ResyncPeriod = 0, 0
				w.add(node("n1"), service("web"))
				if call != "ensure" {
					led := w.start()
					w.settle(time.Second)
					defer led.stop()
				} else {
					defer w.start().stop()
					w.settle(time.Second)
					w.changeService("web", withPort(81))
				}
				w.took()
				w.cloud.on(failing(call, fmt.Errorf("calling: %w", election.ErrFenced)))
				switch call {
				case "ensure":
					w.changeService("web", withPort(82))
				case "update":
					w.add(node("n2"))
				default:
					w.deleteService("web")
				}
				w.settle(time.Hour)
				got := w.took()
				for _, event := range got.Events {
					if strings.HasPrefix(event, "Warning") {
						t.Errorf("event %q", event)
					}
				}
				if n := len(got.Calls); n < 1 || n > 2 {
					t.Errorf("calls %q", got.Calls)
				}
			})
		})
	}
}

func TestLoadBalancersThatHangDoNotKeepOthersWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.workers = 2
		w.cloud.on(func(ctx context.Context, _, name string) error {
			if !strings.HasPrefix(name, "stuck") {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		w.add(node("n1"))
		for i := range 6 {
			w.add(service(fmt.Sprintf("stuck%d", i)))
		}
		r := w.start()
		w.settle(time.Second)
		w.add(service("web"))
		w.settle(31 * time.Second)
		if w.service("web").Status.LoadBalancer.Ingress == nil {
			t.Error("a Service waits for those that hang")
		}
		if err := r.controller.HealthChecker().Check(nil); err != nil {
			t.Errorf("unhealthy too soon: %v", err)
		}
		w.deleteService("web")
		w.settle(time.Second)
		if w.service("web") != nil {
			t.Error("a Service that is being deleted waits for those that hang")
		}
		w.settle(21 * time.Minute)
		if err := r.controller.HealthChecker().Check(nil); err == nil || !strings.Contains(err.Error(), "service default/stuck") {
			t.Errorf("health says %v, want the Service that is stuck", err)
		}
		if got := w.cloud.count("ensure stuck"); got != 6 {
			t.Errorf("%d calls for 6 load balancers that hang: more than one at a time", got)
		}
		r.fence.Revoke("the test is over")
	})
}

func TestOneWorkerIsObeyed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.workers = 1
		running, most := 0, 0
		w.cloud.on(func(context.Context, string, string) error {
			running++
			most = max(most, running)
			pass(time.Minute)
			running--
			return nil
		})
		w.add(node("n1"), service("s0"), service("s1"), service("s2"))
		w.start()
		w.settle(10 * time.Minute)
		if most != 1 || w.cloud.count("ensure") != 3 {
			t.Errorf("%d at once in %d calls, want 1 in 3", most, w.cloud.count("ensure"))
		}
	})
}

func TestDrainingFinishesWhatHasBegunAndBeginsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.workers = 1
		w.cloud.slow(20 * time.Second)
		w.add(node("n1"), service("s0"), service("s1"))
		r := w.start()
		w.settle(time.Second)
		begun := time.Now()
		r.stop()
		if took := time.Since(begun); took < 18*time.Second || took > 20*time.Second {
			t.Errorf("draining took %s, want what was left of the one call", took)
		}
		got := w.took()
		if len(got.Calls) != 1 || len(got.Writes) != 2 {
			t.Errorf("calls %q, writes %q: want one call, and its finalizer and status", got.Calls, got.Writes)
		}
		d, err := r.controller.state.read(context.Background())
		if err != nil || d == nil || len(d.Services) != 1 {
			t.Errorf("what was finished is not noted: %+v, %v", d, err)
		}
	})
}

func TestACleanupThatCannotLookIsToldAndTriedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.on(failing("get", errors.New("the cloud is down")))
		w.deleteService("web")
		w.settle(time.Second)
		w.want(activity{Calls: []string{"get web"}, Events: []string{"Warning SyncLoadBalancerFailed web"}})
		w.cloud.on(nil)
		w.settle(5 * time.Second)
		w.want(activity{
			Calls:  []string{"get web", "delete web"},
			Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web"},
			Writes: []string{"patch services default/web"},
		})
	})
}

// Its address is paid for, and a namespace that is being deleted waits for it.
func TestADeletionIsTriedSoonAfterALongOutage(t *testing.T) {
	withoutFinalizer := func(s *corev1.Service) { s.Finalizers = nil }
	for _, c := range []struct {
		name string
		end  func(*world)
	}{
		{"its Service is deleted", func(w *world) { w.deleteService("web") }},
		{"its Service is deleted, and its finalizer is taken away in the middle of that", func(w *world) {
			w.deleteService("web")
			w.settle(time.Minute)
			w.changeService("web", withoutFinalizer)
			w.deleteService("web")
		}},
		{"its Service is of another type", func(w *world) { w.changeService("web", withType(corev1.ServiceTypeClusterIP)) }},
		{"its Service is of another type and has no finalizer", func(w *world) {
			w.changeService("web", func(s *corev1.Service) { withType(corev1.ServiceTypeClusterIP)(s); withoutFinalizer(s) })
		}},
		{"its Service is of another class and has no finalizer", func(w *world) {
			w.changeService("web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other"); withoutFinalizer(s) })
		}},
		{"another Service has its name", func(w *world) {
			w.changeService("web", withoutFinalizer)
			w.deleteService("web")
			w.add(service("web", withUID("another")))
		}},
	} {
		for outage := 30 * time.Minute; outage < 35*time.Minute; outage += maxDeleteDelay { // where the next try would be within five minutes
			t.Run(c.name+" for "+outage.String(), func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.add(node("n1"), service("web"))
					w.start()
					w.settle(time.Second)
					w.took()
					w.cloud.on(failing("delete", errors.New("the cloud is down")))
					c.end(w)
					w.settle(outage)
					w.took()
					w.cloud.on(nil)
					w.settle(maxDeleteDelay)
					if got := w.took().Calls; !slices.Contains(got, "delete web") {
						t.Errorf("the load balancer is not deleted within %s of the end of the outage: calls %q", maxDeleteDelay, got)
					}
				})
			})
		}
	}
}

// Each try of it withdraws what is noted, and a look in between would not wait for the next one.
func TestALoadBalancerThatIsBeingDeletedIsNotDueForALook(t *testing.T) {
	now := time.Now()
	k := newStore()
	lb := lbState{uid: "uid", spec: "spec", stored: &corev1.LoadBalancerStatus{}, check: now.Add(-time.Minute)}
	k.putLBState("default/kept", lb)
	lb.cleaning = true
	k.putLBState("default/leaving", lb)
	if keys, _ := k.dueKeys(now, nil); !slices.Equal(keys, []string{"default/kept"}) {
		t.Errorf("due are %q", keys)
	}
}
