package gce

import (
	"context"
	"fmt"
	"path"

	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud/filter"
	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud/meta"
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

// parts are the objects that upstream makes for an external load balancer, in the order in which they can be deleted.
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
	}, l.healthCheck(name), l.firewall(upstream.MakeFirewallName(name))}
	return append(all, l.firewall(upstream.MakeHealthCheckFirewallName("", name, false)))
}

func (l *lane) healthCheck(name string) part {
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

// leftover are the parts of a load balancer that are there. The health check of nodes, which all load balancers share,
// is one where no target pool uses it.
func (l *lane) leftover(ctx context.Context, made *upstream.Cloud, name string) ([]part, error) {
	left, err := l.existing(ctx, l.parts(name))
	if err != nil {
		return nil, err
	}
	cluster, err := made.ClusterID.GetID()
	if err != nil {
		return nil, err
	}
	check := upstream.MakeNodesHealthCheckName(cluster)
	shared, err := l.existing(ctx, []part{
		l.healthCheck(check), l.firewall(upstream.MakeHealthCheckFirewallName(cluster, check, true)),
	})
	if err != nil || len(shared) == 0 {
		return left, err
	}
	pools, err := l.services.TargetPools().List(ctx, l.project.conf.Region, filter.None)
	if err != nil {
		return nil, explain(err, "listing the target pools of region %s", l.project.conf.Region)
	}
	for _, pool := range pools {
		for _, used := range pool.HealthChecks {
			if path.Base(used) == check {
				return left, nil
			}
		}
	}
	return append(left, shared...), nil
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
func (l *lane) sweep(ctx context.Context, made *upstream.Cloud, name string) error {
	left, err := l.leftover(ctx, made, name)
	if err != nil {
		return err
	}
	for _, p := range left {
		if made.OnXPN() && p.what == "firewall rule" {
			continue
		}
		if err := p.remove(ctx); err != nil && !client.IsNotFound(err) {
			return fmt.Errorf("deleting the %s %s: %w", p.what, p.name, err)
		}
	}
	return nil
}
