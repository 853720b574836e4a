package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
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

// falseClaimsError says that each address that nodes claim is another machine's.
type falseClaimsError struct {
	count     int
	node, why string // of one of them
}

func (e *falseClaimsError) Error() string {
	return fmt.Sprintf("%d nodes claim addresses of others: of node %s, %s", e.count, e.node, e.why)
}

// withoutFalse leaves out nodes that claim the address of another machine: their kubelets write it.
func (b *Balancers) withoutFalse(
	ctx context.Context,
	s *settings,
	family corev1.IPFamily,
	nodes []*corev1.Node,
) ([]*corev1.Node, error) {
	var claims []Claim
	for _, node := range nodes {
		if address := addressOf(node, family); address != "" && s.selects(node) {
			claims = append(claims, Claim{node, address})
		}
	}
	refused, err := b.servers.Refuse(ctx, claims)
	if err != nil {
		return nil, fmt.Errorf("checking the addresses of nodes: %w", err)
	}
	if len(claims) > 0 && len(refused) == len(claims) {
		first := slices.Min(slices.Collect(maps.Keys(refused)))
		return nil, fmt.Errorf("no node can be a member of the load balancer of Service %s/%s; it keeps those that it has (%w)",
			s.service.Namespace, s.service.Name, &falseClaimsError{len(refused), first, refused[first]})
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return refused[node.Name] != "" }), nil
}

// members are the nodes that may be members of a Service's load balancer, and where they are reached.
func (b *Balancers) members(ctx context.Context, s *settings, nodes []*corev1.Node) ([]*corev1.Node, []target, error) {
	nodes, err := b.withoutFalse(ctx, s, s.family, nodes)
	if err != nil {
		return nil, nil, err
	}
	targets, err := s.targets(nodes)
	return nodes, targets, err
}

func (b *Balancers) memberSubnet(s *settings, lb *loadbalancers.LoadBalancer) string {
	if s.memberSubnet.value != "" {
		return s.memberSubnet.value
	}
	return lb.VipSubnetID
}

// place is where a new load balancer has its addresses, in the making.
type place struct {
	b     *Balancers
	s     *settings
	nodes []*corev1.Node
}

// choose has a new load balancer in the subnet of its nodes where no setting says where.
func (p place) choose(ctx context.Context) error {
	s := p.s
	if s.subnet.value != "" || s.network.value != "" || s.port != "" {
		return nil
	}
	neutron, err := p.b.client.Network(ctx)
	if err != nil {
		return err
	}
	id, tried, err := p.subnetOfNodes(ctx, neutron, s.family, nil)
	if err != nil {
		return err
	}
	if id != "" {
		s.subnet = sourced{id, "the subnet of node " + tried[len(tried)-1]}
		return nil
	}
	return fmt.Errorf("no port of nodes %s is found, so that the subnet of the load balancer is not known: "+
		"set [LoadBalancer] subnet-id in the cloud config, or the annotation %ssubnet-id", strings.Join(tried, ", "), prefix)
}

// subnetOfNodes is the subnet in which one of the first nodes has its address of a family; empty for none. With some
// given, it is one of them. Tried are the nodes that were looked at, the one of the subnet last.
func (p place) subnetOfNodes(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	family corev1.IPFamily,
	of []string,
) (id string, tried []string, err error) {
	for _, node := range p.nodes {
		address := addressOf(node, family)
		if !p.s.selects(node) || address == "" {
			continue
		}
		tried = append(tried, node.Name)
		id, err := p.subnetOf(ctx, neutron, node, address)
		if err != nil {
			return "", tried, err
		}
		if id != "" && (of == nil || slices.Contains(of, id)) {
			return id, tried, nil
		}
		if len(tried) == 3 {
			break
		}
	}
	return "", tried, nil
}

// single is what a Service can be changed to that cannot have both families.
const single = "set spec.ipFamilyPolicy to SingleStack"

// withSecond adds the members of the second family, where the load balancer has an address of it.
func (b *Balancers) withSecond(
	ctx context.Context,
	s *settings,
	lb *loadbalancers.LoadBalancer,
	nodes []*corev1.Node,
	targets []target,
) ([]target, error) {
	_, subnet := vipOf(lb, s.second)
	if s.second == "" || subnet == "" {
		return targets, nil
	}
	more, err := b.secondMembers(ctx, s, nodes, subnet)
	return slices.Concat(targets, more), err
}

