package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // calls fail here by the hundred
	goleak.VerifyTestMain(m)
}

// sky is a cloud that has nothing but routes.
type sky struct {
	cloudprovider.Interface

	mu      sync.Mutex
	routes  map[string]*cloudprovider.Route
	calls   []string
	made    int
	latency time.Duration
	flying  int
	most    int
	fail    func(call string) error // before anything is done
	after   func(call string) error // the call has been executed all the same
	tracks  bool                    // the cloud keeps the nodes' addresses
	turn    func(*cloudprovider.Route)
}

func newSky(routes ...*cloudprovider.Route) *sky {
	s := &sky{routes: map[string]*cloudprovider.Route{}}
	for i, route := range routes {
		if route.Name == "" {
			route.Name = fmt.Sprintf("listed-%d", i)
		}
		s.routes[route.Name] = route
	}
	return s
}

func (s *sky) Routes() (cloudprovider.Routes, bool) { return s, true }

func (s *sky) call(ctx context.Context, name string, do func() error) error {
	s.mu.Lock()
	s.calls = append(s.calls, name)
	s.flying++
	s.most = max(s.most, s.flying)
	latency, fail, after := s.latency, s.fail, s.after
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.flying--
		s.mu.Unlock()
	}()
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fail != nil {
		if err := fail(name); err != nil {
			return err
		}
	}
	s.mu.Lock()
	err := do()
	s.mu.Unlock()
	if err == nil && after != nil {
		err = after(name)
	}
	return err
}

func (s *sky) ListRoutes(ctx context.Context, cluster string) (routes []*cloudprovider.Route, err error) {
	return routes, s.call(ctx, "list", func() error {
		if cluster != "my-k8s" {
			return errors.New("unknown cluster")
		}
		for _, name := range slices.Sorted(maps.Keys(s.routes)) {
			route := *s.routes[name]
			routes = append(routes, &route)
		}
		return nil
	})
}

func (s *sky) CreateRoute(ctx context.Context, _, hint string, route *cloudprovider.Route) error {
	return s.call(ctx, fmt.Sprintf("create %s for %s", route.DestinationCIDR, route.TargetNode), func() error {
		for _, other := range s.routes {
			if other.DestinationCIDR == route.DestinationCIDR {
				return fmt.Errorf("there is a route to %s", route.DestinationCIDR)
			}
		}
		added := *route
		added.Name, added.EnableNodeAddresses = fmt.Sprintf("%s-%d", hint, s.made), s.tracks
		s.made++
		if s.turn != nil {
			s.turn(&added)
		}
		s.routes[added.Name] = &added
		return nil
	})
}

func (s *sky) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	return s.call(ctx, "delete "+route.DestinationCIDR, func() error {
		if s.routes[route.Name] == nil {
			return fmt.Errorf("there is no route %q", route.Name)
		}
		delete(s.routes, route.Name)
		return nil
	})
}

// take returns the calls since it was asked last.
func (s *sky) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// table is where each destination leads to.
func (s *sky) table() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := map[string]string{}
	for _, route := range s.routes {
		target := string(route.TargetNode)
		for _, address := range route.TargetNodeAddresses {
			target += " " + address.Address
		}
		if route.Blackhole {
			target += " (black hole)"
		}
		table[route.DestinationCIDR] += target
	}
	return table
}

func (s *sky) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func count(calls []string, prefix string) (n int) {
	for _, call := range calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

// node builds a node with an address and podCIDRs.
func node(name, address string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	if len(cidrs) > 0 {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidrs[0], cidrs
	}
	if address != "" {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	}
	return n
}

// network gives a node the condition.
func network(n *corev1.Node, status corev1.ConditionStatus, reason string) *corev1.Node {
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: status, Reason: reason})
	return n
}

// served is a node that has its route.
func served(n *corev1.Node) *corev1.Node { return network(n, corev1.ConditionFalse, reasonCreated) }

// to builds a route as it is listed.
func to(node, cidr string, addresses ...string) *cloudprovider.Route {
	route := &cloudprovider.Route{TargetNode: types.NodeName(node), DestinationCIDR: cidr}
	for _, address := range addresses {
		route.TargetNodeAddresses = append(route.TargetNodeAddresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return route
}

func blackhole(route *cloudprovider.Route) *cloudprovider.Route {
	route.Blackhole = true
	return route
}

func tracked(route *cloudprovider.Route) *cloudprovider.Route {
	route.EnableNodeAddresses = true
	return route
}

// world is a controller between a cloud and a cluster, in a bubble of its own time.
type world struct {
	t      *testing.T
	sky    *sky
	client *fake.Clientset
	c      *Controller
	stop   context.CancelFunc
	done   chan struct{}
}

type settings func(*Config)

// inWorld runs a test next to a running controller. The test's time is synctest's.
func inWorld(t *testing.T, s *sky, nodes []*corev1.Node, test func(*world), change ...settings) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		for _, n := range nodes {
			if err := client.Tracker().Add(n); err != nil {
				t.Fatal(err)
			}
		}
		informers := informers.NewSharedInformerFactory(client, 0)
		config := Config{
			Client: client, Cloud: s, Nodes: informers.Core().V1().Nodes(), ClusterName: "my-k8s", ClusterCIDR: "10.120.0.0/16,a00::/8", Options: NewOptions(),
		}
		for _, f := range change {
			f(&config)
		}
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		informers.Start(ctx.Done())
		informers.WaitForCacheSync(ctx.Done())
		synctest.Wait()
		client.ClearActions()
		w := &world{t: t, sky: s, client: client, c: c, stop: cancel, done: make(chan struct{})}
		go func() {
			defer close(w.done)
			c.Run(ctx)
		}()
		test(w)
		cancel()
		<-w.done
		informers.Shutdown()
	})
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	<-time.After(d)
	synctest.Wait()
}

// conditions says of each node what its condition says.
func (w *world) conditions() map[string]string {
	w.t.Helper()
	list, err := w.client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	conditions := map[string]string{}
	for _, n := range list.Items {
		for _, condition := range n.Status.Conditions {
			conditions[n.Name] = fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
		}
	}
	return conditions
}

const (
	routed   = "False RouteCreated: RouteController created a route"
	unrouted = "True NoRouteCreated: RouteController failed to create a route"
)

// patches counts the writes to nodes.
func (w *world) patches() (n int) {
	for _, action := range w.client.Actions() {
		if action.GetResource().Resource == "nodes" && action.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

// events lists the reasons and messages of events.
func (w *world) events() []string {
	var events []string
	for _, action := range w.client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok && action.GetResource().Resource == "events" {
			event := create.GetObject().(*corev1.Event)
			events = append(events, fmt.Sprintf("%s %s %s %s %s: %s", event.Source.Component, event.Type, event.Reason, event.InvolvedObject.APIVersion,
				event.InvolvedObject.UID, event.Message))
		}
	}
	return events
}

func (w *world) add(n *corev1.Node) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Nodes().Create(w.t.Context(), n, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := w.client.CoreV1().Nodes().Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(name string, change func(*corev1.Node)) {
	w.t.Helper()
	n, err := w.client.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	change(n)
	if _, err := w.client.CoreV1().Nodes().Update(w.t.Context(), n, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
