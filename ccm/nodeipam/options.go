package nodeipam

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
	"github.com/transplant-dev/transplant/internal/component"
)

// The values of --cidr-allocator-type.
const (
	// RangeAllocator gives nodes blocks of --cluster-cidr. An empty flag means the same.
	RangeAllocator = component.RangeAllocator
	// CloudAllocator gives nodes what the cloud has given to their instances: see package fromcloud.
	CloudAllocator = component.CloudAllocator
)

// CheckAllocator returns why node IPAM cannot run with a value of --cidr-allocator-type and a provider.
func CheckAllocator(kind string, provider cloudprovider.Interface) error {
	switch {
	case kind == "" || kind == RangeAllocator:
		return nil
	case kind != CloudAllocator:
		return fmt.Errorf(
			"--cidr-allocator-type is %q, which this manager does not have: set %s, for podCIDRs of --cluster-cidr, or %s, "+
				"for those that the cloud gives to instances",
			kind, RangeAllocator, CloudAllocator,
		)
	case provider == nil:
		return errors.New("--cidr-allocator-type is CloudAllocator, but there is no cloud provider")
	case !cloud.CanListPodCIDRs(provider):
		return fmt.Errorf(
			"--cidr-allocator-type is %q, but the provider %s does not say which podCIDRs an instance has: set %s and --cluster-cidr",
			kind, provider.ProviderName(), RangeAllocator,
		)
	}
	return nil
}

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
	if _, err := podcidr.ParseList("--service-cluster-ip-range", o.ServiceCIDRs); err != nil {
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

// pools returns the ranges that blocks are given out of, in the order of --cluster-cidr, without those of Services.
func (o *Options) pools(clusterCIDR string) ([]*pool, error) {
	cluster, err := podcidr.ParseList("--cluster-cidr", clusterCIDR)
	if err != nil {
		return nil, err
	}
	if len(cluster) == 0 {
		return nil, errors.New(
			"--cluster-cidr is empty: with --allocate-node-cidrs it has to say what nodes get their podCIDRs of",
		)
	}
	services, err := podcidr.ParseList("--service-cluster-ip-range", o.ServiceCIDRs)
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
