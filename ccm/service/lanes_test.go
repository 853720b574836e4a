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
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// A user waits for a new Service, and none for the last of the load balancers that get a node.
func TestANewServiceDoesNotWaitUntilAllLoadBalancersHaveANode(t *testing.T) {
	inWorld(t, func(w *world) {
		manyServices(w, 400) // ten at a time: two seconds
		w.join("n01")
		w.settle(500 * time.Millisecond)
		w.add(service("new"))
		w.settle(250 * time.Millisecond)
		if len(w.service("new").Status.LoadBalancer.Ingress) == 0 {
			t.Error("the new Service waits for its load balancer")
		}
		first := updatesOfEach(t, slices.DeleteFunc(w.took().Calls, func(call string) bool { return strings.HasPrefix(call, "ensure new ") }))
		w.settle(time.Minute)
		rest := updatesOfEach(t, w.took().Calls)
		if first.services == 400 || first.services+rest.services != 400 || first.most != 1 || rest.most != 1 {
			t.Errorf("%d load balancers got up to %d updates before, and %d up to %d after it; want 400 with 1 together, and some of them after it",
				first.services, first.most, rest.services, rest.most)
		}
	})
}

// Many calls wait in the call rate's queue already when the Service is made. It must not wait for them there.
func TestANewServiceIsMadeFirstWhileTheCloudThrottles(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guard, w.workers = &cloud.Options{MaxQPS: 10}, 50
		manyServices(w, 200)
		w.settle(time.Minute)
		w.join("n01")
		w.settle(3 * time.Second)
		w.add(service("new"))
		w.settle(500 * time.Millisecond)
		if len(w.service("new").Status.LoadBalancer.Ingress) == 0 {
			t.Errorf("the new Service waits for its load balancer")
		}
		before := updatesOfEach(t, slices.DeleteFunc(w.took().Calls, func(call string) bool { return !strings.HasPrefix(call, "update ") }))
		if before.services == 0 || before.services > 50 {
			t.Errorf("%d of 200 load balancers had the node by then; this tries nothing", before.services)
		}
		w.settle(time.Minute)
		if rest := updatesOfEach(t, w.took().Calls); before.services+rest.services != 200 {
			t.Errorf("%d load balancers got the node, want 200", before.services+rest.services)
		}
	})
}

// The guard holds calls to the rate that the cloud takes, so one that was throttled is made again soon. Only if that goes on it is an event.
func TestAServiceThatTheCloudThrottlesIsTriedAgainSoon(t *testing.T) {
	for _, test := range []struct {
		name    string
		refused int
		made    time.Duration
		warned  bool
	}{
		{"three times", 3, 2 * time.Second, false},
		{"for longer", 6, 20 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				left := map[string]int{"ensure": test.refused, "update": test.refused}
				w.cloud.before = func(_ context.Context, call, _ string) error {
					if left[call]--; left[call] >= 0 {
						return errors.New("Throttling: Rate exceeded")
					}
					return nil
				}
				w.start()
				w.add(node("n00"))
				w.add(service("web"))
				w.settle(test.made)
				if len(w.service("web").Status.LoadBalancer.Ingress) == 0 {
					t.Error("the Service has no load balancer yet")
				}
				made := w.took()
				w.join("n01")
				w.settle(test.made + 10*time.Second)
				updated := w.took()
				if last := made.Calls[len(made.Calls)-1]; !strings.HasPrefix(last, "ensure web") {
					t.Errorf("the last call is %s", last)
				}
				if !slices.ContainsFunc(updated.Calls, func(call string) bool { return call == "update web [n00 n01]" || call == "ensure web [n00 n01]" }) {
					t.Errorf("the node is not in the load balancer: %v", updated.Calls)
				}
				isWarning := func(event string) bool { return strings.HasPrefix(event, "Warning ") }
				if warned := slices.ContainsFunc(made.Events, isWarning) && slices.ContainsFunc(updated.Events, isWarning); warned != test.warned {
					t.Errorf("events %v and %v", made.Events, updated.Events)
				}
			})
		})
	}
}

// Without an end of new Services, nodes come to the load balancers all the same.
func TestManyNewServicesDoNotKeepNodesFromTheLoadBalancers(t *testing.T) {
	inWorld(t, func(w *world) {
		manyServices(w, 20)
		for i := range 400 {
			w.add(service(fmt.Sprintf("t%03d", i)))
			if i%50 == 0 {
				w.settle(0) // the watch of this cluster holds a hundred events
			}
		}
		w.join("n01")
		w.settle(time.Second)
		updated := 0
		for _, call := range w.took().Calls {
			if strings.HasPrefix(call, "update s0") {
				updated++
			}
		}
		if waiting := 420 - len(w.cloud.has()); updated < 20 || waiting == 0 {
			t.Errorf("%d of 20 load balancers have the node, while %d new ones wait; want all of them", updated, waiting)
		}
	})
}

func TestLanes(t *testing.T) {
	for _, test := range []struct {
		name string
		adds []string // a key that can wait has a dot before it; "?" takes one
		want string
	}{
		{"in the order in which they came", []string{"a", "b", ".x", ".y"}, "a b x y"},
		{"those that were changed come first", []string{".x", ".y", "a", "b"}, "a b x y"},
		{"each fifth is one that can wait", []string{".x", ".y", "a", "b", "c", "d", "e", "f", "g", "h", "i"}, "a b c d x e f g h y i"},
		{"one that waits and is changed", []string{".x", ".y", ".z", "a", "y"}, "a y x z"},
		{"one that is urgent stays so", []string{"a", ".x", "b", ".b"}, "a b x"},
		{"one that was changed may wait the next time", []string{".x", "y", "?", ".y"}, "y x y"},
		{"one that was changed, taken, and waits again", []string{".x", ".y", "x", "?", ".x"}, "x y x"},
	} {
		l := newLanes()
		queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: clock.RealClock{}, Queue: l})
		var got []string
		take := func() {
			key, _ := queue.Get()
			got = append(got, key)
			queue.Done(key)
		}
		for _, add := range test.adds {
			if key, waits := strings.CutPrefix(add, "."); add == "?" {
				take()
			} else {
				l.add(queue, key, waits)
			}
		}
		for queue.Len() > 0 {
			take()
		}
		if diff := cmp.Diff(strings.Fields(test.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if l.Len() != 0 || len(l.canWait) != 0 || len(l.urgent) != 0 || slices.ContainsFunc(l.waiting, func(key string) bool { return !l.isStale(key) }) {
			t.Errorf("%s: left: %+v", test.name, l)
		}
		queue.ShutDown()
	}
}

// What comes while a Service is worked on is not lost, and a change counts as one.
func TestAChangeWhileAServiceIsWorkedOnIsUrgent(t *testing.T) {
	l := newLanes()
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: clock.RealClock{}, Queue: l})
	defer queue.ShutDown()
	l.add(queue, "a", true)
	key, _ := queue.Get()
	l.add(queue, "a", false)
	l.add(queue, "a", true) // a batch of nodes
	l.add(queue, "x", true)
	queue.Done(key)
	if next, _ := queue.Get(); next != "a" {
		t.Errorf("%q comes first", next)
	}
}
