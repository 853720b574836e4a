package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// Instance is what the simulated cloud knows of a node.
type Instance struct {
	cloudprovider.InstanceMetadata
	Shutdown bool
	// NoMetadata has the cloud answer with no metadata and no error.
	NoMetadata bool
}

// Cloud is the simulated cloud of a scenario.
type Cloud struct {
	// FirstGeneration has the cloud offer Instances and Zones instead of InstancesV2.
	FirstGeneration bool
	// Without names what the cloud does not have: "load balancers", "routes", "instances", "zones".
	Without map[string]bool
	// Instances are the instances by the names of their nodes. A node that is missing here has none.
	Instances map[string]*Instance
	// Status is what EnsureLoadBalancer returns; an address if it is nil.
	Status *corev1.LoadBalancerStatus
	// Hangs names Services whose load balancer is never ready: EnsureLoadBalancer waits until its context ends.
	Hangs map[string]bool
	// UpdateDelay is how long UpdateLoadBalancer takes.
	UpdateDelay time.Duration
	// NilStatus has EnsureLoadBalancer return no status.
	NilStatus bool

	mu        sync.Mutex
	balancers map[string]*corev1.LoadBalancerStatus
	routes    []*cloudprovider.Route
}

// AddRoute puts a route into the cloud.
func (c *Cloud) AddRoute(r cloudprovider.Route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.routes = append(c.routes, &r)
}

// AddBalancer puts a Service's load balancer into the cloud.
func (c *Cloud) AddBalancer(service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addBalancer(service)
}

func (c *Cloud) addBalancer(service string) *corev1.LoadBalancerStatus {
	if c.balancers == nil {
		c.balancers = map[string]*corev1.LoadBalancerStatus{}
	}
	status := c.Status
	if status == nil {
		vip := corev1.LoadBalancerIPModeVIP
		status = &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &vip}}}
	}
	c.balancers[service] = status
	return status
}

// Change changes the cloud while controllers work.
func (c *Cloud) Change(change func(*Cloud)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *Cloud) instance(name string) *Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Instances[name]
}

// byID finds an instance as providers of the first generation are asked for it.
func (c *Cloud) byID(id string) *Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, id, _ = strings.Cut(id, "://")
	for name, instance := range c.Instances {
		if _, has, _ := strings.Cut(instance.ProviderID, "://"); id != "" && (has == id || name == id) {
			return instance
		}
	}
	return nil
}

// Initialize implements cloudprovider.Interface.
func (*Cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c, !c.Without["load balancers"]
}

// simulated is the cloud as a provider: Instances is a field of the one and a method of the other.
type simulated struct{ *Cloud }

// Instances implements cloudprovider.Interface.
func (c *simulated) Instances() (cloudprovider.Instances, bool) {
	return c, c.FirstGeneration && !c.Without["instances"]
}

// InstancesV2 implements cloudprovider.Interface.
func (c *simulated) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return c, !c.FirstGeneration && !c.Without["instances"]
}

// Zones implements cloudprovider.Interface.
func (c *simulated) Zones() (cloudprovider.Zones, bool) {
	return c, c.FirstGeneration && !c.Without["zones"]
}

// Clusters implements cloudprovider.Interface.
func (*Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return c, !c.Without["routes"] }

// ProviderName implements cloudprovider.Interface.
func (*Cloud) ProviderName() string { return "fake" }

