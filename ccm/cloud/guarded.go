package cloud

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// guarded is a provider as the controllers of one lease see it.
type guarded struct {
	shell *Shell
	fence *election.Fence
}

var _ cloudprovider.Interface = (*guarded)(nil)

func (g *guarded) shellOf() *Shell { return g.shell }

// Initialize initialises the provider once, however many leases there are. Upstream does it once per lease, at the same time and without a lock.
func (g *guarded) Initialize(clientBuilder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	g.shell.initialize.Do(func() { g.shell.provider.Initialize(clientBuilder, stop) })
}

// LoadBalancer implements cloudprovider.Interface.
func (g *guarded) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancer, ok := g.shell.provider.LoadBalancer()
	if !ok || balancer == nil {
		return nil, false
	}
	return loadBalancer{g, balancer}, true
}

// Instances implements cloudprovider.Interface.
func (g *guarded) Instances() (cloudprovider.Instances, bool) {
	instances, ok := g.shell.provider.Instances()
	if !ok || instances == nil {
		return nil, false
	}
	return instancesV1{caller: g.shell.caller, fence: g.fence, provider: instances}, true
}

// InstancesV2 implements cloudprovider.Interface.
func (g *guarded) InstancesV2() (cloudprovider.InstancesV2, bool) {
	instances, ok := g.shell.provider.InstancesV2()
	if !ok || instances == nil {
		return nil, false
	}
	return instancesV2{caller: g.shell.caller, provider: instances}, true
}

// Zones implements cloudprovider.Interface.
func (g *guarded) Zones() (cloudprovider.Zones, bool) {
	zones, ok := g.shell.provider.Zones()
	if !ok || zones == nil {
		return nil, false
	}
	return zonesOf{caller: g.shell.caller, provider: zones}, true
}

// Clusters implements cloudprovider.Interface.
func (g *guarded) Clusters() (cloudprovider.Clusters, bool) {
	clusters, ok := g.shell.provider.Clusters()
	if !ok || clusters == nil {
		return nil, false
	}
	return clustersOf{g.shell.caller, clusters}, true
}

// Routes implements cloudprovider.Interface.
func (g *guarded) Routes() (cloudprovider.Routes, bool) {
	routes, ok := g.shell.provider.Routes()
	if !ok || routes == nil {
		return nil, false
	}
	return routesOf{g, routes}, true
}

// ProviderName implements cloudprovider.Interface.
func (g *guarded) ProviderName() string { return g.shell.provider.ProviderName() }

// HasClusterID implements cloudprovider.Interface.
func (g *guarded) HasClusterID() bool { return g.shell.provider.HasClusterID() }

// informerUser gives the provider its informers once, however many leases there are.
type informerUser struct {
	shell *Shell
	user  cloudprovider.InformerUser
}

// SetInformers implements cloudprovider.InformerUser.
func (u informerUser) SetInformers(factory informers.SharedInformerFactory) {
	u.shell.informers.Do(func() { u.user.SetInformers(factory) })
}

// guardedLister is the provider's lister, metered.
type guardedLister struct {
	caller *caller
	lister InstancesLister
}

var _ InstancesLister = guardedLister{}

// ListInstances implements InstancesLister.
func (l guardedLister) ListInstances(ctx context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error) {
	return do(ctx, l.caller, l.caller.listing(ctx, nodes), func(ctx context.Context) ([]InstanceState, error) { return l.lister.ListInstances(ctx, nodes, want) })
}

// MaxInstances implements InstancesLister.
func (l guardedLister) MaxInstances() int { return max(l.lister.MaxInstances(), 1) }
