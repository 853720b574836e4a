package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/naming"
)

// balancers are the load balancers that a manager has made for the cluster. Other clusters may have some in the same
// project, so that the members decide where the name does not.
func (p *project) balancers(
	ctx context.Context,
	nodes []v1.Node,
	floating []floatingips.FloatingIP,
) ([]v1.LoadBalancer, error) {
	octavia, err := p.client.LoadBalancer(ctx)
	if err != nil {
		return nil, err
	}
	id, err := p.client.Project(ctx)
	if err != nil {
		return nil, err
	}
	list := loadbalancers.List(octavia, loadbalancers.ListOpts{ProjectID: id})
	all, err := client.List(ctx, "listing load balancers", list, loadbalancers.ExtractLoadBalancers)
	if err != nil {
		return nil, err
	}
	attached := map[string]string{}
	for _, ip := range floating {
		if ip.PortID != "" {
			attached[ip.PortID] = ip.FloatingIP
		}
	}
	addresses := internalAddresses(nodes)
	var out []v1.LoadBalancer
	for _, lb := range all {
		_, named := naming.OfBalancer(lb.Name)
		if lb.ProvisioningStatus == "DELETED" || !named && !naming.IsServiceName(lb.Name) {
			continue
		}
		made, err := describeLoadBalancer(ctx, octavia, lb, attached[lb.VipPortID])
		if err != nil {
			return nil, err
		}
		if p.belongs(made, addresses) {
			out = append(out, made)
		}
	}
	slices.SortFunc(out, func(x, y v1.LoadBalancer) int { return strings.Compare(x.ID, y.ID) })
	return out, nil
}

// belongs reports whether a load balancer is the cluster's: by the cluster in its name, or by a node that is a member.
// One of the in-tree provider without members is of a Service that is being deleted, or of one that is gone.
func (p *project) belongs(lb v1.LoadBalancer, nodes map[string]bool) bool {
	if p.options.Cluster != "" && naming.IsServiceName(lb.Name) {
		maker, ok := naming.OfBalancer(lb.Name)
		return ok && maker.Cluster == p.options.Cluster || // a name that was cut does not say which part is the cluster's
			!ok && strings.HasPrefix(lb.Name, naming.ServicePrefix+p.options.Cluster+"_")
	}
	return len(lb.Members) == 0 || slices.ContainsFunc(lb.Members, func(address string) bool { return nodes[address] })
}

func describeLoadBalancer(
	ctx context.Context,
	octavia *gophercloud.ServiceClient,
	lb loadbalancers.LoadBalancer,
	floating string,
) (v1.LoadBalancer, error) {
	out := v1.LoadBalancer{
		ID: lb.ID, Name: lb.Name, Kind: "octavia", Address: lb.VipAddress, Scheme: "internal", Created: lb.CreatedAt.UTC(),
	}
	if floating != "" {
		out.Address, out.Scheme = floating, "internet-facing"
	}
	reading := "reading the parts of load balancer " + lb.ID
	list := listeners.List(octavia, listeners.ListOpts{LoadbalancerID: lb.ID})
	opened, err := client.List(ctx, reading, list, listeners.ExtractListeners)
	if err != nil {
		return out, err
	}
	for _, l := range opened {
		target := 0
		if l.DefaultPoolID != "" {
			list := pools.ListMembers(octavia, l.DefaultPoolID, pools.ListMembersOpts{})
			members, err := client.List(ctx, reading, list, pools.ExtractMembers)
			if err != nil {
				return out, err
			}
			for _, m := range members {
				out.Members, target = append(out.Members, m.Address), m.ProtocolPort
			}
		}
		out.Listeners = append(out.Listeners, fmt.Sprintf("%d/%s->%d", l.ProtocolPort, l.Protocol, target))
	}
	slices.Sort(out.Members)
	out.Members = slices.Compact(out.Members)
	slices.Sort(out.Listeners)
	return out, nil
}

// internalAddresses are the addresses that members of load balancers have.
func internalAddresses(nodes []v1.Node) map[string]bool {
	addresses := map[string]bool{}
	for _, n := range nodes {
		for _, a := range n.Addresses {
			if ip, ok := strings.CutPrefix(a, "InternalIP="); ok {
				addresses[ip] = true
			}
		}
	}
	return addresses
}
