package route

import (
	"cmp"
	"maps"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// view is what is known of the routes in the cloud.
type view map[destination][]seen

// seen is a route that was listed, or one that was made since.
type seen struct {
	*cloudprovider.Route
	// made routes have no name yet, and nobody knows whether the cloud keeps addresses for them: only a list can say what to do about one.
	made bool
}

// change is what has to be done about one destination: first the deletes, then the creates.
type change struct {
	destination destination
	deletes     []*cloudprovider.Route
	creates     []creation
}

// creation is a route that a node needs. The CIDR is as the node spells it.
type creation struct {
	node *corev1.Node
	cidr string
}

// needs is what a node's condition depends on.
type needs struct {
	node    *corev1.Node
	missing []destination
}

// judgement is what follows from nodes and view.
type judgement struct {
	changes []change
	nodes   []needs       // those that have podCIDRs, or that a route leads to
	relist  []destination // can only be judged with a newer list
}

// judge compares the routes that nodes need with those that are known.
func judge(nodes []*corev1.Node, known view, clusterCIDRs []*net.IPNet) judgement {
	var result judgement
	changes := map[destination]*change{}
	at := func(d destination) *change {
		if changes[d] == nil {
			changes[d] = &change{destination: d}
		}
		return changes[d]
	}
	targeted := map[types.NodeName]bool{}
	for _, routes := range known {
		for _, route := range routes {
			targeted[route.TargetNode] = true
		}
	}
	wanted := map[destination]map[types.NodeName]*corev1.Node{}
	for _, node := range nodes {
		name, need := types.NodeName(node.Name), needs{node: node}
		for _, cidr := range node.Spec.PodCIDRs {
			d := destinationOf(cidr)
			if wanted[d][name] != nil {
				continue
			}
			if wanted[d] == nil {
				wanted[d] = map[types.NodeName]*corev1.Node{}
			}
			wanted[d][name] = node
			if !slices.ContainsFunc(known[d], func(s seen) bool { return leadsTo(s, node, clusterCIDRs) }) {
				need.missing = append(need.missing, d)
				at(d).creates = append(at(d).creates, creation{node, cidr})
			}
		}
		if len(node.Spec.PodCIDRs) > 0 || targeted[name] {
			result.nodes = append(result.nodes, need)
		}
	}
	for d, routes := range known {
		for _, route := range routes {
			node := wanted[d][route.TargetNode]
			switch {
			case route.made:
				if node == nil || !sameAddresses(node.Status.Addresses, route.TargetNodeAddresses) {
					result.relist = append(result.relist, d)
				}
			case node != nil && leadsTo(route, node, clusterCIDRs), !responsible(clusterCIDRs, route.Route):
			default:
				at(d).deletes = append(at(d).deletes, route.Route)
			}
		}
	}
	for _, d := range slices.Sorted(maps.Keys(changes)) {
		changes[d].sort()
		result.changes = append(result.changes, *changes[d])
	}
	return result
}

// leadsTo tells whether a route to a node's podCIDR serves the node. A black hole that is not ours to delete is left as it is.
func leadsTo(route seen, node *corev1.Node, clusterCIDRs []*net.IPNet) bool {
	if route.TargetNode != types.NodeName(node.Name) || route.Blackhole && responsible(clusterCIDRs, route.Route) {
		return false
	}
	return route.made || !route.EnableNodeAddresses || sameAddresses(node.Status.Addresses, route.TargetNodeAddresses)
}

// sameAddresses ignores the order, as upstream does: clouds sort addresses.
func sameAddresses(a, b []corev1.NodeAddress) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(address corev1.NodeAddress) bool { return !slices.Contains(b, address) })
}

// sort makes the order of calls the same for the same nodes and routes.
func (c *change) sort() {
	slices.SortFunc(c.deletes, func(a, b *cloudprovider.Route) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.TargetNode, b.TargetNode))
	})
	slices.SortFunc(c.creates, func(a, b creation) int { return cmp.Compare(a.node.Name, b.node.Name) })
}
