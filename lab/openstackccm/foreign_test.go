package openstackccm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// A cluster of the same project has a Service of this namespace and name, too. Its load balancer is neither taken over
// nor deleted, though an annotation names it.
func TestALoadBalancerOfAnotherClusterStays(t *testing.T) {
	for name, ports := range map[string][]corev1.ServicePort{
		"its ports": nil,
		"others":    {{Protocol: corev1.ProtocolTCP, Port: 8080, NodePort: 30999}},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1, "share-across-namespaces=true")
			victim := service("web")
			id := b.external(t, victim, "other")
			b.nodes = b.addServers(1) // those of our cluster
			before, ips := shape(b.only(t)), b.FloatingIPs()

			s := service("web", annotated(annote+"load-balancer-id", id))
			if ports == nil {
				if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), "is used by another Service") {
					t.Errorf("the error is %v", err)
				}
			} else {
				s.Spec.Ports = ports
				b.ensure(t, s)
			}
			if now := shape(b.only(t)); !containsAll(now, before) {
				t.Errorf("of\n%s\nthere is\n%s", strings.Join(before, "\n"), strings.Join(now, "\n"))
			}
			b.removeOnce(t, s)
			if diff := cmp.Diff(before, shape(b.only(t))); diff != "" {
				t.Errorf("the load balancer has changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(ips, b.FloatingIPs()); diff != "" {
				t.Errorf("its floating IP has changed (-before +after):\n%s", diff)
			}
			if tags := b.only(t).Tags; !slices.Equal(tags, []string{"kube_service_other_default_web"}) {
				t.Errorf("its tags are %v", tags)
			}
		})
	}
}

// A Service that names a load balancer shares it with those of its own namespace. Ports of another tenant's address, with
// which a certificate for the other's domain can be had, are for nobody to take who learns its ID.
func TestAServiceSharesLoadBalancersOfItsNamespaceOnly(t *testing.T) {
	const mine = "kube_service_" + cluster + "_default_dns"
	others := []openstacksim.Listener{{Name: "database", Protocol: "TCP", Port: 5432}}
	for name, test := range map[string]struct {
		lb      openstacksim.LoadBalancer
		refused bool
	}{
		"of a Service of the namespace":            {openstacksim.LoadBalancer{Name: "kube_service_" + cluster + "_default_web"}, false},
		"of a Service of another namespace":        {openstacksim.LoadBalancer{Name: "kube_service_" + cluster + "_shop_web"}, true},
		"of a namespace that ends alike":           {openstacksim.LoadBalancer{Name: "kube_service_" + cluster + "_a-default_web"}, true},
		"of another cluster":                       {openstacksim.LoadBalancer{Name: "kube_service_other_default_web"}, true},
		"of a cluster whose name ends alike":       {openstacksim.LoadBalancer{Name: "kube_service_x_" + cluster + "_default_web"}, true},
		"whose name was cut":                       {openstacksim.LoadBalancer{Name: ("kube_service_" + cluster + "_default_" + strings.Repeat("n", 255))[:255]}, true},
		"of an in-tree Service":                    {openstacksim.LoadBalancer{Name: "a" + strings.Repeat("9", 31)}, true},
		"of the namespace, shared with another":    {openstacksim.LoadBalancer{Name: "kube_service_" + cluster + "_default_web", Tags: []string{"kube_service_" + cluster + "_shop_web"}}, true},
		"made by hand, for who comes first":        {openstacksim.LoadBalancer{Name: "public"}, false},
		"made by hand, and used by the namespace":  {openstacksim.LoadBalancer{Name: "public", Tags: []string{"kube_service_" + cluster + "_default_web"}, Listeners: others}, false},
		"made by hand, and used by another":        {openstacksim.LoadBalancer{Name: "public", Tags: []string{"kube_service_" + cluster + "_shop_web"}}, true},
		"made by hand, with listeners":             {openstacksim.LoadBalancer{Name: "public", Listeners: others}, true},
		"shared already, by an earlier manager":    {openstacksim.LoadBalancer{Name: "kube_service_" + cluster + "_shop_web", Tags: []string{mine}}, false},
		"shared already, and without a Service":    {openstacksim.LoadBalancer{Name: "public", Tags: []string{mine}, Listeners: others}, false},
		"shared already, by a Service named alike": {openstacksim.LoadBalancer{Name: "kube_service_" + cluster + "_shop_web", Tags: []string{mine + "2"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, all := range []bool{false, true} {
				b := balance(t, 1, fmt.Sprintf("share-across-namespaces=%t", all))
				test.lb.VIPSubnet = "subnet-nodes"
				id := b.AddLoadBalancer(test.lb)
				before, tags := shape(b.only(t)), b.only(t).Tags
				s := service("dns", annotated(annote+"load-balancer-id", id))
				if all || !test.refused {
					b.ensure(t, s)
					continue
				}
				b.Calls()
				err := b.fails(t, s)
				if err == nil || !strings.Contains(err.Error(), id+" is not one of namespace default") || !strings.Contains(err.Error(), "share-across-namespaces=true") ||
					strings.Contains(err.Error(), "shop") {
					t.Errorf("the error is %v", err)
				}
				b.removeOnce(t, s)
				if got := writes(b.Calls()); len(got) > 0 {
					t.Errorf("it writes %v", got)
				}
				if diff := cmp.Diff(before, shape(b.only(t))) + cmp.Diff(tags, b.only(t).Tags); diff != "" {
					t.Errorf("the load balancer has changed (-before +after):\n%s", diff)
				}
			}
		})
	}
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// The administrator says which names the cluster had. No annotation is needed.
func TestLoadBalancersUnderAFormerNameOfTheCluster(t *testing.T) {
	for name, id := range map[string]bool{"found by name": false, "named by the annotation": true} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1, "former-cluster-name=oldest", "former-cluster-name=other")
			s := service("web")
			if made := b.external(t, s, "other"); id {
				s.Annotations[annote+"load-balancer-id"] = made
			}
			b.Calls()
			b.ensure(t, s)
			if got := writes(b.Calls()); len(got) > 0 {
				t.Errorf("it writes %v", got)
			}
			b.remove(t, s)
			b.nothingLeft(t)
		})
	}
}