// secondMembers are the members by the second family of a Service, in a subnet.
func (b *Balancers) secondMembers(
	ctx context.Context,
	s *settings,
	nodes []*corev1.Node,
	subnet string,
) ([]target, error) {
	nodes, err := b.withoutFalse(ctx, s, s.second, nodes)
	if err != nil {
		return nil, err
	}
	targets, _, _ := targetsOf(s, s.second, nodes)
	for i := range targets {
		targets[i].subnet = subnet
	}
	return targets, nil
}

// noteSingle sends an event to a dual-stack Service whose load balancer has one address. It serves by that.
func (b *Balancers) noteSingle(ctx context.Context, s *settings, lb *loadbalancers.LoadBalancer) error {
	if s.second == "" {
		return nil
	}
	missing := s.second
	if address, _ := vipOf(lb, s.family); address == "" {
		missing = s.family // it was made for the other one
	} else if address, _ := vipOf(lb, s.second); address != "" {
		return nil
	}
	o, err := b.open(ctx)
	if err != nil {
		return err
	}
	lacks := "Octavia adds none to one that exists: delete the Service and create it again, or " + single
	if !o.supportsSecondAddress() {
		lacks = o.lacksSecondAddress()
	}
	b.notices.send(ctx, s.service, b.now(), fmt.Sprintf("Load balancer %s (%s) has no address of family %s, and %s",
		lb.Name, lb.ID, missing, lacks))
	return nil
}

// network is the network of a new load balancer.
func (p place) network(ctx context.Context, neutron *gophercloud.ServiceClient) (string, error) {
	s := p.s
	if s.subnet.value == "" {
		return s.network.value, nil
	}
	subnet, err := subnets.Get(ctx, neutron, s.subnet.value).Extract()
	if client.NotFound(err) {
		return "", fmt.Errorf("there is no subnet %s: check %s", s.subnet.value, s.subnet.from)
	}
	if err != nil {
		return "", fmt.Errorf("reading subnet %s (%s): %w", s.subnet.value, s.subnet.from, client.Explain(err))
	}
	return subnet.NetworkID, nil
}

// subnetIn is the subnet of a family in a network: the only one, or the one that nodes are in. Lacks says that it is
// not known.
func (p place) subnetIn(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	family corev1.IPFamily,
	network string,
) (id, lacks string, err error) {
	listed := subnets.List(neutron, subnets.ListOpts{NetworkID: network})
	all, err := client.List(ctx, "listing the subnets of network "+network, listed, subnets.ExtractSubnets)
	if err != nil {
		return "", "", err
	}
	var ids []string
	for _, subnet := range all {
		if (subnet.IPVersion == 4) == (family == corev1.IPv4Protocol) && subnet.NetworkID == network {
			ids = append(ids, subnet.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Sprintf("network %s has no subnet of family %s: add one, or %s", network, family, single), nil
	case 1:
		return ids[0], "", nil
	}
	id, _, err = p.subnetOfNodes(ctx, neutron, family, ids)
	if err != nil || id != "" {
		return id, "", err
	}
	return "", fmt.Sprintf("network %s has %d subnets of family %s (%s): name one in the annotation %s, or in %ssubnet-id "+
		"that of the first address", network, len(ids), family, strings.Join(ids, ", "), AnnotationSecondSubnet, prefix), nil
}

func (p place) subnetOf(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	node *corev1.Node,
	address string,
) (string, error) {
	server := p.b.servers.ServerOf(node)
	if server == "" { // Neutron would look for the port of any server
		return "", nil
	}
	options := ports.ListOpts{DeviceID: server, FixedIPs: []ports.FixedIPOpts{{IPAddress: address}}}
	all, err := client.List(
		ctx, "finding the port of node "+node.Name, ports.List(neutron, options), ports.ExtractPorts)
	if err != nil {
		return "", err
	}
	for _, port := range all {
		for _, fixed := range port.FixedIPs {
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
