package inventory

import (
	"context"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// made are the descriptions of floating IPs that our provider and the external one make. In-tree ones have none.
var made = regexp.MustCompile(`^Floating IP for Kubernetes external service ([^/ ]+/[^/ ]+) from cluster (.*)$`)

// groupName is what both providers call a Service's security group: by the uid, the namespace and the name.
var groupName = regexp.MustCompile(`^lb-sg-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-`)

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
		match := made.FindStringSubmatch(ip.Description)
		if match == nil || ip.PortID != "" || p.options.Cluster != "" && match[2] != p.options.Cluster {
			continue
		}
		out = append(out, v1.CloudLeftover{Kind: "floating IP", ID: ip.ID, Name: ip.FloatingIP, Service: match[1]})
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
		if match := groupName.FindStringSubmatch(strings.ToLower(group.Name)); match != nil {
			out = append(out, v1.CloudLeftover{Kind: "security group", ID: group.ID, Name: group.Name, UID: match[1]})
		}
	}
	return out, nil
}
