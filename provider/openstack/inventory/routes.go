package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// routes are all of the router that the route loop writes. Where none is named, they are those of the project's routers
// that lead to nodes. The target is the server that has the next hop, or the next hop itself.
func (p *project) routes(ctx context.Context, instances []v1.CloudInstance) ([]v1.Route, error) {
	neutron, err := p.client.Network(ctx)
	if err != nil {
		return nil, err
	}
	id, err := p.client.Project(ctx)
	if err != nil {
		return nil, err
	}
	read, err := p.routers(ctx, neutron, id)
	if err != nil {
		return nil, err
	}
	all, err := client.List(ctx, "listing ports", ports.List(neutron, ports.ListOpts{ProjectID: id}), ports.ExtractPorts)
	if err != nil {
		return nil, err
	}
	nodes := map[string]bool{}
	for _, i := range instances {
		nodes[i.ID] = i.ID != ""
	}
	servers := serversByAddress(all, nodes)
	var out []v1.Route
	for _, router := range read {
		for _, r := range router.Routes {
			target := servers[r.NextHop]
			if p.options.Router == "" && !nodes[target] {
				continue
			}
			if target == "" {
				target = r.NextHop
			}
			out = append(out, v1.Route{
				Table:  router.ID,
				CIDR:   r.DestinationCIDR,
				Target: target,
				State:  "active",
			})
		}
	}
	slices.SortFunc(out, func(x, y v1.Route) int {
		return strings.Compare(x.Table+" "+x.CIDR+" "+x.Target, y.Table+" "+y.CIDR+" "+y.Target)
	})
	return out, nil
}

func (p *project) routers(
	ctx context.Context,
	neutron *gophercloud.ServiceClient,
	project string,
) ([]routers.Router, error) {
	if p.options.Router != "" {
		router, err := routers.Get(ctx, neutron, p.options.Router).Extract()
		if err != nil {
			return nil, fmt.Errorf("reading router %s: %w", p.options.Router, client.Explain(err))
		}
		return []routers.Router{*router}, nil
	}
	list := routers.List(neutron, routers.ListOpts{ProjectID: project})
	return client.List(ctx, "listing routers", list, routers.ExtractRouters)
}

// serversByAddress are the servers that have addresses. Of two with one address the Node's counts.
func serversByAddress(all []ports.Port, nodes map[string]bool) map[string]string {
	servers := map[string]string{}
	for _, port := range all {
		for _, fixed := range port.FixedIPs {
			if servers[fixed.IPAddress] == "" || nodes[port.DeviceID] {
				servers[fixed.IPAddress] = port.DeviceID
			}
		}
	}
	return servers
}
