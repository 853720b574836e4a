package gce

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	compute "google.golang.org/api/compute/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudprovider "k8s.io/cloud-provider"
	upstream "k8s.io/cloud-provider-gcp/providers/gce"

	"github.com/transplant-dev/transplant/provider/gce/client"
	"github.com/transplant-dev/transplant/provider/transport"
)

var everything = labels.Everything()

// loadBalancers are upstream's. They are not found when the forwarding rule is gone, whatever else is left, and lose
// members that a list of instances lacks. Both is looked at here.
type loadBalancers struct {
	project  *project
	upstream *lane
}

func newLoadBalancers(p *project, i *instances) *loadBalancers {
	return &loadBalancers{project: p, upstream: newLane(p, i)}
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer: the name is the same as the in-tree provider's.
func (b *loadBalancers) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func isLeaving(service *corev1.Service) bool {
	return service.DeletionTimestamp != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. The load balancer of a Service that is leaving exists as long
// as one of its parts does, so that the controller has it removed.
func (b *loadBalancers) GetLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	project, err := b.project.name(ctx)
	if err != nil {
		return nil, false, err
	}
	name := b.GetLoadBalancerName(ctx, cluster, service)
	rule, err := b.project.compute().ForwardingRules.Get(project, b.project.conf.Region, name).Context(ctx).Do()
	switch {
	case err == nil:
		return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: rule.IPAddress}}}, true, nil
	case !client.IsNotFound(err):
		return nil, false, explain(err, "reading the forwarding rule %s of Service %q", name, service.Name)
	case slices.Contains(service.Finalizers, upstream.ILBFinalizerV1):
		return &corev1.LoadBalancerStatus{}, true, nil
	case !isLeaving(service):
		return nil, false, nil
	}
	var left []part
	err = b.upstream.call(ctx, func(ctx context.Context, made *upstream.Cloud) error {
		left, err = b.upstream.leftover(ctx, made, service)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return &corev1.LoadBalancerStatus{}, len(left) > 0, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b *loadBalancers) EnsureLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) (status *corev1.LoadBalancerStatus, err error) {
	if err := validateService(service); err != nil {
		return nil, err
	}
	ctx, correct := transport.Watch(ctx)
	if err := b.knowZones(ctx, nodes); err != nil {
		return nil, err
	}
	err = b.upstream.call(ctx, func(ctx context.Context, made *upstream.Cloud) error {
		members, err := b.members(ctx, nodes)
		if err != nil {
			return err
		}
		status, err = made.EnsureLoadBalancer(ctx, cluster, service, members)
		if err == nil {
			err = b.upstream.leaveZones(ctx, made, service, members)
		}
		return err
	})
	if err = correct(err); err != nil {
		return nil, err
	}
	return status, nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. A load balancer that the in-tree provider has made for a
// Service that EnsureLoadBalancer refuses keeps its members.
func (b *loadBalancers) UpdateLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) error {
	ctx, correct := transport.Watch(ctx)
	if err := b.knowZones(ctx, nodes); err != nil {
		return err
	}
	return correct(b.upstream.call(ctx, func(ctx context.Context, made *upstream.Cloud) error {
		members, err := b.members(ctx, nodes)
		if err != nil {
			return err
		}
		if err := made.UpdateLoadBalancer(ctx, cluster, service, members); err != nil {
			return err
		}
		return b.upstream.leaveZones(ctx, made, service, members)
	}))
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer. What upstream leaves behind after a call that ended
// in its middle is deleted here.
func (b *loadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	ctx, correct := transport.Watch(ctx)
	return correct(b.upstream.call(ctx, func(ctx context.Context, made *upstream.Cloud) error {
		if err := made.EnsureLoadBalancerDeleted(ctx, cluster, service); err != nil {
			return err
		}
		return b.upstream.sweep(ctx, made, service)
	}))
}

// knowZones has the zones of Nodes known that the region has got since they were listed.
func (b *loadBalancers) knowZones(ctx context.Context, nodes []*corev1.Node) error {
	var zones []string
	for _, node := range nodes {
		if parts := providerID.FindStringSubmatch(node.Spec.ProviderID); parts != nil {
			zones = append(zones, parts[2])
		}
	}
	_, err := b.upstream.project.managedZones(ctx, zones...)
	return err
}

// withZone is a Node with the label of its zone. Upstream leaves one without it out of internal load balancers.
func withZone(node *corev1.Node, zone string) *corev1.Node {
	if node.Labels[corev1.LabelTopologyZone] == zone {
		return node
	}
	node = node.DeepCopy()
	metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelTopologyZone, zone)
	return node
}

