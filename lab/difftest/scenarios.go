package difftest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
	"github.com/transplant-dev/transplant/lab/simcloud/provider"
)

// Scenario is something that happens to a cluster. It ends when the controllers have answered.
type Scenario struct {
	Name string
	Run  func(*world, context.Context) error
}

// Before is what there is before the manager starts.
var Before = Scenario{"nodes, a Service and routes of others", (*world).before}

// Scenarios happen one after the other, in one cluster.
var Scenarios = []Scenario{
	{"nodes that were there are initialised, routes of others deleted", (*world).takenOver},
	{"nodes join", (*world).nodesJoin},
	{"addresses and labels change", (*world).nodesChange},
	{"services are made", (*world).servicesMade},
	{"nodes come, are excluded and go", (*world).members},
	{"services change", (*world).servicesChange},
	{"machines are parked, revived and vanish", (*world).lifecycle},
	{"routes come, fail and go", (*world).routes},
}

func all(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func routed(cidr string) func(*api.Instance, *corev1.Node) {
	return func(_ *api.Instance, n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr} }
}

func (w *world) before(ctx context.Context) error {
	return all(
		func() error {
			return w.cloud.Apply(simcloud.Change{PutRoutes: []api.Route{
				{Name: "stale", CIDR: "10.244.200.0/24", Node: "gone"},
				{Name: "hole", CIDR: "10.244.201.0/24", Blackhole: true},
				{Name: "foreign", CIDR: "192.168.99.0/24", Node: "elsewhere"},
			}})
		},
		func() error { return w.machine(ctx, "worker-1", routed("10.244.1.0/24")) },
		func() error { return w.machine(ctx, "worker-2", routed("10.244.2.0/24")) },
		// One whose machine the cloud does not know: it stays uninitialised, and no route to it can be made.
		func() error {
			return w.machine(ctx, "unknown", func(i *api.Instance, n *corev1.Node) {
				*i = api.Instance{}
				routed("10.244.77.0/24")(nil, n)
			})
		},
		func() error { return w.service(ctx, "early", 30001, nil) },
	)
}

func (w *world) takenOver(ctx context.Context) error {
	return all(
		func() error { return w.initialised(ctx, "worker-1", "worker-2") },
		func() error { return w.routesAre(ctx, "10.244.1.0/24", "10.244.2.0/24", "192.168.99.0/24") },
		func() error { return w.membersAre(ctx, "early", "worker-1", "worker-2") },
	)
}

