package openstackccm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/openstacksim"
)

// port is what a test prepares, and what the annotation port-id names.
const port = "0a0b0c0d-0000-4000-8000-00000000000a"

// TestAPortOfOthersIsNotTaken: the author of a Service names any port of the project. The load balancer would answer for
// its address.
func TestAPortOfOthersIsNotTaken(t *testing.T) {
	free := openstacksim.Port{ID: port, Network: "nodes", Addresses: []string{"10.0.9.9"}}
	for name, test := range map[string]struct {
		prepare func(*balanced, openstacksim.Port)
		id      string
		want    string
	}{
		"of a server": {func(b *balanced, p openstacksim.Port) {
			p.DeviceID = b.AddServer(openstacksim.Server{Name: "database"})
			b.AddPort(p)
		}, port, "is in use"},
		"of a DHCP agent": {func(b *balanced, p openstacksim.Port) {
			p.Owner = "network:dhcp"
			b.AddPort(p)
		}, port, "is in use"},
		"of another project": {func(b *balanced, p openstacksim.Port) {
			p.Project = "another"
			b.AddPort(p)
		}, port, "the project has no port"},
		"of nobody": {func(*balanced, openstacksim.Port) {}, port, "the project has no port"},
		"without an address": {func(b *balanced, p openstacksim.Port) {
			p.Addresses = nil
			b.AddPort(p)
		}, port, "has no address"},
		"of a virtual IP": {func(b *balanced, p openstacksim.Port) {
			b.AddPort(p)
			b.AddPort(openstacksim.Port{Network: "nodes", Addresses: []string{"10.0.9.1"}, Pairs: []string{"10.0.9.9"}})
		}, port, "may answer for"},
		"of a virtual range": {func(b *balanced, p openstacksim.Port) {
			b.AddPort(p)
			b.AddPort(openstacksim.Port{Network: "nodes", Addresses: []string{"10.0.9.1"}, Pairs: []string{"10.0.9.8/29"}})
		}, port, "may answer for"},
		"of another namespace's floating IP": {func(b *balanced, p openstacksim.Port) {
			b.AddPort(p)
			b.AddFloatingIP(openstacksim.FloatingIP{
				Address: "203.0.113.77", Network: "public", Port: p.ID,
				Description: "Floating IP for Kubernetes external service shop/web from cluster lab",
			})
		}, port, "another namespace or cluster"},
		"no ID of a port": {func(b *balanced, p openstacksim.Port) { b.AddPort(p) }, "../security-groups", "is no ID of a port"},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			test.prepare(b, free)
			before, ips := b.Ports(), b.FloatingIPs()
			s := service("web", annotated(annote+"port-id", test.id))
			if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), annote+"port-id") {
				t.Errorf("the error is %v", err)
			}
			b.noneUnknown(t, b.Calls())
			if n := len(b.LoadBalancers()); n > 0 {
				t.Errorf("%d load balancers were made", n)
			}
			b.remove(t, s)
			if diff := cmp.Diff(before, b.Ports()); diff != "" {
				t.Errorf("the ports have changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(ips, b.FloatingIPs()); diff != "" {
				t.Errorf("the floating IPs have changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestAPreparedPortIsTaken, with the floating IP that was prepared with it. A port that may send for everybody, as one
// of a router of pods, is nobody's virtual IP.
func TestAPreparedPortIsTaken(t *testing.T) {
	b := balance(t, 1)
	b.AddPort(openstacksim.Port{ID: port, Network: "nodes", Addresses: []string{"10.0.9.9"}})
	b.AddPort(openstacksim.Port{Network: "nodes", Addresses: []string{"10.0.9.1"}, Pairs: []string{"0.0.0.0/0", "10.244.0.0/16"}})
	b.AddPort(openstacksim.Port{Network: "others", Addresses: []string{"10.0.9.1"}, Pairs: []string{"10.0.9.9"}})
	b.AddFloatingIP(openstacksim.FloatingIP{Address: "203.0.113.77", Network: "public", Port: port, Description: "www.example.com"})
	if got := b.ensure(t, service("web", annotated(annote+"port-id", port))); got != "203.0.113.77" {
		t.Errorf("the address is %s", got)
	}
	if lb := b.only(t); lb.VIP != "10.0.9.9" {
		t.Errorf("the load balancer is at %s", lb.VIP)
	}
}

// TestAnAddressOfOthersIsNotTaken: the virtual IP of a control plane may have no port, and Neutron gives it away. The
// load balancer would answer for the API server.
func TestAnAddressOfOthersIsNotTaken(t *testing.T) {
	for name, test := range map[string]struct {
		pairs []string
		asked string
		want  string // empty where the address is free
	}{
		"a virtual IP":                  {[]string{"10.0.9.9"}, "10.0.9.9", "may answer for"},
		"of a virtual range":            {[]string{"10.0.9.8/29"}, "10.0.9.9", "may answer for"},
		"the gateway of the nodes":      {nil, "10.0.9.254", "is the gateway of a subnet"},
		"no address":                    {nil, "x?network_id=", "is no IP address"},
		"beside a virtual IP":           {[]string{"10.0.9.9"}, "10.0.9.10", ""},
		"in a network with a router":    {[]string{"0.0.0.0/0"}, "10.0.9.10", ""},
		"one that no port knows at all": {nil, "10.0.9.10", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := balance(t, 1)
			b.AddPort(openstacksim.Port{Network: "nodes", Addresses: []string{"10.0.9.1"}, Pairs: test.pairs})
			b.AddSubnet(openstacksim.Subnet{ID: "11111111-0000-4000-8000-000000000005", Network: "nodes", CIDR: "10.0.0.0/16", Gateway: "10.0.9.254"})
			before := b.Ports()
			s := service("web", annotated(private, "true"), func(s *corev1.Service) { s.Spec.LoadBalancerIP = test.asked })
			if test.want == "" {
				if got := b.ensure(t, s); got != test.asked {
					t.Errorf("the address is %s", got)
				}
			} else if err := b.fails(t, s); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "spec.loadBalancerIP") {
				t.Errorf("the error is %v", err)
			}
			b.noneUnknown(t, b.Calls())
			b.remove(t, s)
			if diff := cmp.Diff(before, b.Ports()); diff != "" {
				t.Errorf("the ports have changed (-before +after):\n%s", diff)
			}
		})
	}
}
