package route

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	netutils "k8s.io/utils/net"
)

// ClusterCIDRs reads the value of --cluster-cidr: one CIDR, or one of each family.
func ClusterCIDRs(value string) ([]*net.IPNet, error) {
	if strings.TrimSpace(value) == "" {
		return nil, fmt.Errorf(
			"--cluster-cidr is empty: without it no route in the cloud can be told to be this cluster's. " +
				"Set it, or --configure-cloud-routes=false",
		)
	}
	cidrs, err := netutils.ParseCIDRs(strings.Split(strings.TrimSpace(value), ","))
	if err != nil {
		return nil, fmt.Errorf("parsing --cluster-cidr %q: %w", value, err)
	}
	switch {
	case len(cidrs) > 2:
		return nil, fmt.Errorf("--cluster-cidr %q has %d ranges, but two are the most: one of each family", value, len(cidrs))
	case len(cidrs) == 2 && netutils.IsIPv6CIDR(cidrs[0]) == netutils.IsIPv6CIDR(cidrs[1]):
		return nil, fmt.Errorf("--cluster-cidr %q has two ranges of one family, but two must be one of each", value)
	}
	return cidrs, nil
}

// ownsRoute reports whether a route is the cluster's to delete: whether it begins or ends in the cluster's range.
// Others may be in the same table.
func ownsRoute(clusterCIDRs []*net.IPNet, route *cloudprovider.Route) bool {
	_, cidr, err := netutils.ParseCIDRSloppy(route.DestinationCIDR)
	if err != nil {
		return false
	}
	last := make(net.IP, len(cidr.IP))
	for i := range last {
		last[i] = cidr.IP[i] | ^cidr.Mask[i]
	}
	for _, cluster := range clusterCIDRs {
		if cluster.Contains(cidr.IP) || cluster.Contains(last) {
			return true
		}
	}
	return false
}

// isOurs reports whether a route to a destination would be the cluster's to delete.
func isOurs(d destination, clusterCIDRs []*net.IPNet) bool {
	return ownsRoute(clusterCIDRs, &cloudprovider.Route{DestinationCIDR: string(d)})
}

// destination is where a route leads, in one spelling. Clouds and nodes write IPv6 differently, and a route in another
// spelling would be deleted and made again in a loop.
type destination string

func destinationOf(cidr string) destination {
	if _, parsed, err := netutils.ParseCIDRSloppy(cidr); err == nil {
		return destination(parsed.String())
	}
	return destination(cidr)
}

// refusals say why a node gets no route for one of its podCIDRs. A kubelet that registers its Node chooses them, and a
// route is more specific than the one of the node whose range it takes.
type refusals map[string]map[destination]string // by the node's name

func (r refusals) add(node *corev1.Node, d destination, why string) {
	if r[node.Name] == nil {
		r[node.Name] = map[destination]string{}
	}
	r[node.Name][d] = why
}

// claim is a podCIDR of a Node.
type claim struct {
	prefix netip.Prefix
	node   *corev1.Node
}

// refuse finds the podCIDRs that no route is made for. They reach beyond the cluster's range, or overlap one of an
// older Node. Without a range none is refused. One that lies elsewhere as a whole is another range of pods: a cluster
// may have more of them than --cluster-cidr says.
func refuse(nodes []*corev1.Node, clusterCIDRs []*net.IPNet) refusals {
	out := refusals{}
	if len(clusterCIDRs) == 0 {
		return out
	}
	var claims []claim
	for _, node := range nodes {
		for _, cidr := range node.Spec.PodCIDRs {
			d := destinationOf(cidr)
			prefix, err := netip.ParsePrefix(string(d))
			if err != nil {
				continue
			}
			if reachesBeyond(prefix, clusterCIDRs) {
				out.add(node, d, "it reaches beyond --cluster-cidr")
				continue
			}
			claims = append(claims, claim{prefix, node})
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.prefix.Bits(), b.prefix.Bits()))
	})
	var around []claim // those that contain the one that is looked at
	for _, c := range claims {
		around = slices.DeleteFunc(around, func(a claim) bool { return !a.prefix.Overlaps(c.prefix) })
		for _, a := range around {
			switch {
			case a.node.Name == c.node.Name:
			case isWhole(a.prefix, clusterCIDRs) && a.prefix != c.prefix:
				out.add(a.node, destination(a.prefix.String()), fmt.Sprintf(
					"it is a whole range of --cluster-cidr, of which Node %s has a part: delete the Node that has the whole", c.node.Name))
			case isOlder(a.node, c.node):
				out.overlaps(c, a)
			default:
				out.overlaps(a, c)
			}
		}
		around = append(around, c)
	}
	return out
}

func (r refusals) overlaps(younger, older claim) {
	r.add(younger.node, destination(younger.prefix.String()), fmt.Sprintf(
		"it overlaps podCIDR %s of the older Node %s: delete the Node that is not to have it",
		older.prefix, older.node.Name,
	))
}

// isOlder reports whether a Node was created before another; of one second, the name decides.
func isOlder(a, b *corev1.Node) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// isWhole reports whether a podCIDR is a whole range of the cluster. A Node that has it, however old it is, would keep
// all later ones from having routes.
func isWhole(prefix netip.Prefix, clusterCIDRs []*net.IPNet) bool {
	return slices.ContainsFunc(clusterCIDRs, func(cluster *net.IPNet) bool { return cluster.String() == prefix.String() })
}

// reachesBeyond reports whether a podCIDR is larger than a range of the cluster that it contains.
func reachesBeyond(prefix netip.Prefix, clusterCIDRs []*net.IPNet) bool {
	return slices.ContainsFunc(clusterCIDRs, func(cluster *net.IPNet) bool {
		first, valid := netip.AddrFromSlice(cluster.IP)
		bits, _ := cluster.Mask.Size()
		return valid && prefix.Bits() < bits && prefix.Contains(first.Unmap())
	})
}
