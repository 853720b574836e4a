package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// call is what a controller has called of the cloud.
type call struct {
	name, object, arguments string
	changes                 bool // the cloud, and does not only ask it
}

func (c call) String() string { return strings.TrimSpace(c.name + " " + c.object + " " + c.arguments) }

// recorder is a provider whose calls are kept, and made to fail.
type recorder struct {
	cloudprovider.Interface

	mu       sync.Mutex
	calls    []call
	failures failures
}

func (r *recorder) recordCall(c call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	return r.failures.next(c.name)
}

func (r *recorder) setFailure(name string, times int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures.set(name, times, err)
}

// LoadBalancer implements cloudprovider.Interface.
func (r *recorder) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, ok := r.Interface.LoadBalancer()
	return recordedBalancers{inner, r}, ok
}

// Instances implements cloudprovider.Interface.
func (r *recorder) Instances() (cloudprovider.Instances, bool) {
	inner, ok := r.Interface.Instances()
	return recordedInstances{inner, r}, ok
}

// InstancesV2 implements cloudprovider.Interface.
func (r *recorder) InstancesV2() (cloudprovider.InstancesV2, bool) {
	inner, ok := r.Interface.InstancesV2()
	return recordedInstancesV2{inner, r}, ok
}

// Zones implements cloudprovider.Interface.
func (r *recorder) Zones() (cloudprovider.Zones, bool) {
	inner, ok := r.Interface.Zones()
	return recordedZones{inner, r}, ok
}

// Routes implements cloudprovider.Interface.
func (r *recorder) Routes() (cloudprovider.Routes, bool) {
	inner, ok := r.Interface.Routes()
	return recordedRoutes{inner, r}, ok
}

// hosts are the nodes that a load balancer is told of.
func hosts(nodes []*corev1.Node) string {
	names := []string{}
	for _, n := range nodes {
		names = append(names, n.Name+"="+n.Spec.ProviderID)
	}
	slices.Sort(names)
	return "[" + strings.Join(names, " ") + "]"
}

// asked is what a provider reads of a Service.
func asked(s *corev1.Service) string {
	var ports []string
	for _, p := range s.Spec.Ports {
		app := ""
		if p.AppProtocol != nil {
			app = "/" + *p.AppProtocol
		}
		ports = append(ports, fmt.Sprintf("%s:%d:%d/%s%s", p.Name, p.Port, p.NodePort, p.Protocol, app))
	}
	return fmt.Sprintf(
		"type=%s ports=%v ip=%s ranges=%v affinity=%s policy=%s check=%d families=%v annotations=%v",
		s.Spec.Type, ports, s.Spec.LoadBalancerIP, s.Spec.LoadBalancerSourceRanges, s.Spec.SessionAffinity,
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort, s.Spec.IPFamilies, s.Annotations,
	)
}

type recordedBalancers struct {
	cloudprovider.LoadBalancer
	r *recorder
}

func (b recordedBalancers) GetLoadBalancer(
	ctx context.Context, cluster string, s *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	if err := b.r.recordCall(call{name: "GetLoadBalancer", object: s.Name, arguments: cluster}); err != nil {
		return nil, false, err
	}
	return b.LoadBalancer.GetLoadBalancer(ctx, cluster, s)
}

func (b recordedBalancers) EnsureLoadBalancer(
	ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	c := call{"EnsureLoadBalancer", s.Name, strings.Join([]string{cluster, asked(s), hosts(nodes)}, " "), true}
	if err := b.r.recordCall(c); err != nil {
		return nil, err
	}
	return b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, s, nodes)
}

func (b recordedBalancers) UpdateLoadBalancer(
	ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node,
) error {
	if err := b.r.recordCall(call{"UpdateLoadBalancer", s.Name, cluster + " " + hosts(nodes), true}); err != nil {
		return err
	}
	return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, s, nodes)
}

func (b recordedBalancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, s *corev1.Service) error {
	if err := b.r.recordCall(call{"EnsureLoadBalancerDeleted", s.Name, cluster, true}); err != nil {
		return err
	}
	return b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, s)
}

type recordedInstancesV2 struct {
	cloudprovider.InstancesV2
	r *recorder
}