// nodesJoin is the integration suite's removal of the taint and its addresses of each family and order, and what
// providers say besides.
func (w *world) nodesJoin(ctx context.Context) error {
	provided := func(annotation string, ips ...string) func(*api.Instance, *corev1.Node) {
		return func(i *api.Instance, n *corev1.Node) {
			i.Addresses = append(addresses(ips...), api.Address{Type: string(corev1.NodeHostName), Address: n.Name})
			if annotation != "" {
				n.Annotations["alpha.kubernetes.io/provided-node-ip"] = annotation
			}
		}
	}
	joins := []struct {
		name   string
		change func(*api.Instance, *corev1.Node)
	}{
		{"ipv4", provided("", "10.0.1.1")},
		{"ipv6", provided("", "fd00::1")},
		{"both", provided("", "10.0.1.2", "fd00::2")},
		{"provided-ipv4", provided("10.0.1.4", "10.0.1.3", "10.0.1.4", "fd00::4")},
		{"provided-ipv6", provided("fd00::5", "10.0.1.5", "fd00::5")},
		{"provided-ipv4-ipv6", provided("10.0.1.6,fd00::6", "fd00::6", "10.0.1.6")},
		{"provided-ipv6-ipv4", provided("fd00::7,10.0.1.7", "10.0.1.7", "fd00::7")},
		{"labelled", func(i *api.Instance, n *corev1.Node) {
			i.Labels = map[string]string{
				"rack":                        "7",
				"taken":                       "cloud",
				"node.kubernetes.io/reserved": "x",
				"my.k8s.io/reserved":          "x",
			}
			n.Labels["taken"] = "user"
			i.Addresses = append(i.Addresses, api.Address{Type: string(corev1.NodeExternalIP), Address: "192.0.2.1"})
		}},
		{"known-id", func(_ *api.Instance, n *corev1.Node) { n.Spec.ProviderID = "sim:///known-id" }},
		{"other-taints", func(_ *api.Instance, n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoExecute})
		}},
		{"without-taint", func(_ *api.Instance, n *corev1.Node) { n.Spec.Taints = nil }},
	}
	var names []string
	for _, join := range joins {
		if err := w.machine(ctx, join.name, join.change); err != nil {
			return err
		}
		names = append(names, join.name)
	}
	// One that cannot be initialised: the IP is not the cloud's.
	if err := all(
		func() error { return w.machine(ctx, "wrong-ip", provided("10.9.9.9", "10.0.1.8")) },
		func() error { return w.initialised(ctx, names...) },
	); err != nil {
		return err
	}
	return w.eventually(ctx, "the addresses of a node without taint", func(ctx context.Context) error {
		n, err := w.admin.CoreV1().Nodes().Get(ctx, "without-taint", metav1.GetOptions{})
		if err == nil && len(n.Status.Addresses) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
}

// nodesChange changes what the cloud says of a machine, and what a node says: the zone of the beta label is the one
// that holds.
func (w *world) nodesChange(ctx context.Context) error {
	if err := all(
		func() error {
			return w.instance("ipv4", func(i *api.Instance) {
				i.Addresses = append(i.Addresses, api.Address{Type: string(corev1.NodeExternalIP), Address: "192.0.2.9"})
			})
		},
		func() error {
			return w.node(ctx, "labelled", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "wrong" })
		},
	); err != nil {
		return err
	}
	return w.eventually(ctx, "addresses and labels", func(ctx context.Context) error {
		changed, err := w.admin.CoreV1().Nodes().Get(ctx, "ipv4", metav1.GetOptions{})
		if err != nil {
			return err
		}
		labelled, err := w.admin.CoreV1().Nodes().Get(ctx, "labelled", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if zone := labelled.Labels[corev1.LabelTopologyZone]; len(changed.Status.Addresses) != 3 || zone != "zone-a" {
			return fmt.Errorf("addresses %v, zone %q", changed.Status.Addresses, zone)
		}
		return nil
	})
}

// servicesMade is the integration suite's class, mixed protocols and ipMode, besides the ordinary.
func (w *world) servicesMade(ctx context.Context) error {
	return all(
		func() error { return w.service(ctx, "web", 30002, nil) },
		func() error {
			return w.service(ctx, "address", 30003, func(s *corev1.Service) {
				s.Annotations[provider.AnnotationIngress], s.Annotations[provider.AnnotationIPMode] = api.KindIP, "Proxy"
			})
		},
		func() error {
			return w.service(ctx, "mixed", 30004, func(s *corev1.Service) {
				s.Spec.Ports = append(
					s.Spec.Ports,
					corev1.ServicePort{Name: "second", Protocol: corev1.ProtocolUDP, Port: 80, NodePort: 30004},
				)
			})
		},
		func() error {
			return w.service(
				ctx,
				"class",
				30005,
				func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other") },
			)
		},
		func() error {
			return w.service(ctx, "local", 30006, func(s *corev1.Service) {
				s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30099
			})
		},
		func() error {
			return w.service(
				ctx,
				"ranges",
				30007,
				func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} },
			)
		},
		func() error {
			return w.service(ctx, "plain", 30008, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
		},
		func() error { return w.served(ctx, "web", "address", "mixed", "local", "ranges") },
	)
}