// HasClusterID implements cloudprovider.Interface.
func (*Cloud) HasClusterID() bool { return true }

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (c *Cloud) GetLoadBalancer(
	_ context.Context, _ string, s *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, ok := c.balancers[s.Name]
	return status.DeepCopy(), ok, nil
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (*Cloud) GetLoadBalancerName(_ context.Context, _ string, s *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(s)
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (c *Cloud) EnsureLoadBalancer(
	ctx context.Context, _ string, s *corev1.Service, _ []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	if c.Hangs[s.Name] {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.NilStatus {
		return nil, nil
	}
	return c.addBalancer(s.Name).DeepCopy(), nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (c *Cloud) UpdateLoadBalancer(ctx context.Context, _ string, _ *corev1.Service, _ []*corev1.Node) error {
	if c.UpdateDelay == 0 {
		return nil
	}
	select {
	case <-time.After(c.UpdateDelay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (c *Cloud) EnsureLoadBalancerDeleted(_ context.Context, _ string, s *corev1.Service) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.balancers, s.Name)
	return nil
}

// ListRoutes implements cloudprovider.Routes.
func (c *Cloud) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*cloudprovider.Route
	for _, r := range c.routes {
		one := *r
		all = append(all, &one)
	}
	return all, nil
}

// CreateRoute implements cloudprovider.Routes.
func (c *Cloud) CreateRoute(_ context.Context, cluster, _ string, r *cloudprovider.Route) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := *r
	made.Name = cluster + "-" + string(r.TargetNode) + "-" + r.DestinationCIDR
	made.EnableNodeAddresses = slices.ContainsFunc(
		c.routes, func(o *cloudprovider.Route) bool { return o.EnableNodeAddresses },
	)
	c.routes = append(c.routes, &made)
	return nil
}

// DeleteRoute implements cloudprovider.Routes.
func (c *Cloud) DeleteRoute(_ context.Context, _ string, r *cloudprovider.Route) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.routes = slices.DeleteFunc(c.routes, func(o *cloudprovider.Route) bool {
		return o.DestinationCIDR == r.DestinationCIDR && o.TargetNode == r.TargetNode && o.Blackhole == r.Blackhole
	})
	return nil
}

// InstanceExists implements cloudprovider.InstancesV2.
func (c *simulated) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	return c.instance(node.Name) != nil, nil
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (c *simulated) InstanceShutdown(_ context.Context, node *corev1.Node) (bool, error) {
	i := c.instance(node.Name)
	if i == nil {
		return false, cloudprovider.InstanceNotFound
	}
	return i.Shutdown, nil
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (c *simulated) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	i := c.instance(node.Name)
	switch {
	case i == nil:
		return nil, cloudprovider.InstanceNotFound
	case i.NoMetadata:
		return nil, nil
	}
	metadata := i.InstanceMetadata
	metadata.NodeAddresses, metadata.AdditionalLabels = slices.Clone(
		metadata.NodeAddresses,
	), maps.Clone(metadata.AdditionalLabels)
	return &metadata, nil
}

func found(i *Instance, what string) (*Instance, error) {
	if i == nil {
		return nil, fmt.Errorf("%s: %w", what, cloudprovider.InstanceNotFound)
	}
	return i, nil
}

// NodeAddresses implements cloudprovider.Instances.
func (c *simulated) NodeAddresses(_ context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	i, err := found(c.instance(string(name)), string(name))
	if err != nil {
		return nil, err
	}
	return slices.Clone(i.NodeAddresses), nil
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (c *simulated) NodeAddressesByProviderID(_ context.Context, id string) ([]corev1.NodeAddress, error) {
	i, err := found(c.byID(id), id)
	if err != nil {
		return nil, err
	}
	return slices.Clone(i.NodeAddresses), nil
}

// InstanceID implements cloudprovider.Instances.
func (c *simulated) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	i := c.instance(string(name))
	if i == nil {
		return "", cloudprovider.InstanceNotFound
	}
	_, id, _ := strings.Cut(i.ProviderID, "://")
	return id, nil
}

// InstanceType implements cloudprovider.Instances.
func (c *simulated) InstanceType(_ context.Context, name types.NodeName) (string, error) {
	i, err := found(c.instance(string(name)), string(name))
	if err != nil {
		return "", err
	}
	return i.InstanceType, nil
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (c *simulated) InstanceTypeByProviderID(_ context.Context, id string) (string, error) {
	i, err := found(c.byID(id), id)
	if err != nil {
		return "", err
	}
	return i.InstanceType, nil
}

// AddSSHKeyToAllInstances implements cloudprovider.Instances.
func (*simulated) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName implements cloudprovider.Instances.
func (*simulated) CurrentNodeName(_ context.Context, host string) (types.NodeName, error) {
	return types.NodeName(host), nil
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (c *simulated) InstanceExistsByProviderID(_ context.Context, id string) (bool, error) {
	return c.byID(id) != nil, nil
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (c *simulated) InstanceShutdownByProviderID(_ context.Context, id string) (bool, error) {
	i := c.byID(id)
	return i != nil && i.Shutdown, nil
}

// GetZone implements cloudprovider.Zones.
func (*simulated) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, nil
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (c *simulated) GetZoneByProviderID(_ context.Context, id string) (cloudprovider.Zone, error) {
	return zoneOf(found(c.byID(id), id))
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (c *simulated) GetZoneByNodeName(_ context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return zoneOf(found(c.instance(string(name)), string(name)))
}

func zoneOf(i *Instance, err error) (cloudprovider.Zone, error) {
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return cloudprovider.Zone{FailureDomain: i.Zone, Region: i.Region}, nil
}
