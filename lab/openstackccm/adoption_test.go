package openstackccm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// legacyName is how the in-tree provider names the load balancer of the Service of this package.
var legacyName = "a" + strings.ReplaceAll(uid, "-", "")[:31]

// inTree makes what the in-tree manager of Kubernetes 1.25 makes for a Service: names, members and floating IP as it was
// seen to. With groups there are its security group, and rules on the nodes' group that name it.
func (b *balanced) inTree(s *corev1.Service, groups bool) (id string) {
	name := cloudprovider.DefaultLoadBalancerName(s)
	lb := openstacksim.LoadBalancer{
		Name: name, VIPSubnet: "subnet-nodes", Description: "Kubernetes external service " + s.Name,
	}
	for i, p := range s.Spec.Ports {
		lb.Listeners = append(lb.Listeners, openstacksim.Listener{
			Name: fmt.Sprintf("listener_%s_%d", name, i), Protocol: "TCP", Port: int(p.Port),
		})
		pool := openstacksim.Pool{Name: fmt.Sprintf("pool_%s_%d", name, i), Protocol: "TCP", Algorithm: "ROUND_ROBIN"}
		if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
			pool.Persistence = "SOURCE_IP"
		}
		for _, n := range b.nodes {
			pool.Members = append(pool.Members, openstacksim.Member{
				Name:    fmt.Sprintf("member_%s_%d_%s", name, i, n.Name),
				Address: n.Status.Addresses[0].Address, Port: int(p.NodePort), Subnet: "subnet-nodes",
			})
		}
		pool.Monitor = &openstacksim.Monitor{
			Name: fmt.Sprintf("monitor_%s_%d", name, i), Type: "TCP", Delay: 5, Timeout: 3, Retries: 1,
		}
		lb.Pools = append(lb.Pools, pool)
	}
	id = b.AddLoadBalancer(lb)
	made := b.LoadBalancers()[0]
	address := made.VIP
	if s.Annotations[private] != "true" {
		b.AddFloatingIP(openstacksim.FloatingIP{Network: "public", Port: made.VIPPort})
		address = b.FloatingIPs()[len(b.FloatingIPs())-1].Address
	}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	if groups {
		group := b.AddSecurityGroup(fmt.Sprintf("lb-sg-%s-%s-%s", s.UID, s.Namespace, s.Name), openstacksim.Rule{Prefix: "0.0.0.0/0", Port: 80})
		b.AddRule(openstacksim.Rule{Group: "nodes", RemoteGroup: group, Protocol: "tcp", Port: 30080})
		b.ChangePort(made.VIPPort, func(p *openstacksim.Port) { p.Groups = []string{"default", group} })
	}
	return id
}

func TestInTreeLoadBalancersAreAdopted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		groups bool
		// first are the writes of the first reconciliation
		first []string
	}{
		"external":             {func(*corev1.Service) {}, false, []string{"PUT floatingips/{id}"}},
		"internal":             {internal, false, nil},
		"with security groups": {func(*corev1.Service) {}, true, []string{"PUT floatingips/{id}"}},
		"with affinity": {
			func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }, false, []string{"PUT floatingips/{id}"},
		},
		"with source ranges": {
			func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} }, false,
			[]string{"PUT lbaas/listeners/{id}", "PUT lbaas/listeners/{id}", "PUT floatingips/{id}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 2, "create-monitor=true", "use-octavia=true")
			s := service("web", test.change)
			b.inTree(s, test.groups)
			before := b.only(t)
			address := s.Status.LoadBalancer.Ingress[0].IP
			if got := b.ensure(t, s); got != address {
				t.Errorf("the address is %s, and was %s", got, address)
			}
			calls := b.Calls()
			b.noneUnknown(t, calls)
			if diff := cmp.Diff(test.first, writes(calls)); diff != "" {
				t.Errorf("writes of the first reconciliation (-want +got):\n%s", diff)
			}
			after := b.only(t)
			for i := range after.Listeners {
				after.Listeners[i].AllowedCIDRs = nil
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the in-tree manager would find another load balancer (-before +after):\n%s", diff)
			}
			for range 2 {
				b.ensure(t, s)
			}
			b.Advance(time.Hour)
			b.ensure(t, s)
			if got := writes(b.Calls()); len(got) > 0 {
				t.Errorf("later reconciliations write %v", got)
			}

			// a change: a port more, and a node less
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 8080, NodePort: 30808})
			b.nodes = b.nodes[:1]
			if got := b.ensure(t, s); got != address {
				t.Errorf("the address is %s, and was %s", got, address)
			}
			if lb := b.only(t); lb.Name != legacyName || lb.ID != before.ID || len(lb.Listeners) != 3 || len(lb.Pools[0].Members) != 1 {
				t.Errorf("after a change: %+v", lb)
			}
			b.remove(t, s)
			b.nothingLeft(t)
			for _, p := range b.Ports() {
				if slices.ContainsFunc(p.Groups, func(g string) bool { return g != "default" }) {
					t.Errorf("port %+v has the group yet", p)
				}
			}
		})
	}
}

