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
	// made routes have no name yet, and the cloud may not keep addresses for them: only a list can say what to do about
	// one.
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
	// refused are those of the missing that no route is made for, with the reason.
	refused map[destination]string
}

// judgement is what follows from nodes and view.
type judgement struct {
	changes []change
	nodes   []needs       // those that have podCIDRs, or that a route leads to
	relist  []destination // can only be judged with a newer list
}

// planChanges compares the routes that nodes need with those that are known.
func planChanges(nodes []*corev1.Node, known view, clusterCIDRs []*net.IPNet) judgement {
	j := &planner{
		known:        known,
		clusterCIDRs: clusterCIDRs,
		refused:      refuse(nodes, clusterCIDRs),
		changes:      map[destination]*change{},
		wanted:       map[destination]map[types.NodeName]*corev1.Node{},
	}
	targeted := map[types.NodeName]bool{}
	for _, routes := range known {
		for _, route := range routes {
			targeted[route.TargetNode] = true
		}
	}
	for _, node := range nodes {
		if need := j.need(node); len(node.Spec.PodCIDRs) > 0 || targeted[types.NodeName(node.Name)] {
			j.result.nodes = append(j.result.nodes, need)
		}
	}
	for d, routes := range known {
		for _, route := range routes {
			j.route(d, route)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(j.changes)) {
		j.changes[d].sort()
		j.result.changes = append(j.result.changes, *j.changes[d])
	}
	return j.result
}

// planner is a plan of routes in the making.
type planner struct {
	known        view
	clusterCIDRs []*net.IPNet
	refused      refusals
	changes      map[destination]*change
	wanted       map[destination]map[types.NodeName]*corev1.Node
	result       judgement
}

// changeFor is the change for a destination.
func (j *planner) changeFor(d destination) *change {
	if j.changes[d] == nil {
		j.changes[d] = &change{destination: d}
	}
	return j.changes[d]
}

// need finds the routes that a node lacks.
func (j *planner) need(node *corev1.Node) needs {
	name, need := types.NodeName(node.Name), needs{node: node}
	for _, cidr := range node.Spec.PodCIDRs {
		d := destinationOf(cidr)
		if j.wanted[d][name] != nil {
			continue // the same podCIDR twice
		}
		has := slices.ContainsFunc(j.known[d], func(s seen) bool { return leadsTo(s, node, j.clusterCIDRs) })
		if why, refused := j.refused[node.Name][d]; refused && (!has || isOurs(d, j.clusterCIDRs)) {
			if need.refused == nil {
				need.refused = map[destination]string{}
			}
			need.refused[d] = why
			need.missing = append(need.missing, d)
			continue // a route that it has is deleted
		}
		if j.wanted[d] == nil {
			j.wanted[d] = map[types.NodeName]*corev1.Node{}
		}
		j.wanted[d][name] = node
		if !has {
			need.missing = append(need.missing, d)
			j.changeFor(d).creates = append(j.changeFor(d).creates, creation{node, cidr})
		}
	}
	return need
}

// route finds out whether a route is too many.
func (j *planner) route(d destination, route seen) {
	node := j.wanted[d][route.TargetNode]
	switch {
	case route.made:
		if node == nil || !hasSameAddresses(node.Status.Addresses, route.TargetNodeAddresses) {
			j.result.relist = append(j.result.relist, d)
		}
	case node != nil && leadsTo(route, node, j.clusterCIDRs), !ownsRoute(j.clusterCIDRs, route.Route):
	default:
		j.changeFor(d).deletes = append(j.changeFor(d).deletes, route.Route)
	}
}

// leadsTo reports whether a route to a node's podCIDR serves the node. A black hole that is not ours to delete is left
// as it is.
func leadsTo(route seen, node *corev1.Node, clusterCIDRs []*net.IPNet) bool {
	if route.TargetNode != types.NodeName(node.Name) || route.Blackhole && ownsRoute(clusterCIDRs, route.Route) {
		return false
	}
	return route.made || !route.EnableNodeAddresses || hasSameAddresses(node.Status.Addresses, route.TargetNodeAddresses)
}

// hasSameAddresses reports whether two lists have the same addresses in any order, as upstream does: clouds sort them.
func hasSameAddresses(a, b []corev1.NodeAddress) bool {
	return len(a) == len(b) &&
		!slices.ContainsFunc(a, func(address corev1.NodeAddress) bool { return !slices.Contains(b, address) })
}

// sort makes the order of calls the same for the same nodes and routes.
func (c *change) sort() {
	slices.SortFunc(c.deletes, func(a, b *cloudprovider.Route) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.TargetNode, b.TargetNode))
	})
	slices.SortFunc(c.creates, func(a, b creation) int { return cmp.Compare(a.node.Name, b.node.Name) })
}
