package azure

import (
	"context"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"github.com/transplant-dev/transplant/provider/azure/client"
)

// NodeRoutes are the routes of the config's table, of this cluster and of others; none without a table.
func (c *Cloud) NodeRoutes(ctx context.Context) ([]*armnetwork.Route, error) {
	if c.conf.RouteTableName == "" {
		return nil, nil
	}
	table, err := c.routes.read(ctx)
	if err != nil || table == nil {
		return nil, err
	}
	return table.Properties.Routes, nil
}

// Frontend is the part of a load balancer that is one Service's.
type Frontend struct {
	// Balancer is the name of the load balancer, and GUID what no other one of that name has.
	Balancer, GUID string
	// Name is that of the frontend, which upstream makes of the Service's UID.
	Name       string
	Address    string
	IsInternal bool
	// Rules are those of the frontend, and Members the names of the machines behind it.
	Rules   []*armnetwork.LoadBalancingRule
	Members []string
}

// Frontends are those of all load balancers of the resource group.
func (c *Cloud) Frontends(ctx context.Context) (all []Frontend, err error) {
	group := c.conf.ResourceGroup
	if c.conf.LoadBalancerResourceGroup != "" {
		group = c.conf.LoadBalancerResourceGroup
	}
	owners, err := c.owners(ctx)
	if err != nil {
		return nil, err
	}
	pages := c.client.LoadBalancers.NewListPager(group, nil)
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain(err, "listing the load balancers of resource group %s", group)
		}
		for _, balancer := range page.Value {
			found, err := c.frontendsOf(ctx, balancer, owners)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// owners are the machines that interfaces of the resource group are of, by the interface's ID in lower case.
func (c *Cloud) owners(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	pages := c.client.NICs.NewListPager(c.conf.ResourceGroup, nil)
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain(err, "listing the network interfaces of resource group %s", c.conf.ResourceGroup)
		}
		for _, one := range page.Value {
			machine := deref(deref(deref(one.Properties).VirtualMachine).ID)
			out[strings.ToLower(deref(one.ID))] = nameIn(machine)
		}
	}
	return out, nil
}

func (c *Cloud) frontendsOf(
	ctx context.Context,
	balancer *armnetwork.LoadBalancer,
	owners map[string]string,
) (all []Frontend, err error) {
	properties := deref(balancer.Properties)
	for _, config := range properties.FrontendIPConfigurations {
		inner := deref(config.Properties)
		one := Frontend{
			Balancer: deref(balancer.Name), GUID: deref(properties.ResourceGUID), Name: deref(config.Name),
			Address: deref(inner.PrivateIPAddress), IsInternal: inner.PublicIPAddress == nil,
		}
		if !one.IsInternal {
			if one.Address, err = c.frontAddress(ctx, deref(inner.PublicIPAddress.ID)); err != nil {
				return nil, err
			}
		}
		for _, rule := range properties.LoadBalancingRules {
			if strings.EqualFold(deref(deref(deref(rule.Properties).FrontendIPConfiguration).ID), deref(config.ID)) {
				one.Rules = append(one.Rules, rule)
			}
		}
		one.Members = membersOf(properties.BackendAddressPools, one.Rules, owners)
		all = append(all, one)
	}
	return all, nil
}

// frontAddress is a public address; empty for one that was deleted since.
func (c *Cloud) frontAddress(ctx context.Context, id string) (string, error) {
	in := named(id)
	got, err := c.client.FrontAddress.Get(ctx, in["resourcegroups"], in["publicipaddresses"], nil)
	if client.IsNotFound(err) {
		return "", nil
	}
	return deref(deref(got.Properties).IPAddress), explain(err, "reading the public address %s", nameIn(id))
}

// membersOf are the machines in the pools that rules lead to.
func membersOf(
	pools []*armnetwork.BackendAddressPool,
	rules []*armnetwork.LoadBalancingRule,
	owners map[string]string,
) (names []string) {
	for _, pool := range pools {
		isUsed := slices.ContainsFunc(rules, func(r *armnetwork.LoadBalancingRule) bool {
			return strings.EqualFold(deref(deref(deref(r.Properties).BackendAddressPool).ID), deref(pool.ID))
		})
		for _, config := range deref(pool.Properties).BackendIPConfigurations {
			if isUsed {
				names = append(names, ownerOf(deref(config.ID), owners))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ownerOf is what a configuration of an interface is of: a scale set's machine, set/number, or a machine. Of an
// interface of another resource group it is the interface.
func ownerOf(id string, owners map[string]string) string {
	in := named(id)
	if set := in["virtualmachinescalesets"]; set != "" {
		return strings.ToLower(set) + "/" + in["virtualmachines"]
	}
	nic, _, _ := strings.Cut(strings.ToLower(id), "/ipconfigurations/")
	if machine := owners[nic]; machine != "" {
		return machine
	}
	return in["networkinterfaces"]
}

// RouteTable is the name of the config's table; empty for none.
func (c *Cloud) RouteTable() string { return c.conf.RouteTableName }
