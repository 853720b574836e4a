package nodeipam

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
	netutils "k8s.io/utils/net"
)

// Options are the settings that upstream's cloud-controller-manager lacks. --allocate-node-cidrs, --cluster-cidr and
// --cidr-allocator-type it has. Names and meaning are kube-controller-manager's.
type Options struct {
	// ServiceCIDRs are the ranges of Services, at most one of each family, separated by a comma. No node gets a block of
	// them.
	ServiceCIDRs string
	// NodeMaskSize is the size of a node's block in a cluster of one family; 0 is 24 for IPv4 and 64 for IPv6.
	NodeMaskSize int32
	// NodeMaskSizeIPv4 and NodeMaskSizeIPv6 are the same for each family.
	NodeMaskSizeIPv4, NodeMaskSizeIPv6 int32
}

// NewOptions returns the defaults.
func NewOptions() Options { return Options{} }

// AddFlags adds the flags of the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(
		&o.ServiceCIDRs,
		"service-cluster-ip-range",
		o.ServiceCIDRs,
		"The CIDRs of Services, at most one of each family. Nodes get no podCIDR of them. Only used when --allocate-node-cidrs=true.",
	)
	fs.Int32Var(&o.NodeMaskSize, "node-cidr-mask-size", o.NodeMaskSize,
		"Mask size of a node's podCIDR in a cluster with one family. 0 is 24 for IPv4 and 64 for IPv6.")
	fs.Int32Var(
		&o.NodeMaskSizeIPv4,
		"node-cidr-mask-size-ipv4",
		o.NodeMaskSizeIPv4,
		"Mask size of a node's IPv4 podCIDR. 0 is 24.",
	)
	fs.Int32Var(
		&o.NodeMaskSizeIPv6,
		"node-cidr-mask-size-ipv6",
		o.NodeMaskSizeIPv6,
		"Mask size of a node's IPv6 podCIDR. 0 is 64.",
	)
}

// Validate returns what is wrong with the options, as far as that can be said without --cluster-cidr.
func (o *Options) Validate() []error {
	var errs []error
	if _, err := prefixes("--service-cluster-ip-range", o.ServiceCIDRs); err != nil {
		errs = append(errs, err)
	}
	for _, size := range []struct {
		flag  string
		value int32
		most  int32
	}{
		{"--node-cidr-mask-size", o.NodeMaskSize, 128}, {"--node-cidr-mask-size-ipv4", o.NodeMaskSizeIPv4, 32}, {
			"--node-cidr-mask-size-ipv6", o.NodeMaskSizeIPv6, 128,
		},
	} {
		if size.value < 0 || size.value > size.most {
			errs = append(errs, fmt.Errorf("%s is %d, but must be between 0 and %d", size.flag, size.value, size.most))
		}
	}
	if o.NodeMaskSize != 0 && (o.NodeMaskSizeIPv4 != 0 || o.NodeMaskSizeIPv6 != 0) {
		errs = append(
			errs,
			errors.New(
				"--node-cidr-mask-size does not go together with --node-cidr-mask-size-ipv4 and -ipv6: set those of the cluster's families only",
			),
		)
	}
	return errs
}

// prefixes reads a list of at most one CIDR of each family.
func prefixes(flag, value string) ([]netip.Prefix, error) {
	if value = strings.TrimSpace(value); value == "" {
		return nil, nil
	}
	var all []netip.Prefix
	for _, part := range strings.Split(value, ",") {
		prefix, err := parseCIDR(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("parsing %s %q: %w", flag, value, err)
		}
		all = append(all, prefix)
	}
	switch {
	case len(all) > 2:
		return nil, fmt.Errorf("%s %q has %d ranges, but two are the most: one of each family", flag, value, len(all))
	case len(all) == 2 && all[0].Addr().Is4() == all[1].Addr().Is4():
		return nil, fmt.Errorf("%s %q has two ranges of one family, but two must be one of each", flag, value)
	}
	return all, nil
}

// parseCIDR reads a CIDR as leniently as Kubernetes does: leading zeros are let pass, and bits behind the mask do not
// count.
func parseCIDR(cidr string) (netip.Prefix, error) {
	_, network, err := netutils.ParseCIDRSloppy(cidr)
	if err != nil {
		return netip.Prefix{}, err
	}
	size, width := network.Mask.Size()
	addr, ok := netip.AddrFromSlice(network.IP)
	if !ok || addr.BitLen() != width || addr.Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is neither IPv4 nor IPv6", cidr)
	}
	return netip.PrefixFrom(addr, size), nil
}

// pools returns the ranges that blocks are given out of, in the order of --cluster-cidr, without those of Services.
func (o *Options) pools(clusterCIDR string) ([]*pool, error) {
	cluster, err := prefixes("--cluster-cidr", clusterCIDR)
	if err != nil {
		return nil, err
	}
	if len(cluster) == 0 {
		return nil, errors.New(
			"--cluster-cidr is empty: with --allocate-node-cidrs it has to say what nodes get their podCIDRs of",
		)
	}
	services, err := prefixes("--service-cluster-ip-range", o.ServiceCIDRs)
	if err != nil {
		return nil, err
	}
	var pools []*pool
	for _, prefix := range cluster {
		flag, size, err := o.maskSize(prefix, len(cluster) == 2)
		if err != nil {
			return nil, err
		}
		p, err := newPool(prefix, size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		for _, service := range services {
			if s, ok := p.span(service); ok {
				p.occupy(s)
			}
		}
		pools = append(pools, p)
	}
	return pools, nil
}

// maskSize returns the size of blocks in a range, and the flag that says so.
func (o *Options) maskSize(prefix netip.Prefix, dual bool) (flag string, size int, err error) {
	own, other := o.NodeMaskSizeIPv4, o.NodeMaskSizeIPv6
	flag, otherFlag, size := "--node-cidr-mask-size-ipv4", "--node-cidr-mask-size-ipv6", 24
	if prefix.Addr().Is6() {
		own, other = other, own
		flag, otherFlag, size = otherFlag, flag, 64
	}
	switch {
	case dual && o.NodeMaskSize != 0:
		return "", 0, errors.New(
			"--node-cidr-mask-size does not go with two ranges in --cluster-cidr: set --node-cidr-mask-size-ipv4 and -ipv6",
		)
	case !dual && other != 0:
		return "", 0, fmt.Errorf("%s is set, but --cluster-cidr has no range of that family", otherFlag)
	case o.NodeMaskSize != 0:
		return "--node-cidr-mask-size", int(o.NodeMaskSize), nil
	case own != 0:
		return flag, int(own), nil
	}
	return flag, size, nil
}
