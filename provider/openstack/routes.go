package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/common/extensions"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// routes are the routes of one router that lead to pods, each with an address pair on its node's port. Otherwise
// Neutron drops packets whose address is not the port's own.
//
// The in-tree provider writes the router's whole list. This one adds and removes single routes where Neutron can
// (extraroute-atomic, since Stein). So neither it nor an administrator loses what the other has written. Elsewhere it
// writes the list that it has just read. Neutron compares no revision where only routes change. So what another one
// writes in that moment is lost.
//
// A pair is added after its route, and removed before it. So whatever a call that ends early leaves behind is a route,
// which the next list shows.
type routes struct {
	client    *client.Client
	router    string
	instances *instances
	nodes     corelisters.NodeLister // nil until SetInformers

	mu    sync.Mutex
	known *neutron // nil until Neutron was asked

	writing sync.Mutex // whole lists are written one after the other
}

// neutron is Neutron, with what it can do and where the router is.
type neutron struct {
	*gophercloud.ServiceClient

	atomic   bool // it adds and removes single routes
	pairs    bool // it has allowed address pairs
	networks []string
	ranges   []ownRange // of the networks
}

func (r *routes) useNodes(nodes corelisters.NodeLister) { r.nodes = nodes }

var errNoNodes = errors.New("the cache of nodes is not there yet")

// rounds is how often a change is tried that another writer was faster than.
const rounds = 5

// ListRoutes reads the router. Some routes lead to a port that does not let the pods' packets pass. One that its node
// alone needs is left out of the list, and so the route controller makes it again. Another is a black hole, to be
// deleted.
func (r *routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	if r.nodes == nil {
		return nil, errNoNodes
	}
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	to, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	router, err := r.get(ctx, to)
	if err != nil {
		return nil, err
	}
	whose, err := r.findOwners(ctx, to, router.Routes, nodes)
	if err != nil {
		return nil, err
	}
	var list []*cloudprovider.Route
	for _, entry := range router.Routes {
		node, p := whose.nodeFor(entry)
		closed := to.pairs && p != nil && p.PortSecurityEnabled && !hasPair(p, entry.DestinationCIDR)
		if closed && whose.isNeededByOnly(node, entry) {
			continue
		}
		route := &cloudprovider.Route{Name: nameOf(entry), DestinationCIDR: entry.DestinationCIDR}
		if node != nil && !closed {
			route.TargetNode = types.NodeName(node.Name)
		} else {
			route.TargetNode, route.Blackhole = types.NodeName(entry.NextHop), true
		}
		list = append(list, route)
	}
	return list, nil
}

// nameOf keeps the next hop for DeleteRoute: a node may have several addresses, or have lost the one that the route
// uses.
func nameOf(entry routers.Route) string { return entry.DestinationCIDR + " via " + entry.NextHop }

// portOf is the port with an address. The same address may be in several networks of a project: the server decides.
func portOf(all []port, address, server string) *port {
	for i := range all {
		p := &all[i]
		if server != "" && p.DeviceID != server {
			continue
		}
		if p.has(address) {
			return p
		}
	}
	return nil
}

func (p *port) has(address string) bool {
	return slices.ContainsFunc(p.FixedIPs, func(ip ports.IP) bool { return ip.IPAddress == address })
}

func hasPair(p *port, cidr string) bool {
	return slices.ContainsFunc(p.AllowedAddressPairs, func(pair ports.AddressPair) bool { return pair.IPAddress == cidr })
}

// CreateRoute adds the route, and then lets the node's port pass the pods' packets. A kubelet that registers its Node
// chooses its podCIDRs. So a route into the router's own subnets is refused, and one that failed gets no pair.
func (r *routes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	if r.nodes == nil {
		return errNoNodes
	}
	destination, err := netip.ParsePrefix(route.DestinationCIDR)
	if err != nil {
		return fmt.Errorf("the route of node %q: %w", route.TargetNode, err)
	}
	node, err := r.nodes.Get(string(route.TargetNode))
	if err != nil {
		return fmt.Errorf("reading node %q, to which a route leads: %w", route.TargetNode, err)
	}
	to, err := r.open(ctx)
	if err != nil {
		return err
	}
	p, hop, err := r.nextHop(ctx, to, node, destination.Addr().Is4())
	if err != nil {
		return err
	}
	if err := r.refuseOverlap(to, node.Name, destination, p); err != nil {
		return err
	}
	entry := routers.Route{DestinationCIDR: route.DestinationCIDR, NextHop: hop}
	if err := r.changeRoute(ctx, to, entry, true); err != nil || !to.pairs || !p.PortSecurityEnabled {
		return err
	}
	return r.changePairs(ctx, to, p, route.DestinationCIDR, true)
}