// What is deleted before this manager has ever ensured it leaves nothing, either.
func TestAnInTreeLoadBalancerIsDeletedAtOnce(t *testing.T) {
	for name, status := range map[string]bool{"with its status": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			s := service("web")
			b.inTree(s, true)
			if !status {
				s.Status = corev1.ServiceStatus{}
			}
			b.remove(t, s)
			b.nothingLeft(t)
		})
	}
}

// A floating IP that the user has named, or that another has put on it, is not deleted.
func TestTheUsersFloatingIPStays(t *testing.T) {
	for name, test := range map[string]struct {
		change      func(*corev1.Service)
		description string
		status      string
	}{
		"named":            {func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.1" }, "", "203.0.113.1"},
		"described":        {func(*corev1.Service) {}, "shop.example.com", "203.0.113.1"},
		"kept":             {annotated(annote+"keep-floatingip", "true"), "", "203.0.113.1"},
		"put on by a hand": {internal, "", "10.0.250.1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			s := service("web", test.change)
			delete(s.Annotations, private)
			b.inTree(s, false)
			test.change(s)
			s.Status.LoadBalancer.Ingress[0].IP = test.status
			if test.description != "" {
				b.DescribeFloatingIP(b.FloatingIPs()[0].ID, test.description)
			}
			b.ensure(t, s)
			b.remove(t, s)
			if ips := b.FloatingIPs(); len(ips) != 1 || ips[0].Port != "" || len(b.LoadBalancers()) > 0 {
				t.Errorf("floating IPs %+v, load balancers %v", ips, b.LoadBalancers())
			}
		})
	}
}

