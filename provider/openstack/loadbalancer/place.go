package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// Servers are those of nodes.
type Servers interface {
	// ServerOf is the ID of a node's server, by its providerID; empty where that has none.
	ServerOf(node *corev1.Node) string
	// Refuse returns why nodes cannot have the addresses that they claim, by their names.
	Refuse(ctx context.Context, claims []Claim) (map[string]string, error)
}

// Claim is the address that a Node shows in its status, at which it would be a member.
type Claim struct {
	Node    *corev1.Node
	Address string
}

// withoutFalse leaves out nodes that claim the address of another machine: their kubelets write it.
func (b *Balancers) withoutFalse(ctx context.Context, s *settings, nodes []*corev1.Node) ([]*corev1.Node, error) {
	var claims []Claim
	for _, node := range nodes {
		if address := addressOf(node, s.family); address != "" && s.selects(node) {
			claims = append(claims, Claim{node, address})
		}
	}
	refused, err := b.servers.Refuse(ctx, claims)
	if err != nil {
		return nil, fmt.Errorf("checking the addresses of nodes: %w", err)
	}
	if len(claims) > 0 && len(refused) == len(claims) {
		first := slices.Min(slices.Collect(maps.Keys(refused)))
		return nil, fmt.Errorf("no node can be a member of the load balancer of Service %s/%s; it keeps those that it has "+
			"(%d nodes claim addresses of others: of node %s, %s)",
			s.service.Namespace, s.service.Name, len(refused), first, refused[first])
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return refused[node.Name] != "" }), nil
}

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
	server := b.servers.ServerOf(node)
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