// nextHop chooses the node's address that its route leads to, and the port that has it.
func (r *routes) nextHop(
	ctx context.Context,
	to *neutron,
	node *corev1.Node,
	v4 bool,
) (*port, string, error) {
	server, err := r.instances.serverOf(ctx, node)
	if err != nil {
		return nil, "", err
	}
	var tried []string
	for _, address := range node.Status.Addresses {
		parsed, err := netip.ParseAddr(address.Address)
		if err != nil || address.Type != corev1.NodeInternalIP || parsed.Is4() != v4 {
			continue
		}
		tried = append(tried, address.Address)
		p, err := findPort(ctx, to, address.Address, server)
		if err != nil {
			return nil, "", err
		}
		if p != nil {
			return p, address.Address, nil
		}
	}
	if len(tried) == 0 {
		return nil, "", fmt.Errorf(
			"node %q has no InternalIP of the family of its pods, to which a route could lead",
			node.Name,
		)
	}
	r.forget()
	return nil, "", fmt.Errorf("no port of node %q with %s is in a network of router %s: "+
		"check router-id in the cloud config, and that the nodes' subnet is an interface of the router",
		node.Name, strings.Join(tried, " or "), r.router)
}

// findPort finds the port of a server with an address in a network of the router; nil for none. Another cluster of the
// project may have that address in a network of its own.
func findPort(ctx context.Context, to *neutron, address, server string) (*port, error) {
	found, err := listPorts(ctx, to.ServiceClient, ports.ListOpts{
		DeviceID: server, FixedIPs: []ports.FixedIPOpts{{IPAddress: address}},
	})
	if err != nil {
		return nil, fmt.Errorf("finding the port with %s: %w", address, err)
	}
	found = slices.DeleteFunc(found, func(p port) bool { return !slices.Contains(to.networks, p.NetworkID) })
	return portOf(found, address, server), nil
}

// DeleteRoute removes the address pair of a port that is still there, and then the route.
func (r *routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	to, err := r.open(ctx)
	if err != nil {
		return err
	}
	destination, hop, found := strings.Cut(route.Name, " via ")
	if !found || destination != route.DestinationCIDR {
		return fmt.Errorf("the route %q to %s was not read by this provider", route.Name, route.DestinationCIDR)
	}
	if to.pairs {
		if err := r.closePort(ctx, to, route, hop); err != nil {
			return err
		}
	}
	return r.changeRoute(ctx, to, routers.Route{DestinationCIDR: destination, NextHop: hop}, false)
}

// closePort removes the address pair of a route from the port that the route leads to.
func (r *routes) closePort(ctx context.Context, to *neutron, route *cloudprovider.Route, hop string) error {
	server := ""
	if !route.Blackhole && r.nodes != nil {
		if node, err := r.nodes.Get(string(route.TargetNode)); err == nil {
			server = r.instances.queryFor(node).id
		}
	}
	p, err := findPort(ctx, to, hop, server)
	if err != nil || p == nil {
		return err
	}
	return r.changePairs(ctx, to, p, route.DestinationCIDR, false)
}