// A free floating IP of a user that a Service of the in-tree provider's days has named for a while stays the user's, and so
// does one that an administrator has put in the place of the in-tree provider's.
func TestAFloatingIPIsNotTakenForOneOfTheInTreeProvider(t *testing.T) {
	for name, use := range map[string]func(b *balanced, s *corev1.Service){
		"named for a while": func(b *balanced, s *corev1.Service) {
			b.ensure(t, s)
			s.Spec.LoadBalancerIP = "203.0.113.77"
			if got := b.ensure(t, s); got != "203.0.113.77" {
				t.Errorf("the address is %s", got)
			}
			s.Spec.LoadBalancerIP = ""
			b.ensure(t, s)
		},
		"put on by an administrator": func(b *balanced, s *corev1.Service) {
			b.DeleteFloatingIP(b.FloatingIPs()[0].ID)
			b.AttachFloatingIP(b.FloatingIPs()[0].ID, b.only(t).VIPPort)
			if got := b.ensure(t, s); got != "203.0.113.77" {
				t.Errorf("the address is %s", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			s := service("web")
			b.inTree(s, false)
			b.AddFloatingIP(openstacksim.FloatingIP{Address: "203.0.113.77", Network: "public"})
			use(b, s)
			b.ensure(t, s) // the Service shows the address by now
			b.remove(t, s)
			ips := b.FloatingIPs()
			if len(ips) != 1 || ips[0].Address != "203.0.113.77" || ips[0].Port != "" || ips[0].Description != "" {
				t.Errorf("floating IPs %+v", ips)
			}
		})
	}
}

func TestAnAdoptedServiceBecomesInternalAndExternalAgain(t *testing.T) {
	b := balance(t, 1)
	s := service("web")
	b.inTree(s, false)
	b.ensure(t, s)
	internal(s)
	if got := b.ensure(t, s); got != b.only(t).VIP || len(b.FloatingIPs()) > 0 {
		t.Errorf("internal: address %s, floating IPs %v", got, b.FloatingIPs())
	}
	delete(s.Annotations, private)
	if got := b.ensure(t, s); len(b.FloatingIPs()) != 1 || b.FloatingIPs()[0].Address != got {
		t.Errorf("external: address %s, floating IPs %v", got, b.FloatingIPs())
	}
	b.remove(t, s)
	b.nothingLeft(t)
}

// external makes what the external provider makes for a Service of a cluster, with a floating IP.
func (b *balanced) external(t *testing.T, s *corev1.Service, cluster string) (id string) {
	t.Helper()
	name := "kube_service_" + cluster + "_" + s.Namespace + "_" + s.Name
	lb := openstacksim.LoadBalancer{Name: name, Tags: []string{name}, VIPSubnet: "subnet-nodes"}
	for i, p := range s.Spec.Ports {
		lb.Listeners = append(lb.Listeners, openstacksim.Listener{
			Name: fmt.Sprintf("listener_%d_%s", i, name), Protocol: "TCP", Port: int(p.Port), Tags: []string{name},
		})
		pool := openstacksim.Pool{Name: fmt.Sprintf("pool_%d_%s", i, name), Protocol: "TCP", Algorithm: "ROUND_ROBIN"}
		for _, n := range b.nodes {
			pool.Members = append(pool.Members, openstacksim.Member{Name: n.Name, Address: n.Status.Addresses[0].Address, Port: int(p.NodePort)})
		}
		lb.Pools = append(lb.Pools, pool)
	}
	id = b.AddLoadBalancer(lb)
	for _, l := range b.only(t).Listeners {
		b.ChangeResource(l.ID, "allowed_cidrs", []any{"0.0.0.0/0"}) // as it has them
	}
	b.AddFloatingIP(openstacksim.FloatingIP{
		Network: "public", Port: b.only(t).VIPPort,
		Description: "Floating IP for Kubernetes external service " + s.Namespace + "/" + s.Name + " from cluster " + cluster,
	})
	return id
}

// The external provider's load balancers are taken over by their names and tags, without a write.
func TestTheExternalProvidersLoadBalancersAreTakenOver(t *testing.T) {
	b := balance(t, 2)
	s := service("web")
	s.Annotations[annote+"load-balancer-id"] = b.external(t, s, cluster) // which it writes
	b.Calls()
	b.ensure(t, s)
	calls := b.Calls()
	b.noneUnknown(t, calls)
	if got := writes(calls); len(got) > 0 {
		t.Errorf("it writes %v", got)
	}
	b.remove(t, s)
	b.nothingLeft(t)
}

func TestASharedLoadBalancer(t *testing.T) {
	b := balance(t, 1)
	owner := service("web")
	address := b.ensure(t, owner)
	second := service("dns", func(s *corev1.Service) {
		s.UID = "99999999-4f50-6172-8394-a5b6c7d8e9f0"
		s.Annotations[annote+"load-balancer-id"] = b.only(t).ID
		s.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053}}
	})
	if got := b.ensure(t, second); got != address {
		t.Errorf("the addresses are %s and %s", address, got)
	}
	b.ensure(t, owner) // which must not remove the other's port
	b.looks(t, "TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443", "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080", "UDP 53 UDP ROUND_ROBIN 10.0.0.10:30053")

	third := service("mail", func(s *corev1.Service) {
		s.UID = "88888888-4f50-6172-8394-a5b6c7d8e9f0"
		s.Annotations[annote+"load-balancer-id"] = b.only(t).ID
	})
	if err := b.fails(t, third); err == nil || !strings.Contains(err.Error(), "max-shared-lb in the cloud config is 2") {
		t.Errorf("the third: %v", err)
	}
	taken := second.DeepCopy()
	taken.Spec.Ports[0] = owner.Spec.Ports[0]
	if err := b.fails(t, taken); err == nil || !strings.Contains(err.Error(), "port 80 is used by another Service") {
		t.Errorf("a port of another: %v", err)
	}
	inside := second.DeepCopy()
	internal(inside)
	if err := b.fails(t, inside); err == nil || !strings.Contains(err.Error(), "is not its own") {
		t.Errorf("an internal one: %v", err)
	}

	b.removeOnce(t, owner)
	b.looks(t, "UDP 53 UDP ROUND_ROBIN 10.0.0.10:30053")
	if ips := b.FloatingIPs(); len(ips) != 1 || ips[0].Port == "" {
		t.Errorf("floating IPs %v", ips)
	}
	b.remove(t, second) // the last one
	b.nothingLeft(t)
}

