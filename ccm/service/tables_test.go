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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"
)

// The tables of this file are those of upstream's tests of its service controller, run against a controller that runs. Calls and writes are upper
// bounds there, and what is expected here is never more.

func TestWhatEachKindOfServiceGets(t *testing.T) {
	protocol := func(p corev1.Protocol) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Ports[0].Protocol = p }
	}
	made := activity{
		Calls:  []string{"ensure web [n1]"},
		Events: []string{"Normal EnsuringLoadBalancer web", "Normal EnsuredLoadBalancer web"},
		Writes: []string{"patch services default/web", "patch services default/web"}, // finalizer, status
	}
	deleted := activity{
		Calls:  []string{"get web", "delete web"},
		Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web"},
		Writes: []string{"patch services default/web"}, // upstream needs two
	}
	for _, tc := range []struct {
		name    string
		service *corev1.Service
		exists  bool
		want    activity
	}{
		{"one that wants no load balancer gets nothing", service("web", withType(corev1.ServiceTypeClusterIP)), false, activity{}},
		{"one for UDP gets a load balancer", service("web", protocol(corev1.ProtocolUDP)), false, made},
		{"one for TCP gets a load balancer", service("web"), false, made},
		{"one for SCTP gets a load balancer", service("web", protocol(corev1.ProtocolSCTP)), false, made},
		{"one of somebody else's class gets nothing", service("web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("x") }), false, activity{}},
		{"one with the finalizer that wants no load balancer any more loses it",
			service("web", withType(corev1.ServiceTypeClusterIP), withAddress("192.0.2.9"), withFinalizer), true, deleted},
		{"one that is being deleted loses it", service("web", withAddress("192.0.2.9"), withFinalizer, beingDeleted), true, deleted},
		{"one with the finalizer gets a load balancer and no second finalizer", service("web", withFinalizer), false,
			activity{Calls: made.Calls, Events: made.Events, Writes: made.Writes[:1]}},
		{"one that is being deleted without a load balancer in the cloud is let go", service("web", withFinalizer, beingDeleted), false,
			activity{Calls: []string{"get web"}, Events: []string{"Normal DeletedLoadBalancer web"}, Writes: made.Writes[:1]}},
		{"one that is being deleted and is somebody else's to let go is left alone",
			service("web", beingDeleted, func(s *corev1.Service) { s.Finalizers = []string{"example.com/other"} }), true, activity{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if tc.service.DeletionTimestamp != nil {
					beingDeleted(tc.service) // in the bubble's time
				}
				tc.service.UID = "web-uid"
				if tc.exists {
					w.cloud.balancers["web-uid"] = fakeBalancer{address: "192.0.2.9", port: 80}
				}
				w.add(node("n1"), tc.service)
				w.start()
				w.settle(time.Minute - time.Second)
				w.want(tc.want)
			})
		})
	}
}

