package fromcloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/node/nodetest"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

// world is an API server, and a cloud that says which ranges the instance of a node has.
type world struct {
	*nodetest.API
	*nodetest.Cloud

	mu     sync.Mutex
	ranges map[string][]string // by node
	states map[string]cloud.InstanceState
}

// podLister is a cloud that lists pod CIDRs.
type podLister struct{ nodetest.Lister }

func (podLister) ListsPodCIDRs() bool { return true }

func newWorld(nodes ...*corev1.Node) *world {
	w := &world{API: nodetest.New(nodes...), ranges: map[string][]string{}, states: map[string]cloud.InstanceState{}}
	w.Cloud = &nodetest.Cloud{Batch: 1000, Instance: func(node *corev1.Node) cloud.InstanceState {
		w.mu.Lock()
		defer w.mu.Unlock()
		if state, ok := w.states[node.Name]; ok {
			return state
		}
		return cloud.InstanceState{Exists: true, PodCIDRs: w.ranges[node.Name]}
	}}
	return w
}

// say changes what the cloud says of the instance of a node.
func (w *world) say(name string, ranges ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ranges[name] = ranges
}

func (w *world) sayState(name string, state cloud.InstanceState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states[name] = state
}

func (w *world) forgetStates() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.states)
}

// nodeOf is a Node as its kubelet registers it, with podCIDRs.
func nodeOf(name string, cidrs ...string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "test://" + name, PodCIDRs: cidrs},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated"},
		}},
	}
	if len(cidrs) > 0 {
		node.Spec.PodCIDR = cidrs[0]
	}
	return node
}

// reached is a Node that its manager has finished.
func reached(name string, cidrs ...string) *corev1.Node {
	node := nodeOf(name, cidrs...)
	node.Status.Conditions[0].Status, node.Status.Conditions[0].Reason = corev1.ConditionFalse, "RouteCreated"
	return node
}

// describe says of each node what this controller is for.
func (w *world) describe() map[string]string {
	all := map[string]string{}
	for _, node := range w.Nodes() {
		network := node.Status.Conditions[0]
		all[node.Name] = fmt.Sprint(strings.Join(node.Spec.PodCIDRs, " "), " ", network.Status, " ", network.Reason)
		if first := strings.Join(node.Spec.PodCIDRs, " "); !strings.HasPrefix(first, node.Spec.PodCIDR) {
			all[node.Name] += " podCIDR " + node.Spec.PodCIDR
		}
	}
	return all
}

// writes are the requests that change nodes.
func (w *world) writes() []string {
	return slices.DeleteFunc(w.Requests(), func(r string) bool { return !strings.HasPrefix(r, "PATCH ") })
}

func (w *world) reads() []string { return w.Calls() }

// start runs a controller until the test ends or stop is called.
func (w *world) start(ctx context.Context, t *testing.T, changes ...func(*Config)) (c *Controller, stop func()) {
	t.Helper()
	client := w.Client()
	factory := informers.NewSharedInformerFactory(client, 0)
	config := Config{
		Client: client, Nodes: factory.Core().V1().Nodes(), Cloud: podLister{nodetest.Lister{Cloud: w.Cloud}},
		ServiceCIDRs: "10.96.0.0/12",
	}
	for _, change := range changes {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	factory.Start(watching.Done())
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { c.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		stopWatching()
		factory.Shutdown()
	})
	pass(time.Second)
	return c, stop
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

const (
	conflictGauge = "transplant_ccm_node_ipam_conflicts"
	waitingGauge  = "transplant_ccm_node_ipam_waiting_nodes"
)

func TestANodeGetsWhatTheCloudSaysOfItsInstance(t *testing.T) {
	families := func(services, cluster string) func(*Config) {
		return func(c *Config) { c.ServiceCIDRs, c.ClusterCIDR = services, cluster }
	}
	for name, test := range map[string]struct {
		says   []string
		config func(*Config)
		want   string
	}{
		"a range":                        {[]string{"10.4.0.0/24"}, families("", ""), "10.4.0.0/24 False RouteCreated"},
		"the first of two":               {[]string{"10.4.0.0/24", "10.5.0.0/24"}, families("", ""), "10.4.0.0/24 False RouteCreated"},
		"as Services have it":            {[]string{"10.4.0.0/24", "fd00::/112"}, families("fd01::/112", "10.0.0.0/8"), "fd00::/112 False RouteCreated"},
		"both families":                  {[]string{"10.4.0.0/24", "fd00::/112"}, families("10.96.0.0/12,fd01::/112", ""), "10.4.0.0/24 fd00::/112 False RouteCreated"},
		"both, the other way round":      {[]string{"10.4.0.0/24", "fd00::/112"}, families("fd01::/112,10.96.0.0/12", ""), "fd00::/112 10.4.0.0/24 False RouteCreated"},
		"the families of --cluster-cidr": {[]string{"10.4.0.0/24", "fd00::/112"}, families("", "10.0.0.0/8,fd00::/48"), "10.4.0.0/24 fd00::/112 False RouteCreated"},
		"of one family alone":            {[]string{"10.4.0.0/24", "fd00::/112"}, families("", "10.0.0.0/8"), "10.4.0.0/24 False RouteCreated"},
		"the condition is of routes":     {[]string{"10.4.0.0/24"}, func(c *Config) { c.HasRoutes = true }, "10.4.0.0/24 True NoRouteCreated"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(nodeOf("a"))
				w.say("a", test.says...)
				_, stop := w.start(t.Context(), t, test.config)
				defer stop()
				if diff := cmp.Diff(map[string]string{"a": test.want}, w.describe()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				before := len(w.writes())
				pass(time.Hour)
				if after := w.writes(); len(after) != before || len(w.Events()) != 0 {
					t.Errorf("writes %q, events %q", after, w.Events())
				}
			})
		})
	}
}