// removeOnce deletes a Service's part of a load balancer that stays.
func (b *balanced) removeOnce(t *testing.T, s *corev1.Service) {
	t.Helper()
	if err := again(t, func() error { return b.balancers.EnsureLoadBalancerDeleted(t.Context(), cluster, s) }); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsOfNewLoadBalancers(t *testing.T) {
	b := balance(t, 1, "flavor-id=small", "floating-subnet-tags=lb", `[LoadBalancerClass "dmz"]`,
		"floating-network-id=dmz", "floating-subnet=dmz-*")
	b.AddSubnet(openstacksim.Subnet{Name: "public-2", Network: "public", External: true, Tags: []string{"lb"}})
	b.AddSubnet(openstacksim.Subnet{Name: "other", Network: "dmz", External: true})
	dmz := b.AddSubnet(openstacksim.Subnet{Name: "dmz-1", Network: "dmz", External: true})
	s := service("web", annotated(annote+"class", "dmz"), annotated(annote+"availability-zone", "az1"), annotated(annote+"proxy-protocol", "true"))
	b.ensure(t, s)
	if lb, ip := b.only(t), b.FloatingIPs()[0]; lb.Flavor != "small" || lb.Zone != "az1" || ip.Network != "dmz" || ip.Subnet != dmz ||
		*s.Status.LoadBalancer.Ingress[0].IPMode != corev1.LoadBalancerIPModeProxy {
		t.Errorf("load balancer %+v, floating IP %+v, status %v", lb, ip, s.Status)
	}
	b.noneUnknown(t, b.Calls())
	b.remove(t, s)
	b.nothingLeft(t)

	b.AddFloatingIP(openstacksim.FloatingIP{Address: "203.0.113.200", Network: "public"})
	named := service("web", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.200" })
	if got := b.ensure(t, named); got != "203.0.113.200" {
		t.Errorf("the address is %s", got)
	}
	b.AddFloatingIP(openstacksim.FloatingIP{Address: "203.0.113.201", Network: "public"})
	named.Spec.LoadBalancerIP = "203.0.113.201"
	if got := b.ensure(t, named); got != "203.0.113.201" {
		t.Errorf("the address is %s", got)
	}
	b.remove(t, named)
	if ips := b.FloatingIPs(); len(ips) != 2 {
		t.Errorf("floating IPs of the user's: %v", ips)
	}
}

func TestAProviderThatTakesOneChangeAtATime(t *testing.T) {
	b := balance(t, 2, "provider-requires-serial-api-calls=true", "lb-provider=other")
	s := service("web")
	b.ensure(t, s)
	b.looks(t, "TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443,10.0.0.11:30443", "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080,10.0.0.11:30080")
	b.nodes = b.nodes[:1]
	b.ensure(t, s)
	b.looks(t, "TCP 443 TCP ROUND_ROBIN 10.0.0.10:30443", "TCP 80 TCP ROUND_ROBIN 10.0.0.10:30080")
	for _, call := range writes(b.Calls()) {
		if call == "PUT lbaas/pools/{id}/members" {
			t.Error("members are changed in one request")
		}
	}
	b.remove(t, s)
	b.nothingLeft(t)
}

func TestConfigsOfLoadBalancers(t *testing.T) {
	f := start(t, openstacksim.Options{}, "[LoadBalancer]", "enabled=false", "manage-security-groups=true")
	if _, ok := f.cloud.LoadBalancer(); ok {
		t.Error("there are load balancers with enabled=false")
	}
	if err := opens(f.Config("[LoadBalancer]", "manage-security-groups=true")); err == nil || !strings.Contains(err.Error(), "set it to false") {
		t.Errorf("with manage-security-groups the error is %v", err)
	}
}
