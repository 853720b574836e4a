package openstack

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// ownRange is a range of addresses of machines in a network of the router. A route into it would take their packets,
// and its address pair would let a node send as any of them.
type ownRange struct {
	netip.Prefix

	subnet, network string
	external        bool // the router reaches this network by its gateway
}

// gatewayOwner owns the port of a router in the external network.
const gatewayOwner = "network:router_gateway"

// readRanges reads the subnets of a router's networks. Neutron does not show the subnets of another project. Of those
// the router's own addresses are all that is known.
func readRanges(ctx context.Context, neutron *gophercloud.ServiceClient, interfaces []port) ([]ownRange, error) {
	var ranges []ownRange
	read := map[string]bool{}
	for _, p := range interfaces {
		one := ownRange{network: p.NetworkID, external: p.DeviceOwner == gatewayOwner}
		if !read[p.NetworkID] {
			read[p.NetworkID] = true
			listed, err := client.List(ctx, "listing the subnets of network "+p.NetworkID,
				subnets.List(neutron, subnets.ListOpts{NetworkID: p.NetworkID}), subnets.ExtractSubnets)
			if err != nil {
				return nil, err
			}
			for _, subnet := range listed {
				if one.Prefix, err = netip.ParsePrefix(subnet.CIDR); err != nil {
					return nil, fmt.Errorf("reading the range of subnet %s of network %s: %w", subnet.ID, p.NetworkID, err)
				}
				one.subnet = subnet.ID
				ranges = append(ranges, one)
			}
		}
		ranges = append(ranges, one.ofAddresses(p.FixedIPs)...)
	}
	return ranges, nil
}

func (o ownRange) ofAddresses(all []ports.IP) (ranges []ownRange) {
	for _, fixed := range all {
		if address, err := netip.ParseAddr(fixed.IPAddress); err == nil {
			o.Prefix, o.subnet = netip.PrefixFrom(address, address.BitLen()), fixed.SubnetID
			ranges = append(ranges, o)
		}
	}
	return ranges
}

// refuseOverlap returns an error for a route into a range of the router's networks. The external network counts only
// for a node in it: pods may have a part of a wide range behind the router.
func (r *routes) refuseOverlap(to *neutron, node string, destination netip.Prefix, p *port) error {
	for _, own := range to.ranges {
		if !own.Overlaps(destination) || own.external && own.network != p.NetworkID {
			continue
		}
		r.forget() // the subnet may be gone since it was read
		return fmt.Errorf("the route of node %q to %s is refused: "+
			"it overlaps %s of subnet %s, which is in a network of router %s: "+
			"delete the Node if its kubelet chose that podCIDR, or else give the cluster a --cluster-cidr apart from its subnets",
			node, destination, own.Prefix, own.subnet, r.router)
	}
	return nil
}
