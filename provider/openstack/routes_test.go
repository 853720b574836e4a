package openstack

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	cloudprovider "k8s.io/cloud-provider"
)

// create makes the route of node n-0, whose port is the network's.
func (n *network) create(ctx context.Context, t *testing.T, cidr string) error {
	t.Helper()
	c, _ := n.open(t, nodeAt("n-0", 1, "10.0.0.10"))
	return c.routes.CreateRoute(ctx, "lab", "", &cloudprovider.Route{TargetNode: "n-0", DestinationCIDR: cidr})
}

// TestARouteIntoASubnetOfTheRouterIsRefused: a kubelet that registers its Node chooses its podCIDRs. With an address pair of
// that size, its machine could send as any other of the subnet.
func TestARouteIntoASubnetOfTheRouterIsRefused(t *testing.T) {
	const says = `route of node "n-0" to `
	for name, test := range map[string]struct {
		cidr, says string
		change     func(*network)
	}{
		"the subnet":    {"10.0.0.0/16", says + "10.0.0.0/16 is refused: it overlaps 10.0.0.0/16 of subnet s-1", nil},
		"a part of it":  {"10.0.128.0/24", says + "10.0.128.0/24 is refused: it overlaps 10.0.0.0/16 of subnet s-1", nil},
		"more than it":  {"10.0.0.0/8", says + "10.0.0.0/8 is refused: it overlaps 10.0.0.0/16 of subnet s-1", nil},
		"all addresses": {"0.0.0.0/0", says + "0.0.0.0/0 is refused", nil},
		"one address":   {"10.0.0.77/32", says + "10.0.0.77/32 is refused", nil},
		"another subnet of the same network": {"10.9.1.0/24", "10.9.0.0/16 of subnet s-3", func(n *network) {
			n.subnets = append(n.subnets, object{"id": "s-3", "network_id": "nodes", "cidr": "10.9.0.0/16"})
		}},
		"a subnet that Neutron does not show":      {"10.0.0.0/24", "10.0.0.1/32 of subnet s-1", func(n *network) { n.subnets = []object{} }},
		"a subnet without a readable range":        {"10.244.0.0/24", "subnet s-1 of network nodes", func(n *network) { n.subnets[0]["cidr"] = "here" }},
		"the external network that the node is in": {"10.244.0.0/24", "10.128.0.0/9 of subnet s-2", func(n *network) { n.gateway, n.at = "10.128.0.9", "external" }},
		"pods": {"10.244.0.0/24", "", nil},
		"pods, in a range of the external network": {"10.244.0.0/24", "", func(n *network) { n.gateway = "10.128.0.9" }},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork()
			if test.change != nil {
				test.change(n)
			}
			err := n.create(t.Context(), t, test.cidr)
			switch {
			case test.says == "" && (err != nil || !cmp.Equal(n.pairs, []string{test.cidr})):
				t.Errorf("error %v, pairs %v", err, n.pairs)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("the error is %v", err)
			}
			if test.says != "" && len(n.pairs) > 0 {
				t.Errorf("the port lets pass %v", n.pairs)
			}
		})
	}
}

// TestARouteThatFailedGetsNoAddressPair: the port would let packets pass that no route leads to, and nothing would find the pair.
func TestARouteThatFailedGetsNoAddressPair(t *testing.T) {
	const cidr = "10.244.0.0/24"
	for name, test := range map[string]struct {
		pairs []string
		add   func(end context.CancelFunc) (int, any)
	}{
		"refused":             {[]string{"172.16.0.0/24"}, func(context.CancelFunc) (int, any) { return refusal(http.StatusBadRequest)() }},
		"with its pair there": {[]string{cidr}, func(context.CancelFunc) (int, any) { return refusal(http.StatusBadRequest)() }},
		"the caller's time is over": {nil, func(end context.CancelFunc) (int, any) {
			end()
			return http.StatusOK, object{}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			n := newNetwork(test.pairs...)
			n.add = func() (int, any) { return test.add(end) }
			if err := n.create(ctx, t, cidr); err == nil || !strings.Contains(err.Error(), "changing the route to "+cidr) {
				t.Errorf("the error is %v", err)
			}
			if diff := cmp.Diff(test.pairs, n.pairs); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
		})
	}
}
