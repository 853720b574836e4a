package inventory

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/naming"
)

// floating are the floating IPs of the project.
func (p *project) floating(ctx context.Context) ([]floatingips.FloatingIP, error) {
	neutron, err := p.client.Network(ctx)
	if err != nil {
		return nil, err
	}
	id, err := p.client.Project(ctx)
	if err != nil {
		return nil, err
	}
	list := floatingips.List(neutron, floatingips.ListOpts{ProjectID: id})
	return client.List(ctx, "listing floating IPs", list, floatingips.ExtractFloatingIPs)
}

// leftovers are floating IPs without a port that a manager has made, and the security groups of Services. Whether the
// Services are still there is not known here.
func (p *project) leftovers(ctx context.Context, floating []floatingips.FloatingIP) ([]v1.CloudLeftover, error) {
	var out []v1.CloudLeftover
	for _, ip := range floating {
		owner, made := naming.OfFloatingIP(ip.Description)
		if !made || ip.PortID != "" || p.options.Cluster != "" && owner.Cluster != p.options.Cluster {
			continue
		}
		out = append(out, v1.CloudLeftover{
			Kind: "floating IP", ID: ip.ID, Name: ip.FloatingIP, Service: owner.Service(),
		})
	}
	neutron, err := p.client.Network(ctx)
	if err != nil {
		return out, err
	}
	id, err := p.client.Project(ctx)
	if err != nil {
		return out, err
	}
	list := groups.List(neutron, groups.ListOpts{ProjectID: id})
	all, err := client.List(ctx, "listing security groups", list, groups.ExtractGroups)
	if err != nil {
		return out, err
	}
	for _, group := range all {
		if uid, _, ok := naming.OfGroup(group.Name); ok {
			out = append(out, v1.CloudLeftover{
				Kind: "security group",
				ID:   group.ID,
				Name: group.Name,
				UID:  uid,
			})
		}
	}
	return out, nil
}