// members are the nodes whose instances exist. Upstream leaves those out that its list lacks, and does not say so. A
// node whose instance is not known, or is in a zone that upstream does not list, is an error.
func (b *loadBalancers) members(ctx context.Context, nodes []*corev1.Node) (members []*corev1.Node, err error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	list, err := b.upstream.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		instance, err := list.find(ctx, node)
		if err != nil {
			return nil, fmt.Errorf("finding the members of the load balancer: %w", err)
		}
		if instance == nil {
			continue
		}
		at, _ := placeOf(list.project, node)
		if at.zone != "" && !slices.Contains(list.zones, at.zone) {
			return nil, fmt.Errorf("node %q is in zone %s, and load balancers have instances of %v alone: %s",
				node.Name, at.zone, list.zones, b.upstream.project.zoneRemedy())
		}
		members = append(members, withZone(node, path.Base(instance.Zone)))
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("none of the %d nodes has an instance in project %s: the load balancer keeps its members. "+
			"Check the project and the zones of the cloud config", len(nodes), list.project)
	}
	return members, nil
}

// ServiceBalancer is a load balancer that a manager has made for a Service of some cluster.
type ServiceBalancer struct {
	Rule *compute.ForwardingRule
	// Members are the names of instances.
	Members []string
}

// balancerName is upstream's name of a load balancer: "a" and the UID of the Service, cut.
var balancerName = regexp.MustCompile(`^a[0-9a-f]{31}$`)

// ServiceBalancers are the load balancers of the region that a manager has made. Those that are made by hand, and those
// of Ingresses, have other names.
func (c *Cloud) ServiceBalancers(ctx context.Context) (out []ServiceBalancer, err error) {
	name, err := c.project.name(ctx)
	if err != nil {
		return nil, err
	}
	region := c.project.conf.Region
	err = c.project.compute().ForwardingRules.List(name, region).Pages(ctx, func(page *compute.ForwardingRuleList) error {
		for _, rule := range page.Items {
			if balancerName.MatchString(rule.Name) {
				out = append(out, ServiceBalancer{Rule: rule})
			}
		}
		return incomplete(page.Warning)
	})
	if err != nil {
		return nil, explain(err, "listing the forwarding rules of region %s of project %s", region, name)
	}
	groups := map[string][]string{}
	for i := range out {
		out[i].Members, err = c.membersOf(ctx, name, out[i].Rule, groups)
		if err != nil {
			return nil, explain(err, "reading the members of load balancer %s", out[i].Rule.Name)
		}
	}
	return out, nil
}

// membersOf are the instances behind a forwarding rule: those of its target pool, or of the instance groups of its
// backend service. Groups are read once.
func (c *Cloud) membersOf(
	ctx context.Context,
	project string,
	rule *compute.ForwardingRule,
	groups map[string][]string,
) (members []string, err error) {
	region := c.project.conf.Region
	if rule.BackendService == "" {
		pool, err := c.project.compute().TargetPools.Get(project, region, path.Base(rule.Target)).Context(ctx).Do()
		if err != nil {
			return nil, err
		}
		for _, link := range pool.Instances {
			members = append(members, path.Base(link))
		}
		return members, nil
	}
	backends := c.project.compute().RegionBackendServices
	service, err := backends.Get(project, region, path.Base(rule.BackendService)).Context(ctx).Do()
	if err != nil {
		return nil, err
	}
	for _, backend := range service.Backends {
		if groups[backend.Group] == nil {
			if groups[backend.Group], err = c.instancesOf(ctx, project, backend.Group); err != nil {
				return nil, err
			}
		}
		members = append(members, groups[backend.Group]...)
	}
	slices.Sort(members)
	return slices.Compact(members), nil
}

// instancesOf are the instances of a group, whose address ends in zones/ZONE/instanceGroups/NAME.
func (c *Cloud) instancesOf(ctx context.Context, project, group string) (names []string, err error) {
	parts := strings.Split(group, "/")
	names = []string{}
	if len(parts) < 3 {
		return names, nil
	}
	zone, name := parts[len(parts)-3], parts[len(parts)-1]
	all := &compute.InstanceGroupsListInstancesRequest{InstanceState: "ALL"}
	err = c.project.compute().InstanceGroups.ListInstances(project, zone, name, all).Pages(ctx,
		func(page *compute.InstanceGroupsListInstances) error {
			for _, i := range page.Items {
				names = append(names, path.Base(i.Instance))
			}
			return incomplete(page.Warning)
		})
	return names, err
}