// TestManyNodesAreFewCalls: 5,000 nodes of a manager that takes over, and 300 that join.
func TestManyNodesAreFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 5000 {
			name, cidr := fmt.Sprint("node-", i), fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
			w.say(name, cidr)
			w.Put(reached(name, cidr))
		}
		_, stop := w.start(t.Context(), t)
		defer stop()
		pass(time.Minute)
		if got := w.writes(); len(got) != 0 || len(w.reads()) != 5 {
			t.Errorf("%d writes, reads %q", len(got), w.reads())
		}
		for i := range 300 {
			name := fmt.Sprint("new-", i)
			w.say(name, fmt.Sprintf("10.%d.%d.0/24", 200+i/256, i%256))
			w.Put(nodeOf(name))
		}
		pass(time.Minute)
		for _, node := range w.Nodes() {
			if len(node.Spec.PodCIDRs) != 1 {
				t.Fatalf("node %s has %q", node.Name, node.Spec.PodCIDRs)
			}
		}
		if got := len(w.writes()); got != 600 || len(w.reads()) > 8 {
			t.Errorf("%d writes, reads %q", got, w.reads())
		}
	})
}

func TestANodeWithoutARangeWaitsForOneAndIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		says   []string
		state  *cloud.InstanceState
		reason string
	}{
		"none":                  {nil, nil, "the cloud gives its instance no IPv4 range for pods, but none at all"},
		"of another family":     {[]string{"fd00::/112"}, nil, "the cloud gives its instance no IPv4 range for pods, but fd00::/112"},
		"what is no range":      {[]string{"/24"}, nil, `the cloud says "/24", which is no range: invalid CIDR address: /24`},
		"no instance":           {nil, &cloud.InstanceState{}, "the cloud has no instance test://a"},
		"an error of the cloud": {nil, &cloud.InstanceState{Err: errors.New("throttled")}, "asking the cloud: throttled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(nodeOf("a"))
				w.say("a", test.says...)
				if test.state != nil {
					w.sayState("a", *test.state)
				}
				_, stop := w.start(t.Context(), t)
				defer stop()
				pass(9 * time.Minute)
				want := []string{"a: Warning CIDRNotAvailable: Node a waits for its podCIDRs: " + test.reason}
				if diff := cmp.Diff(want, w.Events()); diff != "" || gauge(t, waitingGauge) != 1 {
					t.Errorf("%v wait (-want +got):\n%s", gauge(t, waitingGauge), diff)
				}
				if reads := len(w.reads()); reads > 20 {
					t.Errorf("%d reads in 9 minutes", reads)
				}
				w.forgetStates()
				w.say("a", "10.4.0.0/24")
				pass(time.Minute + time.Second)
				if got := w.describe()["a"]; got != "10.4.0.0/24 False RouteCreated" || gauge(t, waitingGauge) != 0 {
					t.Errorf("%v wait, and it is %q", gauge(t, waitingGauge), got)
				}
			})
		})
	}
}