// A floating IP that was kept for a Service of another namespace or cluster is not given to who asks for its address. One
// of the own namespace is, and stays when the Service goes: it was made for another one.
func TestAKeptFloatingIPIsNotTakenFromItsNamespace(t *testing.T) {
	const made = "Floating IP for Kubernetes external service "
	for name, test := range map[string]struct {
		description string
		refused     bool
	}{
		"of another namespace": {made + "shop/web from cluster lab", true},
		"of another cluster":   {made + "default/web from cluster other", true},
		"of its own namespace": {made + "default/old from cluster lab", false},
		"of a user":            {"www.example.com", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			b.AddFloatingIP(openstacksim.FloatingIP{Address: "203.0.113.77", Network: "public", Description: test.description})
			before := b.FloatingIPs()
			s := service("web", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.77" })
			if test.refused {
				err := b.fails(t, s)
				if err == nil || !strings.Contains(err.Error(), "203.0.113.77") || !strings.Contains(err.Error(), "another namespace or cluster") {
					t.Errorf("the error is %v", err)
				}
			} else if got := b.ensure(t, s); got != "203.0.113.77" {
				t.Errorf("the address is %s", got)
			}
			b.remove(t, s)
			if diff := cmp.Diff(before, b.FloatingIPs()); diff != "" {
				t.Errorf("the floating IP has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestFloatingIPsOfOthersStay where a cloud's list shows more than it was asked for: the first of the list may be of
// another Service, which would lose its address.
func TestFloatingIPsOfOthersStay(t *testing.T) {
	b := balanceOn(t, start(t, openstacksim.Options{Unfiltered: true}, "[LoadBalancer]"), 1)
	first, second := service("first"), service("second", func(s *corev1.Service) {
		s.UID, s.Spec.LoadBalancerIP = "another", "203.0.113.77"
	})
	address := b.ensure(t, first)
	b.AddFloatingIP(openstacksim.FloatingIP{Address: "203.0.113.77", Network: "public", Description: "www.example.com"})
	before := b.FloatingIPs()
	if got := b.ensure(t, second); got != "203.0.113.77" {
		t.Errorf("the second Service has the address %s", got)
	}
	if got := b.ensure(t, first); got != address {
		t.Errorf("the first Service had the address %s and has %s", address, got)
	}
	b.remove(t, second)
	if diff := cmp.Diff(before, b.FloatingIPs()); diff != "" {
		t.Errorf("the floating IPs have changed (-before +after):\n%s", diff)
	}
	b.remove(t, first)
}

// TestSecurityGroupsOfOthersStay where a cloud's list shows more than it was asked for: what is in it may be deleted.
func TestSecurityGroupsOfOthersStay(t *testing.T) {
	b := balanceOn(t, start(t, openstacksim.Options{Unfiltered: true}, "[LoadBalancer]"), 1)
	b.AddSecurityGroup("databases", openstacksim.Rule{Prefix: "10.0.0.0/8", Port: 5432})
	groups, rules := b.SecurityGroups()
	s := service("web")
	b.ensure(t, s)
	b.removeOnce(t, s)
	nowGroups, nowRules := b.SecurityGroups()
	if diff := cmp.Diff(groups, nowGroups) + cmp.Diff(rules, nowRules); diff != "" || len(b.LoadBalancers()) > 0 {
		t.Errorf("%d load balancers; security groups and rules (-before +after):\n%s", len(b.LoadBalancers()), diff)
	}
}

func TestOnlyTheOwnerHasALoadBalancerFailOver(t *testing.T) {
	b := balance(t, 1)
	b.ensure(t, service("web"))
	id := b.only(t).ID
	b.SetStatus(id, openstacksim.Errored)
	b.Calls()
	other := service("dns", annotated(annote+"load-balancer-id", id), annotated("transplant.dev/openstack-on-error", "failover"))
	other.UID = "99999999-4f50-6172-8394-a5b6c7d8e9f0"
	if err := b.fails(t, other); err == nil || !strings.Contains(err.Error(), "It is not this Service's own") {
		t.Errorf("the error is %v", err)
	}
	if got := writes(b.Calls()); len(got) > 0 {
		t.Errorf("it writes %v", got)
	}
}

// A name that would be cut could be another Service's.
func TestANameThatIsTooLongIsRefused(t *testing.T) {
	long := strings.Repeat("n", 243-len(cluster)-len("default"))
	b := balance(t, 1)
	first, second := service(long+"a"), service(long+"b")
	for _, s := range []*corev1.Service{first, second} {
		if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), "255 characters at most") {
			t.Errorf("the error is %v", err)
		}
	}
	b.external(t, first, cluster) // of an earlier manager, and Octavia has cut its name
	b.ChangeResource(b.only(t).ID, "name", ("kube_service_" + cluster + "_default_" + long)[:255])
	b.remove(t, second)
	if len(b.LoadBalancers()) != 1 || len(b.FloatingIPs()) != 1 {
		t.Errorf("load balancers %v, floating IPs %v", b.LoadBalancers(), b.FloatingIPs())
	}
}
