package cloud

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// none is the answer of methods that return an error alone.
type none = struct{}

// errorOnly makes a method that returns an error alone one that do can call.
func errorOnly(f func(context.Context) error) func(context.Context) (none, error) {
	return func(ctx context.Context) (none, error) { return none{}, f(ctx) }
}

// read is a call that changes nothing.
func (c *caller) read(ctx context.Context, operation string, o object, fallback Class) call {
	return call{operation: operation, object: o, class: classOf(ctx, fallback), timeout: c.options.CallTimeout}
}

// write is a call that changes something, and depends on a fence.
func (c *caller) write(ctx context.Context, operation string, o object, fallback Class, fence *election.Fence) call {
	w := c.read(ctx, operation, o, fallback)
	w.mutates, w.fence = true, fence
	return w
}

// loadBalancer is cloudprovider.LoadBalancer.
type loadBalancer struct {
	guarded  *guarded
	provider cloudprovider.LoadBalancer
}

func balancerOf(service *corev1.Service) object {
	return object{"the load balancer of service", service.Namespace + "/" + service.Name}
}

// change is a call that changes a load balancer.
func (b loadBalancer) change(ctx context.Context, operation string, service *corev1.Service) call {
	c := b.guarded.shell.caller.write(ctx, operation, balancerOf(service), ClassLoadBalancer, b.guarded.fence)
	c.timeout = b.guarded.shell.caller.options.LoadBalancerTimeout
	return c
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (b loadBalancer) GetLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	type answer struct {
		status *corev1.LoadBalancerStatus
		exists bool
	}
	caller := b.guarded.shell.caller
	a, err := do(
		ctx,
		caller,
		caller.read(ctx, "GetLoadBalancer", balancerOf(service), ClassLoadBalancer),
		func(ctx context.Context) (answer, error) {
			status, exists, err := b.provider.GetLoadBalancer(ctx, cluster, service)
			return answer{status, exists}, err
		},
	)
	return a.status, a.exists, err
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer. It can say no error: a provider that panics here gets
// upstream's default for the name.
func (b loadBalancer) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) (name string) {
	defer func() {
		if p := recover(); p != nil {
			logPanic("GetLoadBalancerName", p)
			name = cloudprovider.DefaultLoadBalancerName(service)
		}
	}()
	return b.provider.GetLoadBalancerName(ctx, cluster, service)
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b loadBalancer) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	return do(
		ctx,
		b.guarded.shell.caller,
		b.change(ctx, "EnsureLoadBalancer", service),
		func(ctx context.Context) (*corev1.LoadBalancerStatus, error) {
			return b.provider.EnsureLoadBalancer(ctx, cluster, service, nodes)
		},
	)
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (b loadBalancer) UpdateLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) error {
	_, err := do(
		ctx,
		b.guarded.shell.caller,
		b.change(ctx, "UpdateLoadBalancer", service),
		errorOnly(func(ctx context.Context) error {
			return b.provider.UpdateLoadBalancer(ctx, cluster, service, nodes)
		}),
	)
	return err
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	_, err := do(
		ctx,
		b.guarded.shell.caller,
		b.change(ctx, "EnsureLoadBalancerDeleted", service),
		errorOnly(func(ctx context.Context) error {
			return b.provider.EnsureLoadBalancerDeleted(ctx, cluster, service)
		}),
	)
	return err
}

// routesOf is cloudprovider.Routes.
type routesOf struct {
	guarded  *guarded
	provider cloudprovider.Routes
}

// routeTo names a route by its destination, of which a cloud has one. A route of nil is the provider's to refuse.
func routeTo(route *cloudprovider.Route) object {
	if route == nil {
		return object{kind: "route"}
	}
	return object{"the route to", route.DestinationCIDR}
}

// ListRoutes implements cloudprovider.Routes.
func (r routesOf) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	caller := r.guarded.shell.caller
	c := caller.read(ctx, "ListRoutes", object{"the routes of cluster", cluster}, ClassRoute)
	return do(ctx, caller, c, func(ctx context.Context) ([]*cloudprovider.Route, error) {
		return r.provider.ListRoutes(ctx, cluster)
	})
}

// CreateRoute implements cloudprovider.Routes.
func (r routesOf) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	caller := r.guarded.shell.caller
	_, err := do(
		ctx,
		caller,
		caller.write(ctx, "CreateRoute", routeTo(route), ClassRoute, r.guarded.fence),
		errorOnly(func(ctx context.Context) error {
			return r.provider.CreateRoute(ctx, cluster, hint, route)
		}),
	)
	return err
}

// DeleteRoute implements cloudprovider.Routes.
func (r routesOf) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	caller := r.guarded.shell.caller
	_, err := do(
		ctx,
		caller,
		caller.write(ctx, "DeleteRoute", routeTo(route), ClassRoute, r.guarded.fence),
		errorOnly(func(ctx context.Context) error {
			return r.provider.DeleteRoute(ctx, cluster, route)
		}),
	)
	return err
}

// zonesOf is cloudprovider.Zones.
type zonesOf struct {
	caller   *caller
	provider cloudprovider.Zones
	retries  bool
}

func (z zonesOf) read(ctx context.Context, operation string, o object) call {
	c := z.caller.read(ctx, operation, o, ClassNode)
	c.retries = z.retries
	return c
}

// GetZone implements cloudprovider.Zones.
func (z zonesOf) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return do(ctx, z.caller, z.caller.read(ctx, "GetZone", object{kind: "this machine"}, ClassOther), z.provider.GetZone)
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (z zonesOf) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	return do(
		ctx,
		z.caller,
		z.read(ctx, "GetZoneByProviderID", instance(id)),
		func(ctx context.Context) (cloudprovider.Zone, error) {
			return z.provider.GetZoneByProviderID(ctx, id)
		},
	)
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (z zonesOf) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return do(
		ctx,
		z.caller,
		z.read(ctx, "GetZoneByNodeName", nodeNamed(string(name))),
		func(ctx context.Context) (cloudprovider.Zone, error) {
			return z.provider.GetZoneByNodeName(ctx, name)
		},
	)
}

// clustersOf is cloudprovider.Clusters.
type clustersOf struct {
	caller   *caller
	provider cloudprovider.Clusters
}

// ListClusters implements cloudprovider.Clusters.
func (c clustersOf) ListClusters(ctx context.Context) ([]string, error) {
	return do(
		ctx,
		c.caller,
		c.caller.read(ctx, "ListClusters", object{kind: "all clusters"}, ClassOther),
		c.provider.ListClusters,
	)
}

// Master implements cloudprovider.Clusters.
func (c clustersOf) Master(ctx context.Context, cluster string) (string, error) {
	return do(
		ctx,
		c.caller,
		c.caller.read(ctx, "Master", object{"cluster", cluster}, ClassOther),
		func(ctx context.Context) (string, error) {
			return c.provider.Master(ctx, cluster)
		},
	)
}

func instance(providerID string) object { return object{"the instance", providerID} }

func nodeNamed(name string) object { return object{"the instance of node", name} }

// listing is a call for the instances of many nodes.
func (c *caller) listing(ctx context.Context, nodes []*corev1.Node) call {
	o := object{kind: "no nodes"}
	switch len(nodes) {
	case 0:
	case 1:
		o = nodeNamed(nodes[0].Name)
	default:
		o = object{fmt.Sprintf("the instances of %d nodes, the first of which is", len(nodes)), nodes[0].Name}
	}
	return c.read(ctx, "ListInstances", o, ClassNode)
}