func TestPodCIDRsThatAreNotTheCloudsAreToldAndNeverOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reached("a", "10.4.0.0/24"), nodeOf("b", "10.4.9.0/24"), reached("c", "10.4.2.0/24"), reached("d", "10.4.3.0/24"))
		w.say("a", "10.4.0.0/24")
		w.say("b", "10.4.1.0/24")
		w.sayState("d", cloud.InstanceState{Err: errors.New("not known")})
		_, stop := w.start(t.Context(), t)
		defer stop()
		pass(time.Hour)
		want := []string{
			"b: Warning CIDRConflict: Node b has the podCIDR 10.4.9.0/24, but the cloud gives its instance 10.4.1.0/24: pods on it may not be reached. " +
				"Drain and delete the node, and let it register again",
			"c: Warning CIDRConflict: Node c has the podCIDR 10.4.2.0/24, but the cloud gives its instance none at all: pods on it may not be reached. " +
				"Drain and delete the node, and let it register again",
		}
		got := w.Events()
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || len(w.writes()) != 0 || gauge(t, conflictGauge) != 2 {
			t.Errorf("%v conflicts, writes %q (-want +got):\n%s", gauge(t, conflictGauge), w.writes(), diff)
		}
		w.say("c", "10.4.2.0/24")
		w.Remove("b")
		w.Put(nodeOf("b"))
		pass(11 * time.Minute)
		if got := w.describe()["b"]; got != "10.4.1.0/24 False RouteCreated" || gauge(t, conflictGauge) != 0 {
			t.Errorf("%v conflicts, and the node that registered again is %q", gauge(t, conflictGauge), got)
		}
	})
}

func TestARangeThatAnotherNodeHasIsGivenOnceThatNodeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reached("old", "10.4.0.0/24"))
		w.say("old", "10.4.0.0/24")
		w.say("heir", "10.4.0.0/25")
		w.say("twin", "10.4.7.0/24")
		w.say("other", "10.4.7.0/24")
		_, stop := w.start(t.Context(), t)
		defer stop()
		w.Put(nodeOf("heir"))
		pass(5 * time.Minute)
		want := []string{"heir: Warning CIDRConflict: Node heir waits for its podCIDRs: the cloud says 10.4.0.0/25, which node old has: " +
			"that node has to be deleted first"}
		if diff := cmp.Diff(want, w.Events()); diff != "" || w.describe()["heir"] != " True NoRouteCreated" {
			t.Errorf("%q (-want +got):\n%s", w.describe(), diff)
		}
		w.Remove("old")
		pass(2 * time.Second)
		if got := w.describe()["heir"]; got != "10.4.0.0/25 False RouteCreated" {
			t.Errorf("it is %q", got)
		}
		w.Put(nodeOf("twin"))
		w.Put(nodeOf("other"))
		pass(time.Minute)
		if got := w.describe(); (got["twin"] == " True NoRouteCreated") == (got["other"] == " True NoRouteCreated") {
			t.Errorf("two Nodes with the range of one instance: %q", got)
		}
	})
}

func TestANodeIsGivenItsRangeWhateverHappensToTheRequest(t *testing.T) {
	for name, fault := range map[string]func(w *world, request string) error{
		"it is lost": func(*world, string) error { return errors.New("connection reset") },
		"it conflicts with a write": func(w *world, _ string) error {
			w.Change("a", func(n *corev1.Node) { n.Labels = map[string]string{"x": "y"} })
			return nil
		},
		"another manager was first": func(w *world, _ string) error {
			w.Change("a", func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.4.0.0/24", []string{"10.4.0.0/24"} })
			return nil
		},
		"the node is registered again": func(w *world, _ string) error { w.Put(nodeOf("a")); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(nodeOf("a"))
				w.say("a", "10.4.0.0/24")
				failures := 1
				w.Fault = func(request string) error {
					if request == "PATCH a" && failures > 0 {
						failures--
						return fault(w, request)
					}
					return nil
				}
				_, stop := w.start(t.Context(), t)
				defer stop()
				pass(30 * time.Second)
				if got := w.describe()["a"]; got != "10.4.0.0/24 False RouteCreated" {
					t.Errorf("it is %q", got)
				}
			})
		})
	}
}

