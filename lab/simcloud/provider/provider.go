package provider

import (
	"context"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// Provider is the provider. Instances are described one by one, as by any provider that upstream knows.
type Provider struct{ client *client }

// Lister is the provider that can also describe many instances in one call.
type Lister struct{ *Provider }

var (
	_ cloudprovider.Interface    = (*Provider)(nil)
	_ cloudprovider.InstancesV2  = (*Provider)(nil)
	_ cloudprovider.LoadBalancer = balancers{}
	_ cloudprovider.Routes       = routes{}
	_ cloudprovider.Interface    = Lister{}
	_ cloud.InstancesLister      = Lister{}
)

// New returns the provider of a config.
func New(config Config) (cloudprovider.Interface, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	p := &Provider{client: newClient(config)}
	p.client.ensureRequests = max(config.EnsureRequests, 1)
	if config.NoLister {
		return p, nil
	}
	return Lister{p}, nil
}

// Initialize implements cloudprovider.Interface: nothing has to be prepared.
func (*Provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface.
func (p *Provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return balancers{p.client}, true
}

// Instances implements cloudprovider.Interface: there is InstancesV2.
func (*Provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (p *Provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return p, true }

// Zones implements cloudprovider.Interface: there is InstancesV2.
func (*Provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface: no controller asks for them.
func (*Provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (p *Provider) Routes() (cloudprovider.Routes, bool) { return routes{p.client}, true }

// ProviderName implements cloudprovider.Interface.
func (*Provider) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface: each cloud has one cluster.
func (*Provider) HasClusterID() bool { return true }

// Probe reports whether the cloud answers, with one call that changes nothing.
func (p *Provider) Probe(ctx context.Context) error {
	_, err := p.client.call(ctx, api.GetLoadBalancer, api.Request{Name: "probe"})
	return err
}

// CloseIdleConnections ends the connections that no call uses, for tests that count goroutines.
func (p *Provider) CloseIdleConnections() { p.client.close() }