func (w *world) members(ctx context.Context) error {
	const exclude = "node.kubernetes.io/exclude-from-external-load-balancers"
	services := []string{"early", "web", "address", "mixed", "local", "ranges"}
	present := func(node string, want bool) func() error {
		return func() error { return w.member(ctx, node, want, services...) }
	}
	return all(
		func() error { return w.machine(ctx, "late", nil) },
		present("late", true),
		func() error { return w.node(ctx, "late", func(n *corev1.Node) { n.Labels[exclude] = "true" }) },
		present("late", false),
		func() error { return w.node(ctx, "late", func(n *corev1.Node) { n.Labels[exclude] = "false" }) },
		present("late", true),
		func() error { return w.ready(ctx, "other-taints", corev1.ConditionFalse) },
		func() error { return w.admin.CoreV1().Nodes().Delete(ctx, "both", metav1.DeleteOptions{}) },
		present("both", false),
		func() error { return w.ready(ctx, "other-taints", corev1.ConditionTrue) },
	)
}

func (w *world) servicesChange(ctx context.Context) error {
	return all(
		func() error {
			return w.changeService(ctx, "web", func(s *corev1.Service) {
				s.Spec.Ports[0].Port = 8080
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, "sim.cloud/setting", "on")
			})
		},
		func() error {
			return w.changeService(ctx, "address", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
		},
		func() error {
			return w.changeService(ctx, "plain", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
		},
		func() error {
			return w.changeService(
				ctx,
				"ranges",
				func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"} },
			)
		},
		func() error {
			return w.admin.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, "mixed", metav1.DeleteOptions{})
		},
		func() error { return w.served(ctx, "plain") },
		func() error {
			return w.eventually(ctx, "changed load balancers", func(context.Context) error {
				var all []string
				for _, lb := range w.cloud.State().LoadBalancers {
					all = append(all, fmt.Sprintf("%s %d %s", lb.Service, lb.Ports[0].Port, lb.Settings["sourceRanges"]))
				}
				slices.Sort(all)
				got := strings.Join(all, ", ")
				if got != "default/early 80 , default/local 80 , default/plain 80 , default/ranges 80 198.51.100.0/24, default/web 8080 " {
					return errors.New(got)
				}
				return nil
			})
		},
		func() error {
			return w.eventually(ctx, "the end of a Service and of a load balancer", func(ctx context.Context) error {
				if _, err := w.admin.CoreV1().
					Services(metav1.NamespaceDefault).
					Get(ctx, "mixed", metav1.GetOptions{}); !apierrors.IsNotFound(
					err,
				) {
					return fmt.Errorf("reading service mixed: %w", err)
				}
				s, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "address", metav1.GetOptions{})
				if err == nil && len(s.Finalizers)+len(s.Status.LoadBalancer.Ingress) > 0 {
					err = fmt.Errorf("service address: %v", s.Finalizers)
				}
				return err
			})
		},
	)
}

func (w *world) lifecycle(ctx context.Context) error {
	const taint = "node.cloudprovider.kubernetes.io/shutdown"
	tainted := func(want bool) func() error {
		return func() error {
			return w.eventually(ctx, "the taint of a parked node", func(ctx context.Context) error {
				n, err := w.admin.CoreV1().Nodes().Get(ctx, "labelled", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if has := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint }); has != want {
					return fmt.Errorf("tainted: %t", has)
				}
				return nil
			})
		}
	}
	return all(
		func() error { return w.instance("labelled", func(i *api.Instance) { i.Shutdown = true }) },
		func() error { return w.ready(ctx, "labelled", corev1.ConditionFalse) },
		tainted(true),
		func() error { return w.instance("labelled", func(i *api.Instance) { i.Shutdown = false }) },
		func() error { return w.ready(ctx, "labelled", corev1.ConditionTrue) },
		tainted(false),
		// One that does not answer and one that does; the cloud has neither any more.
		func() error {
			return w.cloud.Apply(simcloud.Change{RemoveInstances: []string{"provided-ipv6", "provided-ipv4"}})
		},
		func() error { return w.ready(ctx, "provided-ipv6", corev1.ConditionUnknown) },
		func() error {
			return w.eventually(ctx, "the end of a node", func(ctx context.Context) error {
				_, err := w.admin.CoreV1().Nodes().Get(ctx, "provided-ipv6", metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("reading node: %w", err)
			})
		},
		func() error { return w.member(ctx, "provided-ipv6", false, "early", "web", "local", "ranges", "plain") },
	)
}

