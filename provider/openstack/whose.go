package openstack

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
)

// owners say to which node a route of the router leads. A kubelet may write any address into the status of its Node.
// So the port that has the next hop decides, by its server. Two Nodes that claim one address cannot take each other's
// routes.
type owners struct {
	nodes    []*corev1.Node
	ports    []port // in the router's networks
	byServer map[string][]*corev1.Node
	claims   map[string][]*corev1.Node // by the address that a Node says it has
	ask      func(*corev1.Node) asked
}

// computeOwner begins the owner of ports that servers have.
const computeOwner = "compute:"

// findOwners reads the ports of the project, for the routes of a router. It reads nothing where there are none.
func (r *routes) findOwners(
	ctx context.Context,
	to *neutron,
	entries []routers.Route,
	nodes []*corev1.Node,
) (*owners, error) {
	o := &owners{
		nodes: nodes, byServer: map[string][]*corev1.Node{}, claims: map[string][]*corev1.Node{}, ask: r.instances.queryFor,
	}
	for _, node := range nodes {
		if id := o.ask(node).id; id != "" {
			o.byServer[id] = append(o.byServer[id], node)
		}
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				o.claims[address.Address] = append(o.claims[address.Address], node)
			}
		}
	}
	if len(entries) == 0 {
		return o, nil
	}
	project, err := r.client.Project(ctx)
	if err != nil {
		return nil, err
	}
	all, err := listPorts(ctx, to.ServiceClient, ports.ListOpts{ProjectID: project})
	if err != nil {
		return nil, fmt.Errorf("listing the ports of nodes: %w", err)
	}
	o.ports = slices.DeleteFunc(all, func(p port) bool { return !slices.Contains(to.networks, p.NetworkID) })
	return o, nil
}

// nodeFor is the node that a route leads to, and its port; nil for none, and for a port that is not known.
func (o *owners) nodeFor(entry routers.Route) (*corev1.Node, *port) {
	var p *port
	for i := range o.ports {
		if !o.ports[i].has(entry.NextHop) {
			continue
		}
		if nodes := o.byServer[o.ports[i].DeviceID]; len(nodes) > 0 {
			return choose(nodes, entry), &o.ports[i]
		}
		p = &o.ports[i]
	}
	claims := o.claims[entry.NextHop]
	if p != nil && strings.HasPrefix(p.DeviceOwner, computeOwner) {
		// The server is of no providerID: it may be that of a Node without one.
		claims = slices.DeleteFunc(slices.Clone(claims), func(node *corev1.Node) bool { return o.ask(node).name == "" })
	}
	return choose(claims, entry), p
}

// choose prefers the node whose pods a route leads to. A kubelet chooses the podCIDRs
// of its Node when it registers it, and cannot change them later. The route controller asks for none that overlaps one
// of an older Node.
func choose(nodes []*corev1.Node, entry routers.Route) *corev1.Node {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, node := range nodes {
		if slices.ContainsFunc(node.Spec.PodCIDRs, func(cidr string) bool {
			return isSameCIDR(cidr,
				entry.DestinationCIDR)
		}) {
			return node
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	return nodes[0]
}

// isNeededByOnly reports whether a route leads to the pods of a node, and to those of no other one. The route
// controller makes no route for the newer of two nodes whose podCIDRs overlap, and deletes the one that it has.
func (o *owners) isNeededByOnly(node *corev1.Node, entry routers.Route) bool {
	destination, err := netip.ParsePrefix(entry.DestinationCIDR)
	if node == nil || err != nil {
		return false
	}
	needed := false
	for _, other := range o.nodes {
		for _, cidr := range other.Spec.PodCIDRs {
			pods, err := netip.ParsePrefix(cidr)
			if err != nil || !pods.Overlaps(destination) {
				continue
			}
			if other.Name != node.Name {
				return false
			}
			needed = needed || pods.Masked() == destination.Masked()
		}
	}
	return needed
}

// isSameCIDR reports whether two CIDRs are the same, however IPv6 is spelled.
func isSameCIDR(a, b string) bool {
	x, err := netip.ParsePrefix(a)
	y, other := netip.ParsePrefix(b)
	return err == nil && other == nil && x.Masked() == y.Masked()
}

// serverOf is the ID of a node's server, by its providerID or by its name.
func (i *instances) serverOf(ctx context.Context, node *corev1.Node) (string, error) {
	question := i.queryFor(node)
	if question.err != nil || question.id != "" {
		return question.id, question.err
	}
	nova, err := i.client.Compute(ctx)
	if err != nil {
		return "", err
	}
	found := newAnswers()
	if err := found.findByName(ctx, nova, question.name); err != nil {
		return "", err
	}
	server, err := found.to(question)
	if err != nil {
		return "", err
	}
	if server == nil {
		return "", fmt.Errorf("no server has the name of node %q, which has no providerID", node.Name)
	}
	return server.ID, nil
}
