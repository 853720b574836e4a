package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudapi "k8s.io/cloud-provider/api"
)

// join lets a node join as a kubelet with an external provider does, and be initialised a moment later.
func (w *world) join(name string) {
	w.t.Helper()
	w.add(node(name, created, withProviderID(""), withTaint(cloudapi.TaintExternalCloudProvider)))
	w.settle(100 * time.Millisecond)
	w.changeNode(name, func(n *corev1.Node) { n.Spec.ProviderID, n.Spec.Taints = "fake://"+name, nil })
}

func manyServices(w *world, count int) {
	w.cloud.slow(50 * time.Millisecond)
	w.add(node("n00"))
	for i := range count {
		w.add(service(fmt.Sprintf("s%03d", i)))
	}
	w.start()
	w.settle(time.Minute)
	w.took()
}

func TestALoneNodeThatJoinsCostsEachLoadBalancerOneUpdateAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.workers = 40
		manyServices(w, 200)
		w.join("n01")
		w.settle(300 * time.Millisecond) // of these, the calls take 250
		calls := w.took().Calls
		if got := updatesOfEach(t, calls); got.most != 1 || got.services != 200 {
			t.Errorf("%d load balancers got up to %d updates, want 200 with 1", got.services, got.most)
		}
		w.settle(time.Minute)
		w.want(activity{})
	})
}

// Nodes that are there together are one change, however few they are, and wait for each other.
func TestNodesThatAreInitialisedOneAfterTheOtherCostOneUpdate(t *testing.T) {
	inWorld(t, func(w *world) {
		manyServices(w, 20)
		uninitialised := withTaint(cloudapi.TaintExternalCloudProvider)
		w.add(node("a", created, withProviderID(""), uninitialised), node("b", created, withProviderID(""), uninitialised),
			node("c", created, withProviderID(""), uninitialised, withLabel(corev1.LabelNodeExcludeBalancers, "")))
		for _, name := range []string{"a", "b"} {
			w.settle(300 * time.Millisecond)
			w.changeNode(name, func(n *corev1.Node) { n.Spec.ProviderID, n.Spec.Taints = "fake://"+name, nil })
		}
		w.settle(200 * time.Millisecond)
		if got := updatesOfEach(t, w.took().Calls); got.most != 1 || got.services != 20 {
			t.Errorf("%d load balancers got up to %d updates, want 20 with 1", got.services, got.most)
		}
		w.settle(time.Minute)
		w.want(activity{})
	})
}

func TestTwentyNodesThatJoinOverTenSecondsCostEachLoadBalancerTwoUpdates(t *testing.T) {
	inWorld(t, func(w *world) {
		manyServices(w, 200)
		for i := range 20 {
			w.join(fmt.Sprintf("n%02d", i+1))
			w.settle(400 * time.Millisecond)
		}
		w.settle(2 * time.Second) // of these, the calls take one
		calls := w.took().Calls
		if got := updatesOfEach(t, calls); got.most > 2 || got.services != 200 {
			t.Errorf("%d load balancers got up to %d updates, want 200 with at most 2", got.services, got.most)
		}
		for _, b := range w.cloud.balancers {
			if len(b.nodes) != 21 {
				t.Fatalf("a load balancer has %d nodes two seconds after the last joined, want 21", len(b.nodes))
			}
		}
		w.settle(20 * time.Second)
		w.want(activity{})
	})
}

type updates struct{ services, most int }

func updatesOfEach(t *testing.T, calls []string) updates {
	t.Helper()
	each := map[string]int{}
	u := updates{}
	for _, call := range calls {
		fields := strings.Fields(call)
		if fields[0] != "update" {
			t.Errorf("unexpected call %q", call)
		}
		each[fields[1]]++
		u.most = max(u.most, each[fields[1]])
	}
	u.services = len(each)
	return u
}

func TestANodeThatLeavesIsTakenOutAtOnce(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"because it is excluded": func(w *world) { w.changeNode("n2", withLabel(corev1.LabelNodeExcludeBalancers, "true")) },
		"because it is gone":     func(w *world) { w.deleteNode("n2") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.add(node("n1"), node("n2"), service("web"))
				w.start()
				w.settle(time.Second)
				w.took()
				w.add(node("n3"))
				w.settle(5 * time.Second)
				w.want(activity{Calls: []string{"update web [n1 n2 n3]"}, Events: []string{"Normal UpdatedLoadBalancer web"}})
				leave(w) // while joining nodes would wait
				w.settle(300 * time.Millisecond)
				w.want(activity{Calls: []string{"update web [n1 n3]"}, Events: []string{"Normal UpdatedLoadBalancer web"}})
			})
		})
	}
}

func TestANodeCountsOnceItIsInitialisedAndNotBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web"))
		w.start()
		w.settle(time.Second)
		w.took()
		w.add(node("n2", created, withProviderID(""), withTaint(cloudapi.TaintExternalCloudProvider)))
		w.settle(15 * time.Minute)
		w.want(activity{})
		w.changeNode("n2", func(n *corev1.Node) { n.Spec.ProviderID, n.Spec.Taints = "fake://n2", nil })
		w.settle(2 * time.Second)
		w.want(activity{Calls: []string{"update web [n1 n2]"}, Events: []string{"Normal UpdatedLoadBalancer web"}})
		w.changeNode("n2", withTaint(cloudapi.TaintExternalCloudProvider)) // it is initialised again
		w.settle(time.Minute)
		w.want(activity{})
	})
}

func TestAnUpdateTakesTheNodesOfWhenItIsMade(t *testing.T) {
	inWorld(t, func(w *world) {
		w.workers = 1
		w.add(node("n1"), service("s0"), service("s1"))
		w.start()
		w.settle(time.Second)
		w.took()
		joined := false
		w.cloud.on(func(context.Context, string, string) error {
			if !joined {
				joined = true
				w.add(node("n3")) // while the first load balancer is given the second node
				pass(100 * time.Millisecond)
			}
			return nil
		})
		w.add(node("n2"))
		w.settle(500 * time.Millisecond)
		got := w.took().Calls
		if len(got) != 2 || !strings.HasSuffix(got[0], "[n1 n2]") || !strings.HasSuffix(got[1], "[n1 n2 n3]") {
			t.Errorf("calls %q, want the second with all nodes", got)
		}
		w.settle(20 * time.Second)
		if got := w.took().Calls; len(got) != 1 || !strings.HasSuffix(got[0], "[n1 n2 n3]") {
			t.Errorf("calls %q, want the first load balancer to catch up, and no other", got)
		}
	})
}

func TestALoadBalancerThatIsBeingMadeWhileNodesAreGivenCatchesUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("web"))
		w.cloud.slow(30 * time.Second)
		w.start()
		w.settle(time.Second)
		w.add(node("n2"))
		w.settle(2 * time.Minute)
		if diff := cmp.Diff([]string{"ensure web [n1]", "update web [n1 n2]"}, w.took().Calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestNodesAreSharedByTheLoadBalancersThatHaveThem(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("s0"), service("s1"))
		r := w.start()
		w.settle(time.Second)
		w.changeService("s0", withPort(81))
		w.settle(time.Second)
		a, _ := r.controller.store.get("default/s0")
		b, _ := r.controller.store.get("default/s1")
		if a.members == nil || a.members != b.members {
			t.Error("two load balancers with the same members keep them twice")
		}
	})
}