// changePairs adds a pair to a port, or removes it. Neutron writes the whole list: with the revision that was read, it
// refuses to write over what another has added meanwhile.
func (r *routes) changePairs(ctx context.Context, to *neutron, p *port, cidr string, wanted bool) error {
	for range rounds {
		if hasPair(p, cidr) == wanted {
			return nil
		}
		pairs := slices.DeleteFunc(slices.Clone(p.AllowedAddressPairs), func(pair ports.AddressPair) bool {
			return pair.IPAddress == cidr
		})
		if wanted {
			pairs = append(pairs, ports.AddressPair{IPAddress: cidr})
		}
		if pairs == nil {
			pairs = []ports.AddressPair{}
		}
		options := ports.UpdateOpts{AllowedAddressPairs: &pairs}
		if p.RevisionNumber > 0 {
			options.RevisionNumber = &p.RevisionNumber
		}
		_, err := ports.Update(ctx, to.ServiceClient, p.ID, options).Extract()
		switch {
		case err == nil, !wanted && client.NotFound(err):
			return nil
		case !client.Conflict(err):
			return fmt.Errorf("changing the allowed address pairs of port %s for %s: %w", p.ID, cidr, client.Explain(err))
		}
		*p, err = getPort(ctx, to.ServiceClient, p.ID)
		if !wanted && client.NotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("changing the allowed address pairs of port %s for %s: others changed the port %d times meanwhile",
		p.ID, cidr, rounds)
}

// changeRoute adds a route to the router, or removes it. Both are no change when it is done already.
func (r *routes) changeRoute(ctx context.Context, to *neutron, entry routers.Route, wanted bool) error {
	if !to.atomic {
		return r.rewrite(ctx, to, entry, wanted)
	}
	options := extraroutes.Opts{Routes: &[]routers.Route{entry}}
	var err error
	if wanted {
		_, err = extraroutes.Add(ctx, to.ServiceClient, r.router, options).Extract()
	} else {
		_, err = extraroutes.Remove(ctx, to.ServiceClient, r.router, options).Extract()
	}
	if err != nil {
		return fmt.Errorf("changing the route to %s via %s of router %s: %w",
			entry.DestinationCIDR, entry.NextHop, r.router, client.Explain(err))
	}
	return nil
}

func (r *routes) rewrite(ctx context.Context, to *neutron, entry routers.Route, wanted bool) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	router, err := r.get(ctx, to)
	if err != nil {
		return err
	}
	if slices.Contains(router.Routes, entry) == wanted {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(router.Routes), func(e routers.Route) bool { return e == entry })
	if wanted {
		list = append(list, entry)
	}
	if list == nil {
		list = []routers.Route{}
	}
	_, err = routers.Update(ctx, to.ServiceClient, r.router, routers.UpdateOpts{Routes: &list}).Extract()
	if err != nil {
		return fmt.Errorf("changing the route to %s via %s of router %s: %w",
			entry.DestinationCIDR, entry.NextHop, r.router, client.Explain(err))
	}
	return nil
}

func (r *routes) get(ctx context.Context, to *neutron) (*routers.Router, error) {
	router, err := routers.Get(ctx, to.ServiceClient, r.router).Extract()
	if client.NotFound(err) {
		return nil, fmt.Errorf("there is no router %s in this project: check [Route] router-id in the cloud config: %w",
			r.router, client.Explain(err))
	}
	if err != nil {
		return nil, fmt.Errorf("reading router %s: %w", r.router, client.Explain(err))
	}
	if router == nil || router.ID != r.router { // its routes would be written as if there were none
		return nil, fmt.Errorf("reading router %s: the answer has another one, or none", r.router)
	}
	return router, nil
}

// open returns Neutron, once it is known what it can do, which networks the router is in and which subnets those have.
func (r *routes) open(ctx context.Context) (*neutron, error) {
	service, err := r.client.Network(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != nil {
		return r.known, nil
	}
	pages, err := extensions.List(service).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking Neutron for its extensions: %w", client.Explain(err))
	}
	all, err := extensions.ExtractExtensions(pages)
	if err != nil {
		return nil, fmt.Errorf("asking Neutron for its extensions: %w", err)
	}
	has := func(alias string) bool {
		return slices.ContainsFunc(all, func(e extensions.Extension) bool { return e.Alias == alias })
	}
	if !has("extraroute") {
		return nil, errors.New(
			"this Neutron has no routes on routers (extension extraroute): run without the route controller",
		)
	}
	interfaces, err := listPorts(ctx, service, ports.ListOpts{DeviceID: r.router})
	if err != nil {
		return nil, fmt.Errorf("listing the interfaces of router %s: %w", r.router, err)
	}
	if len(interfaces) == 0 {
		return nil, fmt.Errorf(
			"router %s has no interface, or does not exist: check [Route] router-id in the cloud config",
			r.router,
		)
	}
	made := &neutron{ServiceClient: service, atomic: has("extraroute-atomic"), pairs: has("allowed-address-pairs")}
	for _, p := range interfaces {
		made.networks = append(made.networks, p.NetworkID)
	}
	if made.ranges, err = readRanges(ctx, service, interfaces); err != nil {
		return nil, fmt.Errorf("reading the subnets of router %s: %w", r.router, err)
	}
	if !made.atomic {
		klog.InfoS(
			"Neutron cannot add single routes; the router's whole list is written, and what others write then is lost",
			"router",
			r.router,
		)
	}
	r.known = made
	return made, nil
}

// forget has Neutron asked again with the next call: the router may have been given an interface since.
func (r *routes) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = nil
}