func TestANodeWithoutAProviderIDIsGivenItsRangeOnceItHasOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodeOf("a")
		node.Spec.ProviderID = ""
		w := newWorld(node)
		w.say("a", "10.4.0.0/24")
		_, stop := w.start(t.Context(), t)
		defer stop()
		pass(time.Hour)
		if len(w.reads()) != 0 || len(w.writes()) != 0 || len(w.Events()) != 0 {
			t.Errorf("reads %q, writes %q, events %q", w.reads(), w.writes(), w.Events())
		}
		w.Change("a", func(n *corev1.Node) { n.Spec.ProviderID = "test://a" })
		pass(2 * time.Second)
		if got := w.describe()["a"]; got != "10.4.0.0/24 False RouteCreated" {
			t.Errorf("it is %q", got)
		}
	})
}

// TestTheConditionIsCorrectedAndNotFoughtOver: another writer gets it back after ten seconds at the earliest.
func TestTheConditionIsCorrectedAndNotFoughtOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(reached("a", "10.4.0.0/24"), nodeOf("b", "10.4.1.0/24"))
		w.say("a", "10.4.0.0/24")
		w.say("b", "10.4.1.0/24")
		_, stop := w.start(t.Context(), t)
		defer stop()
		unreached := func(n *corev1.Node) { n.Status.Conditions = nodeOf("a").Status.Conditions }
		for range 60 {
			w.Change("a", unreached)
			pass(time.Second)
		}
		if got := w.writes(); len(got) < 5 || len(got) > 8 {
			t.Errorf("%d writes: %q", len(got), got)
		}
		pass(20 * time.Second)
		want := map[string]string{"a": "10.4.0.0/24 False RouteCreated", "b": "10.4.1.0/24 False RouteCreated"}
		if diff := cmp.Diff(want, w.describe()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestAManagerThatMayNoLongerActWritesNothing: its fence is closed while the cloud is asked.
func TestAManagerThatMayNoLongerActWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nodeOf("a"))
		w.say("a", "10.4.0.0/24")
		fence := election.Unfenced(time.Now())
		w.Call = func(context.Context, []*corev1.Node) error {
			fence.Revoke("another leads")
			return nil
		}
		_, stop := w.start(election.NewContext(t.Context(), fence), t)
		defer stop()
		pass(time.Minute)
		if got := w.writes(); len(got) != 0 {
			t.Errorf("writes %q", got)
		}
	})
}

func TestNothingIsCountedByAManagerThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nodeOf("a"), reached("b", "10.4.1.0/24"))
		c, stop := w.start(t.Context(), t)
		if gauge(t, waitingGauge) != 1 || gauge(t, conflictGauge) != 1 {
			t.Errorf("%v wait, %v conflict", gauge(t, waitingGauge), gauge(t, conflictGauge))
		}
		if err := c.HealthChecker().Check(nil); err != nil {
			t.Error(err)
		}
		stop()
		if gauge(t, waitingGauge) != 0 || gauge(t, conflictGauge) != 0 {
			t.Errorf("%v wait, %v conflict", gauge(t, waitingGauge), gauge(t, conflictGauge))
		}
	})
}

func TestARangeIsKeptForNoNodeThatIsGone(t *testing.T) {
	h := newHolders()
	node := func(uid string, cidrs ...string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
	}
	h.note(node("a", "10.4.0.0/24", "x"))
	h.note(node("gone", "10.4.1.0/24"))
	ranges, err := parseAll([]string{"10.4.1.0/28"})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.claim(node("b"), ranges); got != "gone" {
		t.Errorf("%q has it", got)
	}
	h.retain(map[types.UID]bool{"a": true})
	if got := h.claim(node("b"), ranges); got != "" {
		t.Errorf("%q has it", got)
	}
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	client := nodetest.New().Client()
	nodes := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes()
	for want, change := range map[string]func(*Config){
		"there is no cloud provider": func(c *Config) { c.Cloud = nil },
		"the provider test does not say which podCIDRs an instance has: set RangeAllocator": func(c *Config) {
			c.Cloud = nodetest.Lister{Cloud: &nodetest.Cloud{}}
		},
		"--service-cluster-ip-range": func(c *Config) { c.ServiceCIDRs = "10.0.0.0/33" },
		"--cluster-cidr":             func(c *Config) { c.ClusterCIDR = "10.0.0.0/33" },
	} {
		config := Config{Client: client, Nodes: nodes, Cloud: podLister{nodetest.Lister{Cloud: &nodetest.Cloud{}}}}
		change(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it should say %q: %v", want, err)
		}
	}
}