func (w *world) routes(ctx context.Context) error {
	return all(
		func() error {
			return w.cloud.Set(simcloud.Settings{Faults: []simcloud.Fault{
				{Operation: api.CreateRoute, Object: "10.244.4.0/24", Times: 1, Code: http.StatusServiceUnavailable},
			}})
		},
		func() error { return w.machine(ctx, "worker-3", routed("10.244.3.0/24")) },
		func() error { return w.machine(ctx, "worker-4", routed("10.244.4.0/24")) },
		func() error { return w.admin.CoreV1().Nodes().Delete(ctx, "worker-2", metav1.DeleteOptions{}) },
		func() error {
			return w.routesAre(ctx, "10.244.1.0/24", "10.244.3.0/24", "10.244.4.0/24", "192.168.99.0/24")
		},
		func() error {
			return w.eventually(ctx, "conditions", func(ctx context.Context) error {
				now, err := w.snapshot(ctx)
				if err != nil {
					return err
				}
				got := []string{now.Nodes["worker-3"].Network, now.Nodes["worker-4"].Network, now.Nodes["unknown"].Network}
				want := []string{"False RouteCreated", "False RouteCreated", "True NoRouteCreated"}
				for i := range want {
					if !strings.HasPrefix(got[i], want[i]) {
						return fmt.Errorf("conditions are %q", got)
					}
				}
				return nil
			})
		},
	)
}

// initialised waits until nodes have lost the taint.
func (w *world) initialised(ctx context.Context, names ...string) error {
	return w.eventually(ctx, "nodes to be initialised", func(ctx context.Context) error {
		for _, name := range names {
			n, err := w.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized.Key }) {
				return fmt.Errorf("node %q is not", name)
			}
		}
		return nil
	})
}

// served waits until Services have a place where they are reached.
func (w *world) served(ctx context.Context, names ...string) error {
	return w.eventually(ctx, "services to be served", func(ctx context.Context) error {
		for _, name := range names {
			s, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if len(s.Status.LoadBalancer.Ingress) == 0 {
				return fmt.Errorf("service %q is not", name)
			}
		}
		return nil
	})
}

// member waits until a node is a member of the load balancers of Services, or is no longer.
func (w *world) member(ctx context.Context, node string, want bool, services ...string) error {
	return w.eventually(ctx, "members of load balancers", func(context.Context) error {
		found := 0
		for _, lb := range w.cloud.State().LoadBalancers {
			if !slices.Contains(services, strings.TrimPrefix(lb.Service, "default/")) {
				continue
			}
			found++
			if slices.Contains(lb.Members, "sim:///"+node) != want {
				return fmt.Errorf("%s has the members %q", lb.Service, lb.Members)
			}
		}
		if found != len(services) {
			return fmt.Errorf("there are %d load balancers", found)
		}
		return nil
	})
}

// membersAre waits until the load balancer of a Service has these members.
func (w *world) membersAre(ctx context.Context, service string, nodes ...string) error {
	for _, node := range nodes {
		if err := w.member(ctx, node, true, service); err != nil {
			return err
		}
	}
	return nil
}

// routesAre waits until the cloud has routes to just these.
func (w *world) routesAre(ctx context.Context, cidrs ...string) error {
	return w.eventually(ctx, "routes", func(context.Context) error {
		var got []string
		for _, route := range w.cloud.State().Routes {
			got = append(got, route.CIDR)
		}
		slices.Sort(got)
		if !slices.Equal(got, cidrs) {
			return fmt.Errorf("there are routes to %q", got)
		}
		return nil
	})
}
