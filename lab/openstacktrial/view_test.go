package openstacktrial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// view reads what is in OpenStack.
type view struct {
	octavia, neutron *gophercloud.ServiceClient
	router           string
}

func look(t *testing.T, s site) *view {
	t.Helper()
	provider, region := s.looker(t), gophercloud.EndpointOpts{Region: "RegionOne"}
	octavia, err := openstack.NewLoadBalancerV2(provider, region)
	if err != nil {
		t.Fatal(err)
	}
	neutron, err := openstack.NewNetworkV2(provider, region)
	if err != nil {
		t.Fatal(err)
	}
	return &view{octavia, neutron, s.router()}
}

// all lists everything of a kind.
func all[T any](ctx context.Context, pager pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	pages, err := pager.AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return extract(pages)
}

// routes are the router's, as "destination via next hop".
func (v *view) routes(ctx context.Context) (list []string, err error) {
	router, err := routers.Get(ctx, v.neutron, v.router).Extract()
	if err != nil {
		return nil, err
	}
	for _, r := range router.Routes {
		list = append(list, r.DestinationCIDR+" via "+r.NextHop)
	}
	slices.Sort(list)
	return list, nil
}

// pairs are the addresses that ports accept next to their own.
func (v *view) pairs(ctx context.Context) (list []string, err error) {
	found, err := all(ctx, ports.List(v.neutron, nil), ports.ExtractPorts)
	for _, p := range found {
		for _, pair := range p.AllowedAddressPairs {
			if strings.Contains(pair.IPAddress, "/") { // those of amphorae are addresses
				list = append(list, pair.IPAddress)
			}
		}
	}
	slices.Sort(list)
	return list, err
}

// objects are all that a cluster might leave behind: what is there before it must be what is there after it.
func (v *view) objects(ctx context.Context) ([]string, error) {
	var list []string
	add := func(kind, id, name string) { list = append(list, strings.TrimSpace(kind+" "+id+" "+name)) }
	balancers, err1 := all(ctx, loadbalancers.List(v.octavia, nil), loadbalancers.ExtractLoadBalancers)
	for _, lb := range balancers {
		add("load balancer", lb.ID, lb.Name+" "+lb.ProvisioningStatus)
	}
	floating, err2 := all(ctx, floatingips.List(v.neutron, nil), floatingips.ExtractFloatingIPs)
	for _, f := range floating {
		add("floating IP", f.ID, f.FloatingIP)
	}
	bound, err3 := all(ctx, ports.List(v.neutron, nil), ports.ExtractPorts)
	for _, p := range bound {
		add("port", p.ID, p.DeviceOwner+" "+p.Name)
	}
	secured, err4 := all(ctx, groups.List(v.neutron, groups.ListOpts{}), groups.ExtractGroups)
	for _, g := range secured {
		add("security group", g.ID, g.Name)
	}
	ruled, err5 := all(ctx, rules.List(v.neutron, rules.ListOpts{}), rules.ExtractRules)
	for _, r := range ruled {
		add("rule", r.ID, "of "+r.SecGroupID)
	}
	routed, err6 := v.routes(ctx)
	for _, r := range routed {
		add("route", r, "")
	}
	slices.Sort(list)
	return list, errors.Join(err1, err2, err3, err4, err5, err6)
}

// balancer is the load balancer of a name; nil for none.
func (v *view) balancer(ctx context.Context, name string) (*loadbalancers.LoadBalancer, error) {
	found, err := all(ctx, loadbalancers.List(v.octavia, loadbalancers.ListOpts{Name: name}), loadbalancers.ExtractLoadBalancers)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("%d load balancers have the name %s", len(found), name)
	}
	return &found[0], nil
}

// shape is a load balancer in a line for each port: protocol, port, members, monitor and source ranges, with the
// status if it is not ACTIVE.
func (v *view) shape(ctx context.Context, lb *loadbalancers.LoadBalancer) (lines []string, err error) {
	opened, err := all(ctx, listeners.List(v.octavia, listeners.ListOpts{LoadbalancerID: lb.ID}), listeners.ExtractListeners)
	if err != nil {
		return nil, err
	}
	for _, l := range opened {
		line := fmt.Sprintf("%s %d", l.Protocol, l.ProtocolPort)
		if l.DefaultPoolID != "" {
			below, err := v.pool(ctx, l.DefaultPoolID)
			if err != nil {
				return nil, err
			}
			line += below
		}
		if len(l.AllowedCIDRs) > 0 {
			line += " from " + strings.Join(slices.Sorted(slices.Values(l.AllowedCIDRs)), ",")
		}
		lines = append(lines, line)
	}
	if lb.ProvisioningStatus != "ACTIVE" {
		lines = append(lines, lb.ProvisioningStatus)
	}
	slices.Sort(lines)
	return lines, nil
}

func (v *view) pool(ctx context.Context, id string) (string, error) {
	p, err := pools.Get(ctx, v.octavia, id).Extract()
	if err != nil {
		return "", err
	}
	text := " " + p.LBMethod + p.Persistence.Type
	listed, err := all(ctx, pools.ListMembers(v.octavia, id, nil), pools.ExtractMembers)
	if err != nil {
		return "", err
	}
	var addresses []string
	for _, m := range listed {
		address := fmt.Sprintf("%s:%d", m.Address, m.ProtocolPort)
		if m.MonitorPort != 0 {
			address += fmt.Sprintf("/%d", m.MonitorPort)
		}
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	text += " " + strings.Join(addresses, ",")
	if p.MonitorID == "" {
		return text, nil
	}
	m, err := monitors.Get(ctx, v.octavia, p.MonitorID).Extract()
	if err != nil {
		return "", err
	}
	return text + " " + m.Type, nil
}
