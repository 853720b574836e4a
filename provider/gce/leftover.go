package gce

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud/filter"
	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud/meta"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	upstream "k8s.io/cloud-provider-gcp/providers/gce"

	"github.com/transplant-dev/transplant/provider/gce/client"
)

// part is an object of a load balancer.
type part struct {
	what   string
	name   string
	exists func(context.Context) error
	remove func(context.Context) error
}

// parts are the objects that upstream makes for one load balancer, external or internal, in the order in which they can
// be deleted.
func (l *lane) parts(name string) []part {
	c, region := l.services, meta.RegionalKey(name, l.project.conf.Region)
	all := []part{{
		"forwarding rule", name,
		func(ctx context.Context) error { _, err := c.ForwardingRules().Get(ctx, region); return err },
		func(ctx context.Context) error { return c.ForwardingRules().Delete(ctx, region) },
	}, {
		"target pool", name,
		func(ctx context.Context) error { _, err := c.TargetPools().Get(ctx, region); return err },
		func(ctx context.Context) error { return c.TargetPools().Delete(ctx, region) },
	}, {
		"address", name,
		func(ctx context.Context) error { _, err := c.Addresses().Get(ctx, region); return err },
		func(ctx context.Context) error { return c.Addresses().Delete(ctx, region) },
	}, {
		"backend service", name,
		func(ctx context.Context) error {
			_, err := c.RegionBackendServices().Get(ctx, region)
			return err
		},
		func(ctx context.Context) error { return c.RegionBackendServices().Delete(ctx, region) },
	}, l.httpHealthCheck(name), l.healthCheck(name)}
	for _, rule := range []string{
		upstream.MakeFirewallName(name), name,
		upstream.MakeHealthCheckFirewallName("", name, false), name + internalCheckSuffix,
	} {
		all = append(all, l.firewall(rule))
	}
	return all
}

// internalCheckSuffix ends the name of the firewall rule for the health check of an internal load balancer.
const internalCheckSuffix = "-hc"

func (l *lane) healthCheck(name string) part {
	c, key := l.services, meta.GlobalKey(name)
	return part{
		"health check", name,
		func(ctx context.Context) error { _, err := c.HealthChecks().Get(ctx, key); return err },
		func(ctx context.Context) error { return c.HealthChecks().Delete(ctx, key) },
	}
}

func (l *lane) httpHealthCheck(name string) part {
	c, key := l.services, meta.GlobalKey(name)
	return part{
		"HTTP health check", name,
		func(ctx context.Context) error { _, err := c.HttpHealthChecks().Get(ctx, key); return err },
		func(ctx context.Context) error { return c.HttpHealthChecks().Delete(ctx, key) },
	}
}

func (l *lane) firewall(name string) part {
	c, key := l.services, meta.GlobalKey(name)
	return part{
		"firewall rule", name,
		func(ctx context.Context) error { _, err := c.Firewalls().Get(ctx, key); return err },
		func(ctx context.Context) error { return c.Firewalls().Delete(ctx, key) },
	}
}

