package azure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	upstreamconfig "sigs.k8s.io/cloud-provider-azure/pkg/provider/config"

	"github.com/transplant-dev/transplant/provider/azure/client"
	"github.com/transplant-dev/transplant/provider/transport"
)

const (
	// routeSeparator is between the node and the range in the name of a route. Older routes have the node's name alone.
	routeSeparator = "____"
	// routeTimeout bounds one change of the table.
	routeTimeout = 5 * time.Minute
	// pollEvery is how often Azure is asked whether a change is done, unless it says when.
	pollEvery = 2 * time.Second
)

// routes are those of the config's route table, by upstream's names. Changes that come while one is made are made
// together, by one request: a table takes one at a time.
type routes struct {
	client *client.Client
	gate   *transport.Gate
	table  string
	group  string
	region string
	turn   chan struct{} // holds one value while the table is changed

	mu        sync.Mutex
	nodes     corelisters.NodeLister // nil until SetInformers
	waiting   []*routeChange
	unmanaged map[types.NodeName]string // ranges of Nodes whose machines are not in Azure
}

// routeChange is a route that is to be there, and those that are not.
type routeChange struct {
	put  *armnetwork.Route // nil for none
	drop func(*armnetwork.Route) bool
	done chan error // takes one value
}

func newRoutes(reach *client.Client, conf *upstreamconfig.Config, gate *transport.Gate) *routes {
	r := &routes{
		client: reach, gate: gate, table: conf.RouteTableName, group: conf.RouteTableResourceGroup, region: conf.Location,
		turn: make(chan struct{}, 1), unmanaged: map[types.NodeName]string{},
	}
	if r.group == "" {
		r.group = conf.ResourceGroup
	}
	return r
}

func (r *routes) useNodes(nodes corelisters.NodeLister) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = nodes
}

// read is the table; nil for one that does not exist.
func (r *routes) read(ctx context.Context) (*armnetwork.RouteTable, error) {
	got, err := r.client.RouteTables.Get(ctx, r.group, r.table, nil)
	switch {
	case client.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, explain(err, "reading the route table %s of resource group %s", r.table, r.group)
	case got.Properties == nil || !strings.EqualFold(deref(got.Name), r.table):
		return nil, fmt.Errorf("reading the route table %s of resource group %s: the answer describes another object",
			r.table, r.group)
	}
	return &got.RouteTable, nil
}

// ListRoutes reads the routes of the table. Those that lead to no node are of no range of the cluster, and the
// controller leaves them.
func (r *routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	table, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	out := []*cloudprovider.Route{}
	if table != nil {
		for _, route := range table.Properties.Routes {
			node, _, _ := strings.Cut(deref(route.Name), routeSeparator)
			out = append(out, &cloudprovider.Route{
				Name: deref(route.Name), TargetNode: types.NodeName(node),
				DestinationCIDR: deref(deref(route.Properties).AddressPrefix),
			})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for node, cidr := range r.unmanaged {
		out = append(out, &cloudprovider.Route{Name: string(node), TargetNode: node, DestinationCIDR: cidr})
	}
	return out, nil
}

// isElsewhere reports whether a node's machine is not in Azure. No route of Azure leads to it.
func (r *routes) isElsewhere(name types.NodeName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		return false
	}
	node, err := r.nodes.Get(string(name))
	return err == nil && isUnmanaged(node)
}

// CreateRoute makes a route to a node's address, in place of another one of its name.
func (r *routes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	if r.isElsewhere(route.TargetNode) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unmanaged[route.TargetNode] = route.DestinationCIDR
		return nil
	}
	hop, err := hopOf(route)
	if err != nil {
		return fmt.Errorf("making the route to %s of node %q: %w", route.DestinationCIDR, route.TargetNode, err)
	}
	name := routeName(route)
	put := &armnetwork.Route{Name: &name, Properties: &armnetwork.RoutePropertiesFormat{
		AddressPrefix: &route.DestinationCIDR, NextHopIPAddress: &hop,
		NextHopType: to.Ptr(armnetwork.RouteNextHopTypeVirtualAppliance),
	}}
	err = r.change(ctx, &routeChange{put: put, drop: isNamed(name), done: make(chan error, 1)})
	return explain(err, "making the route to %s of node %q", route.DestinationCIDR, route.TargetNode)
}

// DeleteRoute deletes a route. One that is gone already is no error.
func (r *routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	r.mu.Lock()
	_, isElsewhere := r.unmanaged[route.TargetNode]
	delete(r.unmanaged, route.TargetNode)
	r.mu.Unlock()
	if isElsewhere {
		return nil
	}
	name := route.Name
	if name == "" {
		name = routeName(route)
	}
	err := r.change(ctx, &routeChange{drop: isNamed(name), done: make(chan error, 1)})
	return explain(err, "deleting the route %s to %s", name, route.DestinationCIDR)
}

