package aws

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	netutils "k8s.io/utils/net"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// description is a node whose metadata are wanted, with its instance and its place in the list of states.
type description struct {
	index      int
	node       *corev1.Node
	instance   *ec2types.Instance
	providerID string // empty where it is made from the instance
}

func (d description) id() string { return sdk.ToString(d.instance.InstanceId) }

// describe fills in the metadata of states. Zones and places in the network are asked for once for all nodes that have
// no labels of them yet.
func (c *Cloud) describe(ctx context.Context, described []description, states []cloud.InstanceState) {
	var unplaced []description
	for _, d := range described {
		metadata, err := c.metadata(ctx, d)
		if err != nil {
			states[d.index] = cloud.InstanceState{
				Err: fmt.Errorf("describing instance %q of node %q: %w", d.id(), d.node.Name, err),
			}
			continue
		}
		states[d.index].Metadata = metadata
		if _, labelled := d.node.Labels[awsv1.LabelNetworkNodePrefix+"1"]; !labelled {
			unplaced = append(unplaced, d)
		}
	}
	places := c.network.placesOf(ctx, c.region, unplaced)
	for _, d := range unplaced {
		place := places[d.id()]
		if place.err != nil {
			states[d.index] = cloud.InstanceState{
				Err: fmt.Errorf("describing instance %q of node %q: %w", d.id(), d.node.Name, place.err),
			}
			continue
		}
		for layer, networkNode := range place.layers {
			states[d.index].Metadata.AdditionalLabels[awsv1.LabelNetworkNodePrefix+strconv.Itoa(layer+1)] = networkNode
		}
	}
}

// metadata is what EC2's answer says of an instance, without its place in the network.
func (c *Cloud) metadata(ctx context.Context, d description) (*cloudprovider.InstanceMetadata, error) {
	if d.instance.Placement == nil || sdk.ToString(d.instance.Placement.AvailabilityZone) == "" {
		return nil, fmt.Errorf("EC2 names no availability zone")
	}
	zone := sdk.ToString(d.instance.Placement.AvailabilityZone)
	if d.providerID == "" {
		d.providerID = providerPrefix + "/" + zone + "/" + d.id()
	}
	addresses, err := addresses(d.instance, c.families)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	if _, labelled := d.node.Labels[awsv1.LabelZoneID]; !labelled {
		if labels[awsv1.LabelZoneID], err = c.zones.id(ctx, zone); err != nil {
			return nil, err
		}
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:       d.providerID,
		InstanceType:     string(d.instance.InstanceType),
		NodeAddresses:    addresses,
		Zone:             zone,
		Region:           c.region,
		AdditionalLabels: labels,
	}, nil
}

// addresses are those of a node on an instance, for each IP family in turn. The order is the provider's: the first
// address of a type is the one that most programs take. Interfaces are put into the order of their devices for IPv4;
// IPv6 alone leaves them as EC2 lists them.
func addresses(instance *ec2types.Instance, families []string) ([]corev1.NodeAddress, error) {
	interfaces := slices.Clone(instance.NetworkInterfaces)
	var all []corev1.NodeAddress
	for _, family := range families {
		var some []corev1.NodeAddress
		var err error
		switch family {
		case "ipv4":
			slices.SortStableFunc(interfaces, func(a, b ec2types.InstanceNetworkInterface) int { return device(a) - device(b) })
			some, err = addressesV4(instance, interfaces)
		case "ipv6":
			some, err = addressesV6(interfaces)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// device is an interface's number on the instance; those without attachment come last.
func device(i ec2types.InstanceNetworkInterface) int {
	if i.Attachment == nil {
		return math.MaxInt32
	}
	return int(sdk.ToInt32(i.Attachment.DeviceIndex))
}

func addressesV4(
	instance *ec2types.Instance,
	interfaces []ec2types.InstanceNetworkInterface,
) ([]corev1.NodeAddress, error) {
	var all []corev1.NodeAddress
	for _, i := range interfaces {
		if i.Status != ec2types.NetworkInterfaceStatusInUse {
			continue
		}
		for _, private := range i.PrivateIpAddresses {
			if err := addIP(&all, corev1.NodeInternalIP, sdk.ToString(private.PrivateIpAddress)); err != nil {
				return nil, err
			}
		}
	}
	if err := addIP(&all, corev1.NodeExternalIP, sdk.ToString(instance.PublicIpAddress)); err != nil {
		return nil, err
	}
	if name := sdk.ToString(instance.PrivateDnsName); name != "" {
		all = append(
			all,
			corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: name},
			corev1.NodeAddress{Type: corev1.NodeHostName, Address: name},
		)
	}
	if name := sdk.ToString(instance.PublicDnsName); name != "" {
		all = append(all, corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: name})
	}
	return all, nil
}

// addIP adds an address that EC2 may have left empty, in its canonical form.
func addIP(all *[]corev1.NodeAddress, kind corev1.NodeAddressType, text string) error {
	if text == "" {
		return nil
	}
	ip := netutils.ParseIPSloppy(text)
	if ip == nil {
		return fmt.Errorf("EC2 gives the %s %q, which is no IP address", kind, text)
	}
	*all = append(*all, corev1.NodeAddress{Type: kind, Address: ip.String()})
	return nil
}

// addressesV6 takes the first IPv6 address of every interface. They count as internal, whether or not they are
// reachable from outside, and have no names.
func addressesV6(interfaces []ec2types.InstanceNetworkInterface) ([]corev1.NodeAddress, error) {
	var all []corev1.NodeAddress
	for _, i := range interfaces {
		if i.Status != ec2types.NetworkInterfaceStatusInUse || len(i.Ipv6Addresses) == 0 {
			continue
		}
		text := sdk.ToString(i.Ipv6Addresses[0].Ipv6Address)
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, fmt.Errorf("EC2 gives the IPv6 address %q, which is no IP address", text)
		}
		all = append(all, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
	}
	return all, nil
}