// leftover are the parts of a Service's load balancer that are there. Load balancers of a kind share the health check
// of nodes, and internal ones their instance groups. They are parts where no load balancer uses them.
func (l *lane) leftover(ctx context.Context, made *upstream.Cloud, service *corev1.Service) ([]part, error) {
	left, err := l.existing(ctx, l.parts(cloudprovider.DefaultLoadBalancerName(service)))
	if err != nil {
		return nil, err
	}
	cluster, err := made.ClusterID.GetID()
	if err != nil {
		return nil, err
	}
	find := l.unusedCheck
	if isInternal(service) {
		find = l.unusedInternal
	}
	shared, err := find(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return append(left, shared...), nil
}

func isInternal(service *corev1.Service) bool {
	return upstream.GetLoadBalancerAnnotationType(service) == upstream.LBTypeInternal
}

// unusedCheck is the health check of the nodes of external load balancers, and its firewall rule, where no target pool
// uses it.
func (l *lane) unusedCheck(ctx context.Context, cluster string) ([]part, error) {
	check := upstream.MakeNodesHealthCheckName(cluster)
	shared, err := l.existing(ctx, []part{
		l.httpHealthCheck(check), l.firewall(upstream.MakeHealthCheckFirewallName(cluster, check, true)),
	})
	if err != nil || len(shared) == 0 {
		return nil, err
	}
	pools, err := l.services.TargetPools().List(ctx, l.project.conf.Region, filter.None)
	if err != nil {
		return nil, explain(err, "listing the target pools of region %s", l.project.conf.Region)
	}
	for _, pool := range pools {
		for _, used := range pool.HealthChecks {
			if path.Base(used) == check {
				return nil, nil
			}
		}
	}
	return shared, nil
}

// unusedInternal is what internal load balancers share and no backend service of the region uses. It is the health
// check of nodes with its firewall rule, and the instance groups. Compute Engine refuses to delete a group of an
// Ingress.
func (l *lane) unusedInternal(ctx context.Context, cluster string) ([]part, error) {
	zones, err := l.project.managedZones(ctx)
	if err != nil {
		return nil, err
	}
	backends, err := l.services.RegionBackendServices().List(ctx, l.project.conf.Region, filter.None)
	if err != nil {
		return nil, explain(err, "listing the backend services of region %s", l.project.conf.Region)
	}
	used := map[string]bool{}
	for _, backend := range backends {
		for _, check := range backend.HealthChecks {
			used[path.Base(check)] = true
		}
		for _, group := range backend.Backends {
			if path.Base(group.Group) == groupPrefix+cluster {
				used[path.Base(path.Dir(path.Dir(group.Group)))] = true // zones/ZONE/instanceGroups/NAME
			}
		}
	}
	all := l.groups(cluster, slices.DeleteFunc(slices.Clone(zones), func(zone string) bool { return used[zone] }))
	if check := upstream.MakeNodesHealthCheckName(cluster); !used[check] {
		all = append(all, l.healthCheck(check), l.firewall(check+internalCheckSuffix))
	}
	return l.existing(ctx, all)
}

func (l *lane) existing(ctx context.Context, all []part) (there []part, err error) {
	for _, p := range all {
		switch err := p.exists(ctx); {
		case err == nil:
			there = append(there, p)
		case !client.IsNotFound(err):
			return nil, explain(err, "reading the %s %s", p.what, p.name)
		}
	}
	return there, nil
}

// sweep deletes what is left of a load balancer. Firewall rules of a shared network are left to its administrators.
func (l *lane) sweep(ctx context.Context, made *upstream.Cloud, service *corev1.Service) error {
	left, err := l.leftover(ctx, made, service)
	if err != nil {
		return err
	}
	if made.OnXPN() {
		left = slices.DeleteFunc(left, func(p part) bool { return p.what == "firewall rule" })
	}
	return removeParts(ctx, left, client.IsInUse)
}

// removeParts deletes parts of load balancers. It leaves those alone whose deletion is refused for a reason that
// mayStay takes.
func removeParts(ctx context.Context, left []part, mayStay func(error) bool) error {
	for _, p := range left {
		if err := p.remove(ctx); err != nil && !client.IsNotFound(err) && !mayStay(err) {
			return fmt.Errorf("deleting the %s %s: %w", p.what, p.name, err)
		}
	}
	return nil
}

// groupPrefix begins the name of the instance groups of a cluster, which internal load balancers and Ingresses share.
const groupPrefix = "k8s-ig--"

// groups are the instance groups of internal load balancers, one a zone.
func (l *lane) groups(cluster string, zones []string) (all []part) {
	for _, zone := range zones {
		c, key := l.services.InstanceGroups(), meta.ZonalKey(groupPrefix+cluster, zone)
		all = append(all, part{
			"instance group of zone " + zone, key.Name,
			func(ctx context.Context) error { _, err := c.Get(ctx, key); return err },
			func(ctx context.Context) error { return c.Delete(ctx, key) },
		})
	}
	return all
}

// leaveZones deletes the instance groups of zones in which no node is left. Upstream keeps them with the members that
// they had. A group that another load balancer still has stays, until that one is brought up to date.
func (l *lane) leaveZones(
	ctx context.Context,
	made *upstream.Cloud,
	service *corev1.Service,
	members []*corev1.Node,
) error {
	isOthers := made.AlphaFeatureGate.Enabled(upstream.AlphaFeatureSkipIGsManagement)
	if !isInternal(service) || isOthers || len(members) == 0 {
		return nil
	}
	cluster, err := made.ClusterID.GetID()
	if err != nil {
		return err
	}
	zones, err := l.project.managedZones(ctx)
	if err != nil {
		return err
	}
	empty := slices.DeleteFunc(slices.Clone(zones), func(zone string) bool {
		isIn := func(n *corev1.Node) bool { return n.Labels[corev1.LabelTopologyZone] == zone }
		return slices.ContainsFunc(members, isIn)
	})
	left, err := l.existing(ctx, l.groups(cluster, empty))
	if err != nil {
		return err
	}
	return removeParts(ctx, left, client.IsInUse)
}