func isNamed(name string) func(*armnetwork.Route) bool {
	return func(route *armnetwork.Route) bool { return strings.EqualFold(deref(route.Name), name) }
}

func routeName(route *cloudprovider.Route) string {
	cidr := strings.NewReplacer(":", "", ".", "", "/", "").Replace(route.DestinationCIDR)
	return string(route.TargetNode) + routeSeparator + cidr
}

// hopOf is the internal address of the node that is of the family of the route.
func hopOf(route *cloudprovider.Route) (string, error) {
	to, err := netip.ParsePrefix(route.DestinationCIDR)
	if err != nil {
		return "", fmt.Errorf("%q is no range of addresses", route.DestinationCIDR)
	}
	for _, a := range route.TargetNodeAddresses {
		address, err := netip.ParseAddr(a.Address)
		if a.Type == corev1.NodeInternalIP && err == nil && address.Is4() == to.Addr().Is4() {
			return a.Address, nil
		}
	}
	return "", errors.New("the node has no internal address of its family")
}

// change has a change made with all others that wait for the table.
func (r *routes) change(ctx context.Context, c *routeChange) error {
	if err := r.gate.Ask(ctx, "network", "PUT routeTables/{name}"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, routeTimeout)
	defer cancel()
	r.mu.Lock()
	r.waiting = append(r.waiting, c)
	r.mu.Unlock()
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		r.withdraw(c)
		return fmt.Errorf("waiting for another change of the route table: %w", context.Cause(ctx))
	case r.turn <- struct{}{}:
	}
	defer func() { <-r.turn }()
	if ctx.Err() != nil && r.isWaiting(c) { // the others' changes do not end with it
		r.withdraw(c)
		return fmt.Errorf("waiting for another change of the route table: %w", context.Cause(ctx))
	}
	r.mu.Lock()
	changes := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	if !slices.Contains(changes, c) { // made by the one who had the turn before
		return <-c.done
	}
	err := r.write(ctx, changes)
	for _, each := range changes {
		each.done <- err
	}
	return err
}

// isWaiting reports whether a change is neither made nor given up.
func (r *routes) isWaiting(c *routeChange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.waiting, c)
}

func (r *routes) withdraw(c *routeChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(w *routeChange) bool { return w == c })
}

// maxWrites is how often a change of the table is tried while others change it.
const maxWrites = 3

// write changes the table as it is now. One that others have changed in between is read again.
func (r *routes) write(ctx context.Context, changes []*routeChange) (err error) {
	for range maxWrites {
		if err = r.writeOnce(ctx, changes); !client.IsOutdated(err) {
			return err
		}
	}
	return err
}

// writeOnce changes the table as it is now. A table that was changed in between is left, by its ETag.
func (r *routes) writeOnce(ctx context.Context, changes []*routeChange) error {
	table, err := r.read(ctx)
	if err != nil {
		return err
	}
	if table == nil {
		table = &armnetwork.RouteTable{Location: &r.region, Properties: &armnetwork.RouteTablePropertiesFormat{}}
	}
	// Azure has what was written last, and may not have applied it
	isChanged := deref(table.Properties.ProvisioningState) == armnetwork.ProvisioningStateFailed
	all := table.Properties.Routes
	for _, c := range changes {
		if c.put != nil && slices.ContainsFunc(all, isSame(c.put)) {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(all), c.drop)
		isChanged = isChanged || c.put != nil || len(kept) != len(all)
		if all = kept; c.put != nil {
			all = append(all, c.put)
		}
	}
	if !isChanged {
		return nil
	}
	table.Properties.Routes = all
	poller, err := r.client.RouteTables.BeginCreateOrUpdate(ctx, r.group, r.table, *table, nil)
	if err == nil {
		_, err = poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: pollEvery})
	}
	return explain(err, "changing the route table %s of resource group %s", r.table, r.group)
}

func isSame(want *armnetwork.Route) func(*armnetwork.Route) bool {
	return func(have *armnetwork.Route) bool {
		w, h := deref(want.Properties), deref(have.Properties)
		return deref(want.Name) == deref(have.Name) && deref(w.AddressPrefix) == deref(h.AddressPrefix) &&
			deref(w.NextHopIPAddress) == deref(h.NextHopIPAddress) && deref(w.NextHopType) == deref(h.NextHopType)
	}
}
