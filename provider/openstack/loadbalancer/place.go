package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// choosePlace has a new load balancer in the subnet of its nodes where no setting says where.
func (b *Balancers) choosePlace(ctx context.Context, s *settings, nodes []*corev1.Node) error {
	if s.subnet.value != "" || s.network.value != "" || s.port != "" {
		return nil
	}
	neutron, err := b.client.Network(ctx)
	if err != nil {
		return err
	}
	var tried []string
	for _, node := range nodes {
		address := addressOf(node, s.family)
		if !s.selects(node) || address == "" {
			continue
		}
		id, err := b.subnetOf(ctx, neutron, node, address)
		if err != nil {
			return err
		}
		if id != "" {
			s.subnet = sourced{id, "the subnet of node " + node.Name}
			return nil
		}
		if tried = append(tried, node.Name); len(tried) == 3 {
			break
		}
	}
	return fmt.Errorf("no port of nodes %s is found, so that the subnet of the load balancer is not known: "+
		"set [LoadBalancer] subnet-id in the cloud config, or the annotation %ssubnet-id", strings.Join(tried, ", "), prefix)
}

func (b *Balancers) subnetOf(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	node *corev1.Node,
	address string,
) (string, error) {
	server := node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
	if server == "" { // Neutron would look for the port of any server
		return "", nil
	}
	options := ports.ListOpts{DeviceID: server, FixedIPs: []ports.FixedIPOpts{{IPAddress: address}}}
	all, err := client.List(
		ctx, "finding the port of node "+node.Name, ports.List(neutron, options), ports.ExtractPorts)
	if err != nil {
		return "", err
	}
	for _, p := range all {
		for _, fixed := range p.FixedIPs {
			if fixed.IPAddress == address {
				return fixed.SubnetID, nil
			}
		}
	}
	return "", nil
}

// floatingNetwork is the network of new floating IPs: the one that is set, or the only one that is external. It is
// empty for a cloud without one.
func (b *Balancers) floatingNetwork(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	s *settings,
) (string, error) {
	if s.floatingNetwork.value != "" {
		return s.floatingNetwork.value, nil
	}
	b.mu.Lock()
	known := b.external
	b.mu.Unlock()
	if known != "" {
		return known, nil
	}
	all, err := client.List(
		ctx, "listing external networks", networks.List(neutron, externalOnly{}), networks.ExtractNetworks)
	if err != nil {
		return "", err
	}
	if len(all) > 1 {
		var names []string
		for _, n := range all {
			names = append(names, n.Name+" ("+n.ID+")")
		}
		slices.Sort(names)
		return "", fmt.Errorf("the cloud has %d external networks (%s): set [LoadBalancer] floating-network-id in the cloud "+
			"config, or the annotation %sfloating-network-id", len(all), strings.Join(names, ", "), prefix)
	}
	if len(all) == 0 {
		return "", nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.external = all[0].ID
	return b.external, nil
}

type externalOnly struct{}

// ToNetworkListQuery implements networks.ListOptsBuilder.
func (externalOnly) ToNetworkListQuery() (string, error) { return "?router:external=true", nil }
