// Package gce decides what the cloud-controller-manager for Google Compute Engine does in the cloud. Load balancers are
// those of upstream's provider, on clients of our own. Instances and routes are read and written here.
//
//	controllers --> Cloud --instances, routes-------------------> client --fence, token--> Compute Engine
//	                     \--load balancers--> upstream, one call at a time --^
//
// Upstream's provider is made with the first load balancer: before a lease is held it neither reads nor loops.
package gce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/api/googleapi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	settings "k8s.io/cloud-provider/config"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/provider/gce/client"
	"github.com/transplant-dev/transplant/provider/startup"
	"github.com/transplant-dev/transplant/provider/transport"
)

// Name is the provider's name in --cloud-provider and in provider IDs.
const Name = "gce"

// maxNodes is how many nodes are asked for in one call. All instances of the project are listed for them, 500 in a
// request, so that more nodes cost nothing.
const maxNodes = 10_000

// Cloud is Compute Engine for the controllers.
type Cloud struct {
	cloud.ListedInstances
	cloud.Partial

	gate      *transport.Gate
	project   *project
	instances *instances
	routes    *routes
	balancers *loadBalancers
}

var (
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InstancesV2  = (*Cloud)(nil)
	_ cloudprovider.InformerUser = (*Cloud)(nil)
	_ cloud.PodCIDRLister        = (*Cloud)(nil)
	_ cloud.EarlyStarter         = (*Cloud)(nil)
	_ cloud.Prober               = (*Cloud)(nil)
)

// program is how the flags of a manager make this provider.
var program = startup.Program{Provider: Name, Cloud: "GCE", Open: openProgram}

// NewCloud makes the GCE provider that a manager's flags ask for, or ends the process with the reason.
func NewCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	return program.NewCloud(completed)
}

func openProgram(_ settings.KubeCloudSharedConfiguration, cloudConfig []byte) (cloudprovider.Interface, error) {
	none := context.Background() //nolint:forbidigo // the library's constructor of clouds has no context to give
	ctx, cancel := context.WithTimeout(none, client.DefaultRequestTimeout)
	defer cancel()
	made, err := Open(ctx, cloudConfig, Options{})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Options are the settings of a cloud that no cloud config has.
type Options struct {
	// Next sends the requests; nil for a transport of net/http.
	Next http.RoundTripper
	// Sent counts the requests that are sent; nil for none.
	Sent *atomic.Int64
	// Metadata is the metadata server.
	Metadata client.Metadata
	// Tokens are the credentials; nil for those that the cloud config asks for.
	Tokens client.TokenSource
	// Timeout bounds one request; 0 for client.DefaultRequestTimeout.
	Timeout time.Duration
}

// Open makes the provider from the text of a gce.conf, of the external provider or of the in-tree one. It asks the
// metadata server for what the config lacks of project, zone and network, and nothing else.
func Open(ctx context.Context, cloudConfig []byte, o Options) (*Cloud, error) {
	conf, err := readConfig(cloudConfig)
	if err != nil {
		return nil, err
	}
	if err := conf.completeFrom(ctx, o.Metadata); err != nil {
		return nil, err
	}
	if o.Tokens == nil {
		o.Tokens = conf.tokens(o.Metadata)
	}
	gate := &transport.Gate{}
	gate.Use(election.Unfenced(time.Now()))
	reach, err := client.New(ctx, client.Options{
		Endpoint: conf.Endpoint, Tokens: o.Tokens, Gate: gate, Timeout: o.Timeout, Next: o.Next, Sent: o.Sent,
		UserAgent: "transplant-gce-cloud-controller-manager",
	})
	if err != nil {
		return nil, err
	}
	p := newProject(reach, conf)
	list := &instances{project: p}
	c := &Cloud{
		gate: gate, project: p, instances: list, routes: &routes{project: p, instances: list},
		balancers: newLoadBalancers(p, list),
	}
	c.Lister = c
	return c, nil
}

// UseFences sets the fences of the leases that this process runs under. A request that changes something and whose
// context carries no fence is sent only while one of them is open. The manager calls it once, before it contends for a
// lease; without leader election with election.Unfenced.
func (c *Cloud) UseFences(fences ...*election.Fence) { c.gate.Use(slices.Clone(fences)...) }

// Initialize keeps the clients of the cluster for upstream's provider, which is made later.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	c.balancers.upstream.initialize(clients, stop)
}

// SetInformers gives upstream's provider, which is made later, the cache of Nodes: it knows the zones by them.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes()
	nodes.Informer() // started with the others
	c.routes.nodes = nodes.Lister()
	c.balancers.upstream.useInformers(factory)
}

// ProviderName implements cloudprovider.Interface.
func (c *Cloud) ProviderName() string { return Name }

// HasTypedErrors implements cloud.TypedErrors: what Compute Engine refused of a change is wrapped and not only quoted.
// Upstream's errors quote names that users wrote.
func (c *Cloud) HasTypedErrors() bool { return true }

// StartsEarly implements cloud.EarlyStarter: nothing is written and nothing is started.
func (c *Cloud) StartsEarly() bool { return true }

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// LoadBalancer implements cloudprovider.Interface.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.balancers, true }

// Routes implements cloudprovider.Interface.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return c.routes, true }

// MaxInstances implements cloud.InstancesLister.
func (c *Cloud) MaxInstances() int { return maxNodes }

// ListsPodCIDRs implements cloud.PodCIDRLister.
func (c *Cloud) ListsPodCIDRs() bool { return true }

// ListInstances implements cloud.InstancesLister: one list of all instances of the project, 500 in a request, and a
// request for each instance that the list lacks. Few nodes are asked for one by one.
func (c *Cloud) ListInstances(
	ctx context.Context,
	nodes []*corev1.Node,
	want cloud.Want,
) ([]cloud.InstanceState, error) {
	return c.instances.list(ctx, nodes, want)
}

// Probe reads the local zone, for readiness. It returns nil if the answer came and the credentials are good for it.
func (c *Cloud) Probe(ctx context.Context) error {
	name, err := c.project.name(ctx)
	if err != nil {
		return err
	}
	_, err = c.project.compute().Zones.Get(name, c.project.conf.LocalZone).Context(ctx).Do()
	return explain(err, "reading zone %s of project %s", c.project.conf.LocalZone, name)
}

// explain says what was being done. It returns nil for nil.
func explain(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	var refusal *googleapi.Error
	if errors.As(err, &refusal) && refusal.Code == http.StatusUnauthorized {
		return fmt.Errorf("%s: Compute Engine does not take the token: %w", fmt.Sprintf(doing, args...), err)
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), err)
}
