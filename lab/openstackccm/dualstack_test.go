package openstackccm

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/lab/poll"
)

const (
	subnet4      = "11111111-0000-4000-8000-000000000004"
	subnet6      = "11111111-0000-4000-8000-000000000006"
	away4        = "11111111-0000-4000-8000-000000000094"
	away6        = "11111111-0000-4000-8000-000000000096"
	secondSubnet = "transplant.dev/openstack-second-subnet-id"
)

// events is the client of a cluster that keeps the events of Services.
type events struct {
	cloudprovider.ControllerClientBuilder

	api kubernetes.Interface
}

func (e events) Client(string) (kubernetes.Interface, error) { return e.api, nil }

// messages are those of all events, each once.
func (e events) messages(ctx context.Context) (all []string, err error) {
	list, err := e.api.CoreV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, event := range list.Items {
		all = append(all, fmt.Sprintf("%s %s x%d", event.Type, event.Message, max(event.Count, 1)))
	}
	return all, nil
}

// say waits for an event with a text, and fails where there is another one.
func (e events) say(t *testing.T, text string) {
	t.Helper()
	poll.Eventually(t, "an event with "+text, func(ctx context.Context) error {
		all, err := e.messages(ctx)
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("there is no event")
		}
		return err
	})
	all, err := e.messages(t.Context())
	if err != nil || len(all) != 1 || !strings.Contains(all[0], text) || !strings.HasSuffix(all[0], " x1") {
		t.Errorf("the events are %q (error %v), and one is wanted with %q", all, err, text)
	}
}

// dualStacked is a cloud whose network of nodes has a subnet of each family, and in which each node has both addresses.
func dualStacked(t *testing.T, count int, more ...string) (*balanced, events) {
	t.Helper()
	b := balance(t, 0, more...)
	b.AddSubnet(openstacksim.Subnet{ID: subnet4, Name: "nodes-4", Network: "nodes", CIDR: "10.0.0.0/16"})
	b.AddSubnet(openstacksim.Subnet{ID: subnet6, Name: "nodes-6", Network: "nodes", CIDR: "fd00:1::/64"})
	for range count {
		b.addDual()
	}
	e := events{api: fake.NewClientset()}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	b.cloud.Initialize(e, stop)
	return b, e
}

func (b *balanced) addDual() {
	i := len(b.nodes)
	addresses := []string{fmt.Sprintf("10.0.0.%d", 10+i), fmt.Sprintf("fd00:1::%d", 10+i)}
	name := fmt.Sprintf("n-%d", i)
	id := b.AddServer(openstacksim.Server{Name: name})
	b.AddPort(openstacksim.Port{Network: "nodes", DeviceID: id, Addresses: addresses})
	b.nodes = append(b.nodes, node(name, id, addresses...))
}

func families(policy corev1.IPFamilyPolicy, all ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, all }
}

// both has a Service ask for both families, IPv4 first.
func both(policy corev1.IPFamilyPolicy) func(*corev1.Service) {
	return families(policy, corev1.IPv4Protocol, corev1.IPv6Protocol)
}

// shows are the addresses of a Service, in order.
func shows(s *corev1.Service) (all []string) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		all = append(all, in.IP+in.Hostname)
	}
	return all
}

