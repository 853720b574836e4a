// Package azure decides what the cloud-controller-manager for Azure does in the cloud. Load balancers are those of
// upstream's provider, one call at a time. Machines and routes are read and written here.
//
//	controllers --> Cloud --machines, routes--------------------> client --fence, deadline--> Resource Manager
//	                     \--load balancers--> upstream, in turn ----^
//
// Upstream's provider is made with the first load balancer: before a lease is held it neither reads nor loops. It gets
// no informers, so that no event of a Node has it write.
package azure

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	settings "k8s.io/cloud-provider/config"
	upstreamconfig "sigs.k8s.io/cloud-provider-azure/pkg/provider/config"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/provider/azure/client"
	"github.com/transplant-dev/transplant/provider/startup"
	"github.com/transplant-dev/transplant/provider/transport"
)

// Name is the provider's name in --cloud-provider and in provider IDs.
const Name = "azure"

// maxNodes is how many nodes are asked for in one call. The machines of their resource groups are listed for them, so
// that more nodes cost nothing.
const maxNodes = 10_000

// Cloud is Azure for the controllers.
type Cloud struct {
	cloud.ListedInstances
	cloud.Partial

	conf      *upstreamconfig.Config
	client    *client.Client
	gate      *transport.Gate
	instances *instances
	routes    *routes
	balancers *loadBalancers
}

var (
	_ cloud.InstancesLister      = (*Cloud)(nil)
	_ cloud.EarlyStarter         = (*Cloud)(nil)
	_ cloud.Prober               = (*Cloud)(nil)
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InstancesV2  = (*Cloud)(nil)
	_ cloudprovider.InformerUser = (*Cloud)(nil)
)

// program is how the flags of a manager make this provider.
var program = startup.Program{
	Provider: Name, Cloud: "Azure", NeedsConfig: "the subscription and the resource group are in it",
	Open: func(_ settings.KubeCloudSharedConfiguration, cloudConfig []byte) (cloudprovider.Interface, error) {
		made, err := Open(cloudConfig, Options{})
		if err != nil {
			return nil, err
		}
		return made, nil
	},
}

// NewCloud makes the Azure provider that a manager's flags ask for, or ends the process with the reason.
func NewCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	return program.NewCloud(completed)
}

// Options are the settings of a cloud that no cloud config has.
type Options struct {
	// Next sends the requests; nil for a transport of net/http.
	Next http.RoundTripper
	// Sent counts the requests that are sent; nil for none.
	Sent *atomic.Int64
	// FromOutside is that this machine is none of the cluster's. In place of the identity of a machine are the credentials
	// of Azure's own tools: the environment, or az login.
	FromOutside bool
	// Timeout bounds one request; 0 for client.DefaultRequestTimeout.
	Timeout time.Duration
}

// Open makes the provider from the text of an azure.json, of the external provider or of the in-tree one. It asks the
// cloud for nothing but its addresses, and only where the config has a resourceManagerEndpoint.
func Open(cloudConfig []byte, o Options) (*Cloud, error) {
	conf, err := readConfig(cloudConfig)
	if err != nil {
		return nil, err
	}
	machines, network, addresses, err := credentials(conf, o.FromOutside)
	if err != nil {
		return nil, err
	}
	gate := &transport.Gate{}
	gate.Use(election.Unfenced(time.Now()))
	reach, err := client.New(client.Options{
		Subscription: conf.SubscriptionID, Network: networkSubscription(conf), Cloud: addresses,
		Credential: machines, NetworkCredential: network, Gate: gate, Timeout: o.Timeout, Next: o.Next, Sent: o.Sent,
	})
	if err != nil {
		return nil, err
	}
	c := &Cloud{
		gate: gate, conf: conf, client: reach, instances: &instances{client: reach, conf: conf},
		routes: newRoutes(reach, conf, gate), balancers: newLoadBalancers(reach, conf),
	}
	c.Lister = c
	return c, nil
}

// UseFences sets the fences of the leases that this process runs under. A request that changes something and whose
// context carries no fence is sent only while one of them is open. The manager calls it once, before it contends for a
// lease; without leader election with election.Unfenced.
func (c *Cloud) UseFences(fences ...*election.Fence) { c.gate.Use(slices.Clone(fences)...) }

// Initialize keeps the clients of the cluster for upstream's provider, which is made later.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
	c.balancers.upstream.initialize(clients)
}

// SetInformers gives the caches of Nodes and Services to those who ask them.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	nodes, services := factory.Core().V1().Nodes(), factory.Core().V1().Services()
	nodes.Informer() // started with the others
	services.Informer()
	c.routes.useNodes(nodes.Lister())
	c.balancers.upstream.useListers(nodes.Lister(), services.Lister())
}

// ProviderName implements cloudprovider.Interface.
func (c *Cloud) ProviderName() string { return Name }

// HasTypedErrors implements cloud.TypedErrors: what Azure refused of a change is wrapped and not only quoted.
// Upstream's errors quote names that users wrote.
func (c *Cloud) HasTypedErrors() bool { return true }

// StartsEarly implements cloud.EarlyStarter: nothing is written and nothing is started.
func (c *Cloud) StartsEarly() bool { return true }

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// LoadBalancer implements cloudprovider.Interface.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.balancers, true }

// Routes implements cloudprovider.Interface. Without a route table in the config there are none.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) {
	if c.conf.RouteTableName == "" {
		return nil, false
	}
	return c.routes, true
}

// MaxInstances implements cloud.InstancesLister.
func (c *Cloud) MaxInstances() int { return maxNodes }

// ListInstances implements cloud.InstancesLister: the lists of the machines of each resource group, and a request for
// each machine that they lack. Few nodes are asked for one by one.
func (c *Cloud) ListInstances(
	ctx context.Context,
	nodes []*corev1.Node,
	want cloud.Want,
) ([]cloud.InstanceState, error) {
	return c.instances.list(ctx, nodes, want)
}

// Probe reads a page of the resource group's machines, for readiness. It returns nil if the answer came and the
// credentials are good for it.
func (c *Cloud) Probe(ctx context.Context) error {
	_, err := c.client.VMs.NewListPager(c.conf.ResourceGroup, nil).NextPage(ctx)
	return explain(err, "listing the machines of resource group %s", c.conf.ResourceGroup)
}
