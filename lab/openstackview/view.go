// Package openstackview decides what a test looks at in an OpenStack, a simulated one or a real one: load balancers as
// they serve, routes, and everything that a cluster might leave behind.
package openstackview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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

// View reads what is in OpenStack.
type View struct {
	octavia, neutron *gophercloud.ServiceClient
	router           string
}

// New is a View with the login of someone who sees everything, and of a router.
func New(provider *gophercloud.ProviderClient, region, router string) (*View, error) {
	of := gophercloud.EndpointOpts{Region: region}
	octavia, err := openstack.NewLoadBalancerV2(provider, of)
	if err != nil {
		return nil, err
	}
	neutron, err := openstack.NewNetworkV2(provider, of)
	if err != nil {
		return nil, err
	}
	return &View{octavia, neutron, router}, nil
}

// Login is a client of a user of the domain Default, whose connections the caller closes.
func Login(
	ctx context.Context, url, user, project, password string,
) (_ *gophercloud.ProviderClient, closeIdle func(), _ error) {
	provider, err := openstack.NewClient(url)
	if err != nil {
		return nil, nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is net/http's own
	provider.HTTPClient = http.Client{Transport: transport, Timeout: time.Minute}
	err = openstack.Authenticate(ctx, provider, gophercloud.AuthOptions{
		IdentityEndpoint: url, Username: user, Password: password, DomainName: "Default", TenantName: project,
		AllowReauth: true,
	})
	return provider, transport.CloseIdleConnections, err
}

// all lists everything of a kind.
func all[T any](ctx context.Context, pager pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	pages, err := pager.AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return extract(pages)
}

// Routes are the router's, as "destination via next hop".
func (v *View) Routes(ctx context.Context) (list []string, err error) {
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

// Pairs are the addresses that ports accept next to their own.
func (v *View) Pairs(ctx context.Context) (list []string, err error) {
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

// Objects are all that a cluster might leave behind: what is there before it must be what is there after it.
func (v *View) Objects(ctx context.Context) ([]string, error) {
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
	routed, err6 := v.Routes(ctx)
	for _, r := range routed {
		add("route", r, "")
	}
	slices.Sort(list)
	return list, errors.Join(err1, err2, err3, err4, err5, err6)
}

// Balancer is the load balancer of a name; nil for none.
func (v *View) Balancer(ctx context.Context, name string) (*loadbalancers.LoadBalancer, error) {
	listed := loadbalancers.List(v.octavia, loadbalancers.ListOpts{Name: name})
	found, err := all(ctx, listed, loadbalancers.ExtractLoadBalancers)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("%d load balancers have the name %s", len(found), name)
	}
	return &found[0], nil
}

// Shapes are all load balancers by ID, with their Shape.
func (v *View) Shapes(ctx context.Context) (map[string][]string, error) {
	found, err := all(ctx, loadbalancers.List(v.octavia, nil), loadbalancers.ExtractLoadBalancers)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, lb := range found {
		if out[lb.ID], err = v.Shape(ctx, &lb); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Shape is a load balancer in a line for each port: protocol, port, members, monitor and source ranges, with the
// status if it is not ACTIVE.
func (v *View) Shape(ctx context.Context, lb *loadbalancers.LoadBalancer) (lines []string, err error) {
	listed := listeners.List(v.octavia, listeners.ListOpts{LoadbalancerID: lb.ID})
	opened, err := all(ctx, listed, listeners.ExtractListeners)
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

func (v *View) pool(ctx context.Context, id string) (string, error) {
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