func TestWhichLoadBalancersGetNewNodes(t *testing.T) {
	clusterIP, nodePort := withType(corev1.ServiceTypeClusterIP), withType(corev1.ServiceTypeNodePort)
	for _, tc := range []struct {
		name     string
		workers  int
		services []*corev1.Service
		want     []string
	}{
		{"there are no Services", 1, nil, nil},
		{"none has a load balancer", 2, []*corev1.Service{service("s0", clusterIP), service("s1", nodePort)}, nil},
		{"one has", 3, []*corev1.Service{service("s0")}, []string{"update s0 [n1 n2 n3]"}},
		{"three have", 4, []*corev1.Service{service("s0"), service("s1"), service("s2")},
			[]string{"update s0 [n1 n2 n3]", "update s1 [n1 n2 n3]", "update s2 [n1 n2 n3]"}},
		{"two of four have", 5, []*corev1.Service{service("s0", nodePort), service("s1"), service("s3"), service("s4", clusterIP)},
			[]string{"update s1 [n1 n2 n3]", "update s3 [n1 n2 n3]"}},
		{"one has, one is somebody else's", 6, []*corev1.Service{service("s0"), service("s1", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("x") })},
			[]string{"update s0 [n1 n2 n3]"}},
		{"four have, for two workers", 2, []*corev1.Service{service("s0"), service("s1"), service("s3"), service("s4")},
			[]string{"update s0 [n1 n2 n3]", "update s1 [n1 n2 n3]", "update s3 [n1 n2 n3]", "update s4 [n1 n2 n3]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.workers = tc.workers
				for _, s := range tc.services {
					w.add(s)
				}
				w.start()
				w.settle(time.Second)
				w.took()
				w.add(node("n1"), node("n2"), node("n3"))
				w.settle(3 * time.Second)
				got := w.took().Calls
				slices.Sort(got)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWhichChangesOfNodesReachLoadBalancers(t *testing.T) {
	local := func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	change := func(name string, change func(*corev1.Node)) func(*world) {
		return func(w *world) { w.changeNode(name, change) }
	}
	for _, tc := range []struct {
		name    string
		initial []*corev1.Node
		change  func(*world)
		want    string // of each load balancer; empty for no call
	}{
		{"none", []*corev1.Node{node("n1"), node("n2"), node("n3")}, func(*world) {}, ""},
		{"one joins", []*corev1.Node{node("n1"), node("n2")}, func(w *world) { w.add(node("n3")) }, "[n1 n2 n3]"},
		{"one becomes not ready", []*corev1.Node{node("n1"), node("n2"), node("n3")}, change("n2", withReady(corev1.ConditionFalse)), ""},
		{"one becomes ready", []*corev1.Node{node("n1"), node("n2", withReady(corev1.ConditionFalse)), node("n3")},
			change("n2", withReady(corev1.ConditionTrue)), ""},
		// Upstream does not look at this either; its table calls what looks at all nodes. Then the node is left out, as it is here.
		{"one is about to be deleted by the autoscaler", []*corev1.Node{node("n1"), node("n2"), node("n3")}, change("n2", withTaint(taintToBeDeleted)), ""},
		{"one is about to be deleted by the autoscaler, and another joins", []*corev1.Node{node("n1"), node("n2"), node("n3")}, func(w *world) {
			w.changeNode("n2", withTaint(taintToBeDeleted))
			w.add(node("n4"))
		}, "[n1 n3 n4]"},
		{"one is excluded", []*corev1.Node{node("n1"), node("n2"), node("n3")}, change("n2", withLabel(corev1.LabelNodeExcludeBalancers, "")), "[n1 n3]"},
		{"one goes", []*corev1.Node{node("n1"), node("n2"), node("n3")}, func(w *world) { w.deleteNode("n3") }, "[n1 n2]"},
		{"one's deletion begins, and it goes", []*corev1.Node{node("n1"), node("n2"), node("n3")}, func(w *world) {
			w.changeNode("n2", nodeBeingDeleted)
			w.deleteNode("n2")
		}, "[n1 n3]"},
		{"one gets some taint", []*corev1.Node{node("n1"), node("n2"), node("n3")}, change("n2", withTaint("other")), ""},
		{"all get provider IDs", []*corev1.Node{node("n1", withProviderID("")), node("n2", withProviderID(""))}, func(w *world) {
			w.changeNode("n1", withProviderID("cumulus/1"))
			w.changeNode("n2", withProviderID("cumulus/2"))
		}, "[n1 n2]"},
		{"one is replaced by another without a provider ID", []*corev1.Node{node("n1"), node("n2", withProviderID(""))}, func(w *world) {
			w.deleteNode("n2")
			w.add(node("n3", withProviderID("")))
		}, "[n1 n3]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				for _, n := range tc.initial {
					w.add(n)
				}
				w.add(service("s0", local), service("s1", local), service("s2"))
				w.start()
				w.settle(time.Second)
				w.took()
				tc.change(w)
				w.settle(20 * time.Second)
				got := w.took().Calls
				slices.Sort(got)
				var want []string
				for _, s := range []string{"s0", "s1", "s2"} {
					if tc.want != "" {
						want = append(want, "update "+s+" "+tc.want)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLoadBalancersFollowAGrowingCluster(t *testing.T) {
	inWorld(t, func(w *world) {
		w.workers = 1
		w.add(service("s0"))
		w.start()
		w.settle(time.Second)
		w.want(activity{
			Calls:  []string{"ensure s0 []"},
			Events: []string{"Normal EnsuringLoadBalancer s0", "Warning UnAvailableLoadBalancer s0", "Normal EnsuredLoadBalancer s0"},
			Writes: []string{"patch services default/s0", "patch services default/s0"},
		})
		for i, hosts := range []string{"[n1]", "[n1 n2]", "[n1 n2 n3]"} {
			w.add(node(fmt.Sprintf("n%d", i+1)))
			w.settle(20 * time.Second)
			w.want(activity{Calls: []string{"update s0 " + hosts}, Events: []string{"Normal UpdatedLoadBalancer s0"}})
		}
		for _, n := range []string{"n1", "n2", "n3"} {
			w.deleteNode(n)
		}
		w.settle(20 * time.Second)
		w.want(activity{Calls: []string{"update s0 []"}, Events: []string{"Warning UnAvailableLoadBalancer s0"}})
	})
}

func TestAnUpdateThatFailsIsEnsuredAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("s0"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.on(failing("update", errors.New("error please")))
		w.add(node("n2"))
		w.settle(4 * time.Second)
		w.want(activity{
			Calls:  []string{"update s0 [n1 n2]", "get s0", "ensure s0 [n1 n2]"},
			Events: []string{"Warning UpdateLoadBalancerFailed s0", "Normal EnsuringLoadBalancer s0", "Normal EnsuredLoadBalancer s0"},
		})
		w.settle(20 * time.Second)
		w.want(activity{})
	})
}

func TestAnUpdateForWhichTheProviderAsksForTimeIsNotEnsuredBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("s0"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.on(failing("update", api.NewRetryError("another change is under way", 30*time.Second)))
		w.add(node("n2"))
		w.settle(4 * time.Second)
		w.want(activity{Calls: []string{"update s0 [n1 n2]"}})
		w.settle(30 * time.Second)
		w.want(activity{Calls: []string{"ensure s0 [n1 n2]"}, Events: []string{"Normal EnsuringLoadBalancer s0", "Normal EnsuredLoadBalancer s0"}})
	})
}

func TestAnUpdateOfALoadBalancerThatIsGoneMakesItAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("s0", withUID("uid")))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.set(func() { delete(w.cloud.balancers, "uid") })
		w.add(node("n2"))
		w.settle(4 * time.Second)
		w.want(activity{
			Calls:  []string{"update s0 [n1 n2]", "get s0", "ensure s0 [n1 n2]"},
			Events: []string{"Normal EnsuringLoadBalancer s0", "Normal EnsuredLoadBalancer s0"},
			Writes: []string{"patch services default/s0"}, // its address is another
		})
	})
}

