package route

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

func failCreates(call string) error {
	if strings.HasPrefix(call, "create") {
		return errors.New("quota")
	}
	return nil
}

func TestATakeoverWithNothingToDoCostsOneListAndNoWrite(t *testing.T) {
	var nodes []*corev1.Node
	var routes []*cloudprovider.Route
	for i := range 200 {
		n := node(fmt.Sprintf("node-%d", i), fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("10.120.%d.0/24", i))
		nodes, routes = append(nodes, served(n)), append(routes, to(n.Name, n.Spec.PodCIDR))
	}
	s := newSky(routes...)
	inWorld(t, s, nodes, func(w *world) {
		w.pass(9 * time.Minute)
		if diff := cmp.Diff([]string{"list"}, s.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if actions := w.client.Actions(); len(actions) != 0 {
			t.Errorf("the cluster was asked: %v", actions)
		}
	})
}

func TestTheResyncRepairsWhatSomebodyElseDidInTheCloud(t *testing.T) {
	s := newSky(to("node-1", "10.120.0.0/24"))
	inWorld(t, s, []*corev1.Node{served(node("node-1", "", "10.120.0.0/24"))}, func(w *world) {
		w.pass(time.Minute)
		s.set(func() { clear(s.routes) })
		w.pass(10*time.Minute + time.Second)
		if diff := cmp.Diff([]string{"list", "list", "create 10.120.0.0/24 for node-1"}, s.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if got := w.patches(); got != 0 {
			t.Errorf("%d patches of a condition that was right", got)
		}
		w.pass(time.Hour)
		if got := count(s.take(), "list"); got < 5 || got > 6 {
			t.Errorf("%d lists in an hour, want one each 10 to 11 minutes", got)
		}
	})
}

func TestAnExplicitReconciliationPeriodIsObeyed(t *testing.T) {
	s := newSky()
	inWorld(t, s, nil, func(w *world) {
		w.pass(5 * time.Minute)
		if got := len(s.take()); got < 27 || got > 31 {
			t.Errorf("%d lists in 5 minutes, want one each 10 to 11 seconds", got)
		}
	}, func(c *Config) { c.ReconciliationPeriod = 10 * time.Second })
}

func TestABurstOfNodesIsServedByOneList(t *testing.T) {
	s := newSky()
	s.latency = 50 * time.Millisecond
	inWorld(t, s, nil, func(w *world) {
		w.pass(time.Minute)
		s.take()
		for i := range 100 {
			w.add(node(fmt.Sprintf("node-%d", i), "", fmt.Sprintf("10.120.%d.0/24", i)))
			w.pass(50 * time.Millisecond)
		}
		w.pass(3 * time.Second)
		calls := s.take()
		if diff := cmp.Diff(map[string]int{"list": 1, "create": 100}, map[string]int{"list": count(calls, "list"), "create": count(calls, "create")}); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		for name, condition := range w.conditions() {
			if condition != routed {
				t.Errorf("node %s: %s", name, condition)
			}
		}
		if got := w.patches(); got != 100 {
			t.Errorf("%d patches for 100 nodes", got)
		}
	})
}

func TestHeartbeatsAndNodesWithoutPodCIDRCostNothing(t *testing.T) {
	s := newSky(to("node-1", "10.120.0.0/24"))
	inWorld(t, s, []*corev1.Node{served(node("node-1", "10.0.0.1", "10.120.0.0/24"))}, func(w *world) {
		w.pass(time.Minute)
		s.take()
		for i := range 20 {
			w.update("node-1", func(n *corev1.Node) {
				n.Annotations = map[string]string{"beat": fmt.Sprint(i)}
				n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{"pause"}})
			})
			w.pass(time.Second)
		}
		w.update("node-1", func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.2" }) // the cloud keeps no addresses
		w.add(node("node-2", "10.0.0.3"))
		w.pass(time.Minute)
		w.remove("node-2")
		w.pass(time.Minute)
		if diff := cmp.Diff([]string(nil), s.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// The cases are those of upstream's TestHandleNodeUpdate; the two that change nothing are above.
func TestChangesOfAddressesAndPodCIDRsAreFollowed(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Node)
		calls  []string
		table  map[string]string
	}{
		{
			name: "address", change: func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.1.2" },
			calls: []string{"list", "delete 10.120.0.0/24", "create 10.120.0.0/24 for node-1"}, table: map[string]string{"10.120.0.0/24": "node-1 10.0.1.2"},
		},
		{
			name: "podCIDR", change: func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.120.9.0/24"} },
			calls: []string{"create 10.120.9.0/24 for node-1", "delete 10.120.0.0/24", "list"}, table: map[string]string{"10.120.9.0/24": "node-1 10.0.1.1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSky(tracked(to("node-1", "10.120.0.0/24", "10.0.1.1")))
			s.tracks = true
			inWorld(t, s, []*corev1.Node{served(node("node-1", "10.0.1.1", "10.120.0.0/24"))}, func(w *world) {
				w.pass(time.Minute)
				s.take()
				w.update("node-1", test.change)
				w.pass(5 * time.Second)
				calls := s.take()
				if test.name == "podCIDR" {
					slices.Sort(calls) // they are for different destinations
				}
				if diff := cmp.Diff(test.calls, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.table, s.table()); diff != "" {
					t.Errorf("routes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestARouteThatWasJustMadeFollowsItsNode(t *testing.T) {
	s := newSky()
	s.tracks = true
	inWorld(t, s, nil, func(w *world) {
		w.pass(time.Minute)
		w.add(node("node-1", "10.0.1.1", "10.120.0.0/24"))
		w.add(node("node-2", "10.0.2.1", "10.120.1.0/24"))
		w.pass(2 * time.Second)
		w.update("node-1", func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.1.2" })
		w.remove("node-2")
		w.pass(15 * time.Second) // the cloud is given time to show in its list what it has accepted
		if diff := cmp.Diff(map[string]string{"10.120.0.0/24": "node-1 10.0.1.2"}, s.table()); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
		if got := count(s.take(), "list"); got != 3 {
			t.Errorf("%d lists, want one at the start, one for the nodes and one for the changes", got)
		}
	})
}

func TestARemovedNodesRouteIsDeletedAndItsCIDRGoesToAnother(t *testing.T) {
	s := newSky(to("node-1", "10.120.0.0/24"))
	inWorld(t, s, []*corev1.Node{served(node("node-1", "", "10.120.0.0/24"))}, func(w *world) {
		w.pass(time.Minute)
		s.take()
		w.remove("node-1")
		w.add(node("node-2", "", "10.120.0.0/24"))
		w.pass(5 * time.Second)
		if diff := cmp.Diff([]string{"list", "delete 10.120.0.0/24", "create 10.120.0.0/24 for node-2"}, s.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"node-2": routed}, w.conditions()); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	})
}

func TestFiveHundredRoutesWithEveryTwentiethCallFailing(t *testing.T) {
	s := newSky()
	s.latency = 50 * time.Millisecond
	calls := 0
	s.fail = func(call string) error {
		if !strings.HasPrefix(call, "create") {
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if calls++; calls%20 == 0 {
			return errors.New("RequestLimitExceeded")
		}
		return nil
	}
	var nodes []*corev1.Node
	for i := range 500 {
		nodes = append(nodes, node(fmt.Sprintf("node-%03d", i), "", fmt.Sprintf("10.%d.%d.0/24", 120+i/256, i%256)))
	}
	inWorld(t, s, nodes, func(w *world) {
		w.pass(5 * time.Second)
		for name, condition := range w.conditions() {
			if condition != routed {
				t.Errorf("node %s after 5 s: %s", name, condition)
			}
		}
		if len(w.conditions()) != 500 || len(s.table()) != 500 {
			t.Errorf("%d conditions and %d routes, want 500", len(w.conditions()), len(s.table()))
		}
		all := s.take()
		if lists, creates := count(all, "list"), count(all, "create"); lists > 3 || creates > 527 {
			t.Errorf("%d lists and %d creates; upstream needs 3 lists in 20 s, then one each 10 s, and 526 creates", lists, creates)
		}
		if s.most != maxInFlight {
			t.Errorf("%d calls at the same time, want %d", s.most, maxInFlight)
		}
		w.pass(8 * time.Minute)
		if calls := s.take(); len(calls) != 0 {
			t.Errorf("idle, but called: %q", calls)
		}
	}, func(c *Config) { c.ClusterCIDR = "10.120.0.0/14" })
}

func TestAFailingCreateBacksOffAloneAndIsTold(t *testing.T) {
	s := newSky()
	s.fail = func(call string) error {
		if call == "create 10.120.0.0/24 for node-1" {
			return errors.New("quota")
		}
		return nil
	}
	inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24"), node("node-2", "", "10.120.1.0/24")}, func(w *world) {
		w.pass(2 * time.Second)
		if diff := cmp.Diff(map[string]string{"node-1": unrouted, "node-2": routed}, w.conditions()); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		want := "route_controller Warning FailedToCreateRoute v1 uid-node-1: Could not create route uid-node-1 10.120.0.0/24 for node node-1 after 0s: quota"
		if got := w.events(); len(got) == 0 || got[0] != want {
			t.Errorf("events %q, want %q", got, want)
		}
		w.pass(10*time.Minute - 2*time.Second)
		calls := s.take()
		if creates := count(calls, "create 10.120.0.0/24"); creates < 12 || creates > 16 {
			t.Errorf("%d attempts in 10 minutes; 1, 2, 4, 8, 16, 32 s and then each minute makes 14; upstream makes 60", creates)
		}
		if lists := count(calls, "list"); lists > 17 {
			t.Errorf("%d lists in 10 minutes; upstream makes 60", lists)
		}
		if got := w.patches(); got != 2 {
			t.Errorf("%d patches, want one for each node", got)
		}
		s.set(func() { s.fail = nil })
		w.pass(75 * time.Second)
		if diff := cmp.Diff(map[string]string{"node-1": routed, "node-2": routed}, w.conditions()); diff != "" {
			t.Errorf("conditions after the cloud has recovered (-want +got):\n%s", diff)
		}
	})
}

func TestARefusalIsRepeatedSeldomAndWithoutLists(t *testing.T) {
	s := newSky()
	s.fail = func(call string) error {
		if strings.HasPrefix(call, "create") {
			return cloudprovider.InstanceNotFound
		}
		return nil
	}
	inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24")}, func(w *world) {
		w.pass(35 * time.Second)
		want := []string{"list", "create 10.120.0.0/24 for node-1", "create 10.120.0.0/24 for node-1"}
		if diff := cmp.Diff(want, s.take()[:3]); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		w.pass(8 * time.Minute)
		if calls := s.take(); count(calls, "list") != 0 || len(calls) < 7 || len(calls) > 9 {
			t.Errorf("calls in 8 minutes: %q", calls)
		}
	})
}

func TestACreateThatFailedButWasCarriedOutIsNotMadeAgain(t *testing.T) {
	for name, failure := range map[string]error{
		"of an unknown kind": errors.New("the cloud had a problem"),
		"a connection reset": &url.Error{Op: "Post", URL: "https://cloud", Err: &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}},
		"a broken pipe":      &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)},
		"an end of answers":  &url.Error{Op: "Post", URL: "https://cloud", Err: io.EOF},
		"in text alone":      errors.New("read tcp 10.0.0.1:443: connection reset by peer"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSky()
			s.after = func(call string) error {
				if strings.HasPrefix(call, "create") {
					return failure
				}
				return nil
			}
			inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24")}, func(w *world) {
				w.pass(5 * time.Second)
				if diff := cmp.Diff([]string{"list", "create 10.120.0.0/24 for node-1", "list"}, s.take()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(map[string]string{"node-1": routed}, w.conditions()); diff != "" {
					t.Errorf("conditions (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestACreateOfWhichNothingWasSentIsMadeAgainWithoutAList(t *testing.T) {
	for name, failure := range map[string]error{
		"throttled":            errors.New("RequestLimitExceeded"),
		"the name is unknown":  &net.DNSError{Err: "no such host", Name: "cloud"},
		"the port is not open": &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSky()
			s.fail = func(call string) error {
				if strings.HasPrefix(call, "create") {
					return failure
				}
				return nil
			}
			inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24")}, func(w *world) {
				w.pass(2 * time.Second)
				s.set(func() { s.fail = nil })
				w.pass(5 * time.Second)
				calls := s.take()
				if lists, creates := count(calls, "list"), count(calls, "create"); lists != 1 || creates < 2 {
					t.Errorf("calls: %q", calls)
				}
				if diff := cmp.Diff(map[string]string{"node-1": routed}, w.conditions()); diff != "" {
					t.Errorf("conditions (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestARouteOfNilInAListIsNoRoute(t *testing.T) {
	s := newSky()
	inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24")}, func(w *world) {
		w.pass(5 * time.Second)
		if diff := cmp.Diff(map[string]string{"node-1": routed}, w.conditions()); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"list", "create 10.120.0.0/24 for node-1"}, s.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}, func(c *Config) { c.Cloud = holed{s} })
}

// holed is a cloud whose lists of routes have a nil among them.
type holed struct{ *sky }

func (h holed) Routes() (cloudprovider.Routes, bool) { return h, true }

func (h holed) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	routes, err := h.sky.ListRoutes(ctx, cluster)
	return append([]*cloudprovider.Route{nil}, routes...), err
}

func TestARouteThatCannotBeDeletedHoldsNothingUp(t *testing.T) {
	s := newSky(to("gone", "10.120.7.0/24"), to("foreign", "10.120.8.0/24"))
	s.fail = func(call string) error {
		if strings.HasPrefix(call, "delete") {
			return errors.New("belongs to another cluster")
		}
		return nil
	}
	inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24")}, func(w *world) {
		w.pass(2 * time.Second)
		if diff := cmp.Diff(map[string]string{"node-1": routed}, w.conditions()); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		w.pass(10 * time.Minute)
		if deletes := count(s.take(), "delete"); deletes > 32 {
			t.Errorf("%d attempts to delete 2 routes in 10 minutes; upstream makes 120", deletes)
		}
		w.add(node("node-2", "", "10.120.1.0/24"))
		w.pass(2 * time.Second)
		if got := w.conditions()["node-2"]; got != routed {
			t.Errorf("a new node: %s", got)
		}
	})
}

func TestACallThatHangsOrPanicsHoldsNothingUpAndHealthNamesIt(t *testing.T) {
	s := newSky(to("gone", "10.120.7.0/24"))
	s.fail = func(call string) error {
		switch call {
		case "create 10.120.0.0/24 for node-1":
			<-time.After(12 * time.Minute)
		case "create 10.120.1.0/24 for node-2":
			panic("index out of range")
		}
		return nil
	}
	nodes := []*corev1.Node{node("node-1", "", "10.120.0.0/24"), node("node-2", "", "10.120.1.0/24"), node("node-3", "", "10.120.2.0/24")}
	inWorld(t, s, nodes, func(w *world) {
		w.pass(5 * time.Minute)
		if err := w.c.HealthChecker().Check(nil); err != nil {
			t.Errorf("unhealthy after 5 minutes: %v", err)
		}
		w.pass(6 * time.Minute)
		if diff := cmp.Diff(map[string]string{"node-2": unrouted, "node-3": routed}, w.conditions()); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		err := w.c.HealthChecker().Check(nil)
		if err == nil || !strings.Contains(err.Error(), "changing the route to 10.120.0.0/24 has been going on for 11m0s") {
			t.Errorf("health: %v", err)
		}
		if got := strings.Join(w.events(), "\n"); !strings.Contains(got, "the provider panicked: index out of range") {
			t.Errorf("events: %s", got)
		}
		w.pass(2 * time.Minute)
		if err := w.c.HealthChecker().Check(nil); err != nil {
			t.Errorf("unhealthy after the call has ended: %v", err)
		}
	})
}

func TestABlackHoleIsNotMadeAgainAndAgain(t *testing.T) {
	s := newSky()
	s.turn = func(route *cloudprovider.Route) { route.Blackhole, route.TargetNode = true, "" } // the instance has been terminated
	inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24")}, func(w *world) {
		w.pass(10 * time.Minute)
		calls := s.take()
		if creates, deletes := count(calls, "create"), count(calls, "delete"); creates > 18 || deletes > 18 || creates < 5 {
			t.Errorf("%d creates and %d deletes in 10 minutes; upstream makes 30 of each", creates, deletes)
		}
		if got := w.patches(); got != 1 {
			t.Errorf("%d patches: the condition flaps", got)
		}
		s.set(func() { s.turn = nil })
		w.pass(3 * time.Minute)
		if diff := cmp.Diff(map[string]string{"10.120.0.0/24": "node-1"}, s.table()); diff != "" {
			t.Errorf("routes after the instance is back (-want +got):\n%s", diff)
		}
	}, func(c *Config) { c.ReconciliationPeriod = 10 * time.Second })
}

func TestALateListDoesNotUndoWhatWasJustDone(t *testing.T) {
	s := newSky(to("gone", "10.120.7.0/24"))
	s.fail = func(call string) error {
		if call == "create 10.120.1.0/24 for node-2" {
			return errors.New("internal error")
		}
		return nil
	}
	inWorld(t, s, []*corev1.Node{node("node-1", "", "10.120.0.0/24"), node("node-2", "", "10.120.1.0/24")}, func(w *world) {
		w.pass(500 * time.Millisecond)
		s.take()
		var real map[string]*cloudprovider.Route
		s.set(func() { // the cloud's lists are old: nothing that was done is to be seen
			real = s.routes
			s.routes = map[string]*cloudprovider.Route{"old": to("gone", "10.120.7.0/24")}
		})
		w.pass(5 * time.Second)
		calls := s.take()
		if count(calls, "list") == 0 {
			t.Fatal("no list was made for the retry")
		}
		s.set(func() { s.routes = real })
		if again := count(calls, "create 10.120.0.0/24") + count(calls, "delete"); again != 0 {
			t.Errorf("done again: %q", calls)
		}
	})
}

func TestNodesGetRoutesThoughTheCloudCannotList(t *testing.T) {
	s := newSky(to("gone", "10.120.7.0/24"), to("node-1", "10.120.0.0/24"))
	s.fail = func(call string) error {
		if call == "list" {
			return errors.New("node with instanceID i-1 not found")
		}
		return nil
	}
	inWorld(t, s, []*corev1.Node{served(node("node-1", "", "10.120.0.0/24")), node("node-2", "", "10.120.1.0/24")}, func(w *world) {
		w.pass(2 * time.Second)
		if calls := s.take(); len(calls) < 2 || count(calls, "list") != len(calls) {
			t.Errorf("a list or two that fail are no reason to act without: %q", calls)
		}
		w.pass(10 * time.Second)
		calls := s.take()
		if got := count(calls, "create"); got != 1 || count(calls, "delete") != 0 {
			t.Errorf("calls %q, want the one create that is needed", calls)
		}
		if got := w.conditions()["node-2"]; got != routed {
			t.Errorf("node-2: %s", got)
		}
		w.pass(10 * time.Minute)
		if lists := count(s.take(), "list"); lists < 8 || lists > 12 {
			t.Errorf("%d lists that fail in 10 minutes, want one each minute", lists)
		}
		s.set(func() { s.fail = nil })
		w.pass(75 * time.Second)
		if diff := cmp.Diff(map[string]string{"10.120.0.0/24": "node-1", "10.120.1.0/24": "node-2"}, s.table()); diff != "" {
			t.Errorf("routes after the cloud can list again (-want +got):\n%s", diff)
		}
	})
}

func TestTheRouteOfARemovedNodeIsDeletedThoughItIsWhatKeepsTheCloudFromListing(t *testing.T) {
	s := newSky(to("node-1", "10.120.0.0/24"), to("node-2", "10.120.1.0/24"))
	var w *world
	s.fail = func(call string) error {
		if call != "list" || w == nil {
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, route := range s.routes { // as the provider for AWS does while the instance lives
			if _, err := w.client.CoreV1().Nodes().Get(w.t.Context(), string(route.TargetNode), metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
	inWorld(t, s, []*corev1.Node{served(node("node-1", "", "10.120.0.0/24")), served(node("node-2", "", "10.120.1.0/24"))}, func(world *world) {
		world.pass(time.Minute)
		s.set(func() { w = world })
		world.remove("node-2")
		world.pass(20 * time.Second)
		if diff := cmp.Diff(map[string]string{"10.120.0.0/24": "node-1"}, s.table()); diff != "" {
			t.Errorf("routes (-want +got):\n%s", diff)
		}
	})
}

func TestAConditionThatAnotherWritesIsCorrectedAtMostEachTenSeconds(t *testing.T) {
	s := newSky(to("node-1", "10.120.0.0/24"))
	inWorld(t, s, []*corev1.Node{served(node("node-1", "", "10.120.0.0/24"))}, func(w *world) {
		w.pass(time.Second)
		for range 120 {
			w.update("node-1", func(n *corev1.Node) {
				n.Status.Conditions = nil
				network(n, corev1.ConditionFalse, "CalicoIsUp")
			})
			w.pass(500 * time.Millisecond)
		}
		if got := w.patches(); got < 5 || got > 8 {
			t.Errorf("%d patches in a minute", got)
		}
		w.pass(20 * time.Second)
		if got := w.conditions()["node-1"]; got != routed {
			t.Errorf("at the end: %s", got)
		}
		if diff := cmp.Diff([]string{"list"}, s.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}