func TestADualStackServiceHasAnAddressOfEachFamily(t *testing.T) {
	v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
	for name, test := range map[string]struct {
		change    []func(*corev1.Service)
		config    []string
		shows     []string
		additions map[string]string
	}{
		"IPv4 first": {
			change: []func(*corev1.Service){both(corev1.IPFamilyPolicyRequireDualStack)},
			shows:  []string{"203.0.113.1", "fd00:1::250:2"}, additions: map[string]string{subnet6: "fd00:1::250:2"},
		},
		"preferred": {
			change: []func(*corev1.Service){both(corev1.IPFamilyPolicyPreferDualStack)},
			shows:  []string{"203.0.113.1", "fd00:1::250:2"}, additions: map[string]string{subnet6: "fd00:1::250:2"},
		},
		"IPv6 first": {
			change: []func(*corev1.Service){families(corev1.IPFamilyPolicyRequireDualStack, v6, v4)},
			shows:  []string{"fd00:1::250:1", "203.0.113.1"}, additions: map[string]string{subnet4: "10.0.250.2"},
		},
		"internal": {
			change: []func(*corev1.Service){both(corev1.IPFamilyPolicyRequireDualStack), internal},
			shows:  []string{"10.0.250.1", "fd00:1::250:2"}, additions: map[string]string{subnet6: "fd00:1::250:2"},
		},
		"in a network, IPv6 first": {
			change: []func(*corev1.Service){families(corev1.IPFamilyPolicyRequireDualStack, v6, v4), internal, annotated(annote+"network-id", "nodes")},
			shows:  []string{"fd00:1::250:1", "10.0.250.2"}, additions: map[string]string{subnet4: "10.0.250.2"},
		},
		"one part after the other": {
			change: []func(*corev1.Service){both(corev1.IPFamilyPolicyRequireDualStack)},
			config: []string{"provider-requires-serial-api-calls=true"},
			shows:  []string{"203.0.113.1", "fd00:1::250:2"}, additions: map[string]string{subnet6: "fd00:1::250:2"},
		},
		"a named IPv6 address": {
			change: []func(*corev1.Service){both(corev1.IPFamilyPolicyRequireDualStack), func(s *corev1.Service) { s.Spec.LoadBalancerIP = "fd00:1::99" }},
			shows:  []string{"203.0.113.1", "fd00:1::99"}, additions: map[string]string{subnet6: "fd00:1::99"},
		},
		"a named floating IP": {
			change: []func(*corev1.Service){both(corev1.IPFamilyPolicyRequireDualStack), func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.77" }},
			shows:  []string{"203.0.113.77", "fd00:1::250:2"}, additions: map[string]string{subnet6: "fd00:1::250:2"},
		},
		"a named subnet": {
			change: []func(*corev1.Service){both(corev1.IPFamilyPolicyRequireDualStack), annotated(secondSubnet, subnet6)},
			shows:  []string{"203.0.113.1", "fd00:1::250:2"}, additions: map[string]string{subnet6: "fd00:1::250:2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, e := dualStacked(t, 2, test.config...)
			s := service("web", test.change...)
			b.ensure(t, s)
			b.noneUnknown(t, b.Calls())
			if diff := cmp.Diff(test.shows, shows(s)); diff != "" {
				t.Errorf("the Service shows (-want +got):\n%s", diff)
			}
			lb := b.only(t)
			if diff := cmp.Diff(test.additions, lb.Additional); diff != "" {
				t.Errorf("additional_vips (-want +got):\n%s", diff)
			}
			b.looks(t,
				"TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443,fd00:1::10:30443,fd00:1::11:30443",
				"TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080,fd00:1::10:30080,fd00:1::11:30080")
			for _, p := range lb.Pools {
				for _, m := range p.Members {
					if want := map[bool]string{true: subnet6, false: subnet4}[strings.Contains(m.Address, ":")]; m.Subnet != want {
						t.Errorf("member %s is in subnet %s, want %s", m.Address, m.Subnet, want)
					}
				}
			}
			b.ensure(t, s)
			if sent := writes(b.Calls()); len(sent) > 0 {
				t.Errorf("the second look writes %v", sent)
			}
			status, exists, err := b.balancers.GetLoadBalancer(t.Context(), cluster, s)
			if err != nil || !exists || !cmp.Equal(status, &s.Status.LoadBalancer) {
				t.Errorf("status %v, exists %v, error %v", status, exists, err)
			}
			if said, err := e.messages(t.Context()); err != nil || len(said) > 0 {
				t.Errorf("the events are %v (error %v)", said, err)
			}
			b.remove(t, s)
			b.nothingLeft(t)
		})
	}
}

// TestMembersOfBothFamiliesFollowTheNodes: each pool is changed by one request, and the kubelet of a node cannot have an
// address of another machine among the members.
func TestMembersOfBothFamiliesFollowTheNodes(t *testing.T) {
	b, _ := dualStacked(t, 2)
	s := service("web", both(corev1.IPFamilyPolicyRequireDualStack))
	b.ensure(t, s)
	b.addDual()
	b.Calls()
	b.ensure(t, s)
	want := []string{"PUT lbaas/pools/{id}/members", "PUT lbaas/pools/{id}/members"}
	if sent := writes(b.Calls()); !slices.Equal(sent, want) {
		t.Errorf("a node more takes %v", sent)
	}
	b.nodes[2].Status.Addresses[1].Address = "fd00:1::10"         // that of n-0
	b.nodes[1].Status.Addresses = b.nodes[1].Status.Addresses[:1] // it has no other any more
	b.ensure(t, s)
	b.looks(t,
		"TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443,10.0.0.12:30443,fd00:1::10:30443",
		"TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080,10.0.0.12:30080,fd00:1::10:30080")
	b.nodes[0].Status.Addresses = b.nodes[0].Status.Addresses[:1]
	b.nodes[2].Status.Addresses = b.nodes[2].Status.Addresses[:1]
	b.ensure(t, s)
	b.looks(t,
		"TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443,10.0.0.12:30443",
		"TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080,10.0.0.12:30080")
}

func TestWhereASecondAddressCannotBe(t *testing.T) {
	const other6 = "11111111-0000-4000-8000-000000000007"
	for name, test := range map[string]struct {
		change func(b *balanced, s *corev1.Service)
		says   string
	}{
		"an older Octavia": {
			func(b *balanced, _ *corev1.Service) { b.SetOctaviaVersion(25) },
			"needs version 2.26 of Octavia's API, and this one has 2.25: have Octavia upgraded, or set spec.ipFamilyPolicy to SingleStack",
		},
		"nodes of one family": {
			func(b *balanced, _ *corev1.Service) {
				for _, n := range b.nodes {
					n.Status.Addresses = n.Status.Addresses[:1]
				}
			},
			"no node has an address of family IPv6: give the nodes some, or set spec.ipFamilyPolicy to SingleStack",
		},
		"nodes that claim addresses of others": {
			func(b *balanced, _ *corev1.Service) {
				for i, n := range b.nodes {
					n.Status.Addresses[1].Address = fmt.Sprintf("fd00:1::%d", 10+(i+1)%len(b.nodes))
				}
			},
			"no node has an address of its own of family IPv6 (2 nodes claim addresses of others: of node n-0, ",
		},
		"a network of one family": {
			func(b *balanced, _ *corev1.Service) { b.DeleteSubnet(subnet6) },
			"network nodes has no subnet of family IPv6: add one, or set spec.ipFamilyPolicy to SingleStack",
		},
		"two subnets, and nodes in none of them": {
			func(b *balanced, s *corev1.Service) {
				b.AddSubnet(openstacksim.Subnet{ID: away4, Network: "away", CIDR: "10.9.0.0/16"})
				b.AddSubnet(openstacksim.Subnet{ID: away6, Network: "away", CIDR: "fd00:9::/64"})
				b.AddSubnet(openstacksim.Subnet{ID: other6, Network: "away", CIDR: "fd00:8::/64"})
				s.Annotations[annote+"subnet-id"] = away4
			},
			"network away has 2 subnets of family IPv6 (" + other6 + ", " + away6 + "): name one in the annotation " + secondSubnet,
		},
		"a port": {
			func(b *balanced, s *corev1.Service) {
				s.Annotations[annote+"port-id"] = b.AddPort(openstacksim.Port{Network: "nodes", Addresses: []string{"10.0.7.7"}})
			},
			"the port of annotation " + annote + "port-id has one address for it: remove the annotation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, e := dualStacked(t, 2)
			s := service("web", both(corev1.IPFamilyPolicyRequireDualStack))
			test.change(b, s)
			err := b.fails(t, s)
			if err == nil || !strings.Contains(err.Error(), "service default/web requires an address of each family") ||
				!strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v", err)
			}
			if sent := writes(b.Calls()); len(sent) > 0 {
				t.Errorf("a Service that requires both gets %v", sent)
			}
			both(corev1.IPFamilyPolicyPreferDualStack)(s)
			err = again(t, func() error { return b.create(t, s) })
			if err == nil || !strings.Contains(err.Error(), "is being made") {
				t.Fatalf("the error is %v", err)
			}
			e.say(t, test.says)
			b.ensure(t, s)
			if lb := b.only(t); len(lb.Additional) > 0 || len(shows(s)) != 1 || strings.Contains(shows(s)[0], ":") {
				t.Errorf("load balancer %+v, the Service shows %v", lb, shows(s))
			}
		})
	}
}