func (i recordedInstancesV2) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if err := i.r.recordCall(call{name: "InstanceExists", object: node.Name}); err != nil {
		return false, err
	}
	return i.InstancesV2.InstanceExists(ctx, node)
}

func (i recordedInstancesV2) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	if err := i.r.recordCall(call{name: "InstanceShutdown", object: node.Name}); err != nil {
		return false, err
	}
	return i.InstancesV2.InstanceShutdown(ctx, node)
}

func (i recordedInstancesV2) InstanceMetadata(
	ctx context.Context, node *corev1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	if err := i.r.recordCall(call{name: "InstanceMetadata", object: node.Name}); err != nil {
		return nil, err
	}
	return i.InstancesV2.InstanceMetadata(ctx, node)
}

type recordedInstances struct {
	cloudprovider.Instances
	r *recorder
}

func (i recordedInstances) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	if err := i.r.recordCall(call{name: "NodeAddresses", object: string(name)}); err != nil {
		return nil, err
	}
	return i.Instances.NodeAddresses(ctx, name)
}

func (i recordedInstances) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	if err := i.r.recordCall(call{name: "NodeAddressesByProviderID", object: id}); err != nil {
		return nil, err
	}
	return i.Instances.NodeAddressesByProviderID(ctx, id)
}

func (i recordedInstances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	if err := i.r.recordCall(call{name: "InstanceID", object: string(name)}); err != nil {
		return "", err
	}
	return i.Instances.InstanceID(ctx, name)
}

func (i recordedInstances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	if err := i.r.recordCall(call{name: "InstanceType", object: string(name)}); err != nil {
		return "", err
	}
	return i.Instances.InstanceType(ctx, name)
}

func (i recordedInstances) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	if err := i.r.recordCall(call{name: "InstanceTypeByProviderID", object: id}); err != nil {
		return "", err
	}
	return i.Instances.InstanceTypeByProviderID(ctx, id)
}

func (i recordedInstances) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	if err := i.r.recordCall(call{name: "InstanceExistsByProviderID", object: id}); err != nil {
		return false, err
	}
	return i.Instances.InstanceExistsByProviderID(ctx, id)
}

func (i recordedInstances) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	if err := i.r.recordCall(call{name: "InstanceShutdownByProviderID", object: id}); err != nil {
		return false, err
	}
	return i.Instances.InstanceShutdownByProviderID(ctx, id)
}

type recordedZones struct {
	cloudprovider.Zones
	r *recorder
}

func (z recordedZones) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	if err := z.r.recordCall(call{name: "GetZoneByProviderID", object: id}); err != nil {
		return cloudprovider.Zone{}, err
	}
	return z.Zones.GetZoneByProviderID(ctx, id)
}

func (z recordedZones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	if err := z.r.recordCall(call{name: "GetZoneByNodeName", object: string(name)}); err != nil {
		return cloudprovider.Zone{}, err
	}
	return z.Zones.GetZoneByNodeName(ctx, name)
}

type recordedRoutes struct {
	cloudprovider.Routes
	r *recorder
}

// described is a route as a provider is asked for it.
func described(route *cloudprovider.Route) string {
	return fmt.Sprintf("to %s addresses=%v blackhole=%t", route.TargetNode, route.TargetNodeAddresses, route.Blackhole)
}

func (o recordedRoutes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	if err := o.r.recordCall(call{name: "ListRoutes", arguments: cluster}); err != nil {
		return nil, err
	}
	return o.Routes.ListRoutes(ctx, cluster)
}

func (o recordedRoutes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	if err := o.r.recordCall(
		call{"CreateRoute", route.DestinationCIDR, cluster + " hint=" + hint + " " + described(route), true},
	); err != nil {
		return err
	}
	return o.Routes.CreateRoute(ctx, cluster, hint, route)
}

func (o recordedRoutes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	if err := o.r.recordCall(
		call{"DeleteRoute", route.DestinationCIDR, cluster + " " + route.Name + " " + described(route), true},
	); err != nil {
		return err
	}
	return o.Routes.DeleteRoute(ctx, cluster, route)
}
