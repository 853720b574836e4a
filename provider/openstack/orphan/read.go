package orphan

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
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/inventory"
)

// facts are what is known of the project and the cluster at one time.
type facts struct {
	cloudprogram.OrphanQuestion

	cluster          string // the name of the cluster; empty where it was not given
	octavia, neutron *gophercloud.ServiceClient
	nodes            map[string]string // the names of nodes by the IDs of their servers
	doubted          map[string]string // why a server is not believed to be a node's, by its ID
	balancers        map[string]*balancer
	ports            []ports.Port
	floating         []floatingips.FloatingIP
	groups           []groups.SecGroup
	rules            []rules.SecGroupRule
}

// balancer is a load balancer with what is below it.
type balancer struct {
	loadbalancers.LoadBalancer

	listeners []listeners.Listener
	members   []string // addresses
}

func readFacts(ctx context.Context, c *client.Client, nodes []v1.Node, q cloudprogram.OrphanQuestion) (*facts, error) {
	f := &facts{OrphanQuestion: q, balancers: map[string]*balancer{}}
	f.believe(nodes)
	project, err := c.Project(ctx)
	if err != nil {
		return nil, err
	}
	if f.octavia, err = c.LoadBalancer(ctx); err != nil {
		return nil, err
	}
	if f.neutron, err = c.Network(ctx); err != nil {
		return nil, err
	}
	// Load balancers first: the port of one that is gone then must not be seen any more, or its groups would stay.
	for _, id := range q.IDs {
		if err := f.readBalancer(ctx, id, project); err != nil {
			return nil, err
		}
	}
	return f, f.readNetwork(ctx, project)
}

// believe notes which servers are nodes of the cluster. Who writes a providerID may be wrong, and the load balancer of
// another cluster would be deleted by it. The UUID of a machine is that of its server, and the kubelet reads it there.
func (f *facts) believe(nodes []v1.Node) {
	f.nodes, f.doubted = map[string]string{}, map[string]string{}
	for _, n := range nodes {
		id := inventory.ServerOf(n.ProviderID)
		switch {
		case id == "":
		case strings.EqualFold(n.SystemUUID, id):
			f.nodes[id] = n.Name
		case n.SystemUUID == "":
			f.doubted[id] = "the providerID of Node " + n.Name + " names it, and no kubelet there has said the UUID of its machine"
		default:
			f.doubted[id] = "the providerID of Node " + n.Name + " names it, and the machine there has the UUID " + n.SystemUUID
		}
	}
}

// isOurs reports whether a server is a node of the cluster. One that is doubted is believed to the user alone.
func (f *facts) isOurs(server string) bool {
	return f.nodes[server] != "" || f.AssumeOwned && f.doubted[server] != ""
}

// readNetwork reads what Neutron has for the project. Other projects have ports of their own with the same addresses.
func (f *facts) readNetwork(ctx context.Context, project string) (err error) {
	of := ports.List(f.neutron, ports.ListOpts{ProjectID: project})
	if f.ports, err = client.List(ctx, "listing ports", of, ports.ExtractPorts); err != nil {
		return err
	}
	ips := floatingips.List(f.neutron, floatingips.ListOpts{ProjectID: project})
	if f.floating, err = client.List(ctx, "listing floating IPs", ips, floatingips.ExtractFloatingIPs); err != nil {
		return err
	}
	named := groups.List(f.neutron, groups.ListOpts{ProjectID: project})
	if f.groups, err = client.List(ctx, "listing security groups", named, groups.ExtractGroups); err != nil {
		return err
	}
	ruled := rules.List(f.neutron, rules.ListOpts{ProjectID: project})
	f.rules, err = client.List(ctx, "listing rules of security groups", ruled, rules.ExtractRules)
	return err
}

// readBalancer reads a load balancer, if there is one of that ID in the project.
func (f *facts) readBalancer(ctx context.Context, id, project string) error {
	reading := "reading load balancer " + id
	lb, err := loadbalancers.Get(ctx, f.octavia, id).Extract()
	switch {
	case client.NotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", reading, client.Explain(err))
	case lb.ProvisioningStatus == "DELETED", lb.ProjectID != project:
		return nil
	}
	b := &balancer{LoadBalancer: *lb}
	below := listeners.List(f.octavia, listeners.ListOpts{LoadbalancerID: id})
	if b.listeners, err = client.List(ctx, reading, below, listeners.ExtractListeners); err != nil {
		return err
	}
	pooled := pools.List(f.octavia, pools.ListOpts{LoadbalancerID: id})
	all, err := client.List(ctx, reading, pooled, pools.ExtractPools)
	if err != nil {
		return err
	}
	for _, p := range all {
		list := pools.ListMembers(f.octavia, p.ID, pools.ListMembersOpts{})
		members, err := client.List(ctx, reading, list, pools.ExtractMembers)
		if err != nil {
			return err
		}
		for _, m := range members {
			b.members = append(b.members, m.Address)
		}
	}
	slices.Sort(b.members)
	b.members = slices.Compact(b.members)
	f.balancers[id] = b
	return nil
}

// servers are those that have an address, in any network of the project.
func (f *facts) servers(address string) (ids []string) {
	for _, p := range f.ports {
		if p.DeviceID == "" || !strings.HasPrefix(p.DeviceOwner, "compute:") {
			continue
		}
		has := slices.ContainsFunc(p.FixedIPs, func(ip ports.IP) bool { return ip.IPAddress == address })
		if has && !slices.Contains(ids, p.DeviceID) {
			ids = append(ids, p.DeviceID)
		}
	}
	return ids
}

// port is the port of an ID; nil for none in the project.
func (f *facts) port(id string) *ports.Port {
	if i := slices.IndexFunc(f.ports, func(p ports.Port) bool { return p.ID == id && id != "" }); i >= 0 {
		return &f.ports[i]
	}
	return nil
}

// serviceThere is the Service of the cluster for which matches is true; empty for none.
func (f *facts) serviceThere(matches func(cloudprogram.OrphanService) bool) string {
	if i := slices.IndexFunc(f.Services, matches); i >= 0 {
		return f.Services[i].Namespace + "/" + f.Services[i].Name
	}
	return ""
}