func TestAStatusThatCannotBeWritten(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	conflict := apierrors.NewConflict(resource, "web", errors.New("object conflict"))
	for _, tc := range []struct {
		name  string
		err   error
		event string
	}{
		{"because of a conflict is written again, without another call", conflict, "failed to update load balancer status"},
		{"because the Service is gone is looked at again", apierrors.NewNotFound(resource, "web"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.refuse = func(verb, resource, _ string) error {
					if verb == "patch" && resource == "services" {
						return tc.err
					}
					return nil
				}
				w.add(node("n1"), service("web", withFinalizer))
				w.start()
				w.settle(time.Second)
				w.mu.Lock()
				messages := strings.Join(w.messages, "; ")
				w.refuse = nil
				w.mu.Unlock()
				if tc.event != "" && !strings.Contains(messages, tc.event) {
					t.Errorf("events %q do not contain %q", messages, tc.event)
				}
				got := w.took()
				if diff := cmp.Diff([]string{"ensure web [n1]"}, got.Calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				w.settle(10 * time.Second)
				w.want(activity{Writes: []string{"patch services default/web"}})
			})
		})
	}
}

func TestStatusIsWrittenWhenItDiffers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		has      func(*corev1.Service)
		provider *corev1.LoadBalancerStatus
		writes   int
	}{
		{"not when it is there already", withAddress("192.0.2.8"), ptr.To(statusOf("192.0.2.8")), 0},
		{"not when only the default mode is missing", withAddress("192.0.2.8"),
			&corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.8"}}}, 0},
		{"when there is none", func(*corev1.Service) {}, ptr.To(statusOf("192.0.2.8")), 1},
		{"not when there is none to write", func(*corev1.Service) {}, &corev1.LoadBalancerStatus{}, 0},
		{"when it is to be cleared", withAddress("192.0.2.8"), &corev1.LoadBalancerStatus{}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cloud.answers = func(*corev1.Service) *corev1.LoadBalancerStatus { return tc.provider }
				w.add(node("n1"), service("web", withFinalizer, tc.has))
				w.start()
				w.settle(time.Minute - time.Second)
				if got := len(w.took().Writes); got != tc.writes {
					t.Errorf("%d writes, want %d", got, tc.writes)
				}
				if diff := cmp.Diff(normal(tc.provider).Ingress, w.service("web").Status.LoadBalancer.Ingress); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWhenAServiceIsTriedAgain(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want []time.Duration // of all tries, since the start
	}{
		{"not when it succeeded", nil, []time.Duration{0}},
		{"with a growing back-off", errors.New("something went wrong"), []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second}},
		{"when the provider says", api.NewRetryError("LB create in progress", 42*time.Second), []time.Duration{0, 42 * time.Second, 84 * time.Second}},
		{"when the provider says, wrapped", fmt.Errorf("creating: %w", api.NewRetryError("in progress", 42*time.Second)),
			[]time.Duration{0, 42 * time.Second, 84 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var tries []time.Duration
				w.cloud.on(trying(&tries, tc.err))
				w.add(node("n1"), service("web"))
				w.start()
				w.settle(100 * time.Second)
				if diff := cmp.Diff(tc.want, tries); diff != "" {
					t.Errorf("tries (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A provider that asks for many tries, as one does that does not wait for the cloud, makes no event for each: the event
// recorder would drop the last ones, which say that it is done.
func TestTriesThatTheProviderAsksForAreTwoEvents(t *testing.T) {
	inWorld(t, func(w *world) {
		later := api.NewRetryError("it is being made", time.Second)
		left := 40
		asking := func(_ context.Context, call, _ string) error {
			if call == "get" || left == 0 {
				return nil
			}
			left--
			return later
		}
		w.cloud.on(asking)
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Minute)
		want := []string{"Normal EnsuringLoadBalancer web", "Warning SyncLoadBalancerFailed web", "Normal EnsuredLoadBalancer web"}
		if diff := cmp.Diff(want, w.took().Events); diff != "" {
			t.Errorf("events of making it (-want +got):\n%s", diff)
		}
		left = 40
		w.changeService("web", withType(corev1.ServiceTypeClusterIP))
		w.settle(time.Minute)
		want = []string{"Normal DeletingLoadBalancer web", "Warning SyncLoadBalancerFailed web", "Normal DeletedLoadBalancer web"}
		if diff := cmp.Diff(want, w.took().Events); diff != "" {
			t.Errorf("events of deleting it (-want +got):\n%s", diff)
		}
	})
}

func TestTheBackOffEndsAtFiveMinutes(t *testing.T) {
	inWorld(t, func(w *world) {
		var tries []time.Duration
		w.cloud.on(trying(&tries, errors.New("never")))
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Hour)
		last := tries[len(tries)-1] - tries[len(tries)-2]
		if last != 300*time.Second {
			t.Errorf("the last two tries are %s apart, want 5m", last)
		}
	})
}

func TestAServiceThatIsForcedAwayWhileItsLoadBalancerIsBeingDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.cloud.on(failing("delete", errors.New("error Deleting the Loadbalancer")))
		w.deleteService("web")
		w.settle(time.Second)
		w.want(activity{Calls: []string{"get web", "delete web"}, Events: []string{"Normal DeletingLoadBalancer web", "Warning SyncLoadBalancerFailed web"}})
		if err := w.tracker.Delete(servicesResource, "default", "web"); err != nil {
			t.Fatal(err)
		}
		w.settle(6 * time.Second)
		w.want(activity{Calls: []string{"delete web"}, Events: []string{"Normal DeletingLoadBalancer web", "Warning DeleteLoadBalancerFailed web"}})
		w.cloud.on(nil)
		w.settle(15 * time.Second)
		w.want(activity{Calls: []string{"delete web"}, Events: []string{"Normal DeletingLoadBalancer web", "Normal DeletedLoadBalancer web"}})
		if diff := cmp.Diff([]string(nil), w.cloud.has()); diff != "" {
			t.Errorf("cloud (-want +got):\n%s", diff)
		}
		w.settle(time.Hour)
		w.want(activity{})
	})
}
