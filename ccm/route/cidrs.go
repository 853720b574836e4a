package route

import (
	"fmt"
	"net"
	"strings"

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

// responsible reports whether a route is the cluster's to delete: whether it begins or ends in the cluster's range.
// Others may be in the same table.
func responsible(clusterCIDRs []*net.IPNet, route *cloudprovider.Route) bool {
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

// destination is where a route leads, in one spelling. Clouds and nodes write IPv6 differently, and a route in another
// spelling would be deleted and made again in a loop.
type destination string

func destinationOf(cidr string) destination {
	if _, parsed, err := netutils.ParseCIDRSloppy(cidr); err == nil {
		return destination(parsed.String())
	}
	return destination(cidr)
}