// create is the first call for a Service, whose answer is that its load balancer is being made.
func (b *balanced) create(t *testing.T, s *corev1.Service) error {
	t.Helper()
	_, err := b.balancers.EnsureLoadBalancer(t.Context(), cluster, s, b.nodes)
	return fmt.Errorf("the answer to the first call: %s", err) //nolint:errorlint // the caller does not call again
}

// TestALoadBalancerOfOneFamilyServesOn: one that exists gets no other address. What its Service asks for is no reason to
// stop changing its members.
func TestALoadBalancerOfOneFamilyServesOn(t *testing.T) {
	b, e := dualStacked(t, 2)
	s := service("web")
	before := b.ensure(t, s)
	both(corev1.IPFamilyPolicyRequireDualStack)(s)
	b.addDual()
	b.Calls()
	if after := b.ensure(t, s); after != before || len(shows(s)) != 1 {
		t.Errorf("the Service showed %s, and shows %v", before, shows(s))
	}
	b.looks(t,
		"TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443,10.0.0.12:30443",
		"TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080,10.0.0.12:30080")
	b.ensure(t, s)
	e.say(t, "has no address of family IPv6, and Octavia adds none to one that exists: delete the Service and create it again")
	b.remove(t, s)
	b.nothingLeft(t)
}

// TestAServiceLearnsWhichFamilyItsLoadBalancerLacks: it was made for the other one, by whom or what Services were then.
func TestAServiceLearnsWhichFamilyItsLoadBalancerLacks(t *testing.T) {
	b, e := dualStacked(t, 2)
	s := service("web")
	b.ensure(t, s)
	families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol)(s)
	b.ensure(t, s)
	e.say(t, "has no address of family IPv6, and Octavia adds none to one that exists")
}

// TestASecondAddressThatOctaviaRefuses: the error is Octavia's, and nothing is left behind.
func TestASecondAddressThatOctaviaRefuses(t *testing.T) {
	b, _ := dualStacked(t, 1)
	b.AddSubnet(openstacksim.Subnet{ID: away6, Network: "away", CIDR: "fd00:9::/64"})
	s := service("web", both(corev1.IPFamilyPolicyRequireDualStack), annotated(secondSubnet, away6))
	if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), "All VIP subnets must belong to the same network") {
		t.Errorf("the error is %v", err)
	}
	b.nothingLeft(t)
	defer b.Add(openstacksim.Fault{Method: http.MethodGet, Path: "subnets", Status: http.StatusForbidden})()
	delete(s.Annotations, secondSubnet)
	if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), "listing the subnets of network nodes") {
		t.Errorf("the error is %v", err)
	}
	b.nothingLeft(t)
}
