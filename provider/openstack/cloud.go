// Package openstack decides what the OpenStack cloud-controller-manager does in the cloud. It decides which server is a
// node's, which addresses and labels it gets, which routes lead to its pods, and which load balancers Services have. It
// takes over from the in-tree provider and from cloud-provider-openstack, whose cloud.conf it reads.
//
//	cloud.conf --cloudconf--> client --Nova, Neutron, Octavia
//	controllers --> Cloud --> instances, routes, load balancers --> client --fence--> OpenStack
package openstack

import (
	"bytes"
	"context"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	settings "k8s.io/cloud-provider/config"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/mask/events"
	"github.com/transplant-dev/transplant/provider/openstack/client"
	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
	"github.com/transplant-dev/transplant/provider/openstack/loadbalancer"
	"github.com/transplant-dev/transplant/provider/startup"
	"github.com/transplant-dev/transplant/provider/transport"
)

// Name is the provider's name in --cloud-provider and in provider IDs.
const Name = "openstack"

// regionalEnvironment is the external provider's switch for provider IDs with a region.
const regionalEnvironment = "OS_CCM_REGIONAL"

// serviceController is the account and the source of events of Services: that of the controller that calls.
const serviceController = "service-controller"

// userAgent is what a manager's requests say in OpenStack's logs. Those of an in-tree manager have gophercloud's alone.
const userAgent = "openstack-cloud-controller-manager"

// Cloud is OpenStack for the controllers.
type Cloud struct {
	cloud.ListedInstances
	cloud.Partial

	gate      *transport.Gate
	client    *client.Client
	conf      *cloudconf.Config
	instances *instances
	routes    *routes
	balancers *loadbalancer.Balancers
}

var (
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InformerUser = (*Cloud)(nil)
	_ cloudprovider.InstancesV2  = (*Cloud)(nil)
	_ cloud.InstancesLister      = (*Cloud)(nil)
	_ cloud.EarlyStarter         = (*Cloud)(nil)
	_ cloud.Prober               = (*Cloud)(nil)
)

// program is how the flags of a manager make this provider.
var program = startup.Program{
	Provider:    Name,
	Cloud:       "OpenStack",
	NeedsConfig: "OpenStack's address and credentials are in it",
	Open:        openProgram,
}

// NewCloud makes the OpenStack provider that a manager's flags ask for, or ends the process with the reason.
func NewCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	return program.NewCloud(completed)
}

func openProgram(_ settings.KubeCloudSharedConfiguration, cloudConfig []byte) (cloudprovider.Interface, error) {
	made, err := Open(cloudConfig, Options{
		Regional: os.Getenv(regionalEnvironment) == "true", Client: client.Options{UserAgent: userAgent},
	})
	if err != nil {
		return nil, err
	}
	// A login that Keystone refuses ends the process: nothing but another config helps. Without Keystone it goes on.
	none := context.Background() //nolint:forbidigo // the library's constructor of clouds has no context to give
	ctx, cancel := context.WithTimeout(none, made.conf.Metadata.RequestTimeout.Duration)
	defer cancel()
	if err := made.client.Login(ctx); client.Refused(err) {
		return nil, err
	} else if err != nil {
		klog.ErrorS(err, "OpenStack cannot be reached yet; each call tries to log in")
	}
	return made, nil
}

// Options are the settings of a cloud that no cloud config has.
type Options struct {
	// Client are settings of the client; its Config, Timeout and Gate are set by Open.
	Client client.Options
	// Regional has new provider IDs carry the region.
	Regional bool
	// Clock is for how long load balancers are waited for; nil for the real one.
	Clock clock.PassiveClock
}

// WithoutLoadBalancers is a cloud config for questions that do not concern load balancers. An empty one stays empty.
func WithoutLoadBalancers(cloudConfig []byte) []byte {
	if len(bytes.TrimSpace(cloudConfig)) == 0 {
		return nil
	}
	return slices.Concat(cloudConfig, []byte("\n[LoadBalancer]\nenabled = false\n"))
}

// Open makes the provider from the text of a cloud config, of the external provider or of the in-tree one. It sends
// nothing.
func Open(cloudConfig []byte, o Options) (*Cloud, error) {
	conf, notes, err := cloudconf.Read(cloudConfig)
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		klog.Warningf("Cloud config: %s", note)
	}
	order, err := conf.Networking.SortOrder()
	if err != nil {
		return nil, err
	}
	gate := &transport.Gate{}
	gate.Use(election.Unfenced(time.Now()))
	o.Client.Config, o.Client.Timeout, o.Client.Gate = conf.Global, conf.Metadata.RequestTimeout.Duration, gate
	reach, err := client.New(o.Client)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Cloud{gate: gate, client: reach, conf: conf}
	c.Lister = c
	c.instances = &instances{
		client: reach, region: conf.Global.Region, regional: o.Regional,
		addresses: addressing{client: reach, conf: conf.Networking, order: order},
	}
	c.instances.book = newAddressIndex(c.instances, o.Clock)
	if c.balancers, err = loadbalancer.New(reach, conf, o.Clock, c.instances.book); err != nil {
		return nil, err
	}
	c.routes = &routes{client: reach, router: conf.Route.RouterID, instances: c.instances}
	return c, nil
}

// UseFences sets the fences of the leases that this process runs under. A request that changes something and whose
// context carries no fence is sent only while one of them is open. The manager calls it once, before it contends for a
// lease; without leader election with election.Unfenced.
func (c *Cloud) UseFences(fences ...*election.Fence) { c.gate.Use(slices.Clone(fences)...) }

// Client has the login of this cloud, and its fences.
func (c *Cloud) Client() *client.Client { return c.client }

// Router is the ID of the one that routes are written to; empty for none.
func (c *Cloud) Router() string { return c.conf.Route.RouterID }

// Initialize keeps the client of the cluster for events of Services. Nothing is sent before a controller calls.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	if clients == nil {
		return
	}
	api, err := clients.Client(serviceController)
	if err != nil {
		klog.ErrorS(err, "Services get no events of what their load balancers lack; the log has it")
		return
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(events.Sink(api.CoreV1()))
	c.balancers.UseEvents(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: serviceController}))
	go func() {
		<-stop
		broadcaster.Shutdown()
	}()
}

// SetInformers gives routes the cache of Nodes.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	c.routes.useNodes(factory.Core().V1().Nodes().Lister())
}

// ProviderName implements cloudprovider.Interface.
func (c *Cloud) ProviderName() string { return Name }

// HasTypedErrors implements cloud.TypedErrors: what OpenStack answered is wrapped and not only quoted. Errors of this
// package quote names and tags of load balancers, which hold what users wrote of other Services.
func (c *Cloud) HasTypedErrors() bool { return true }

// StartsEarly implements cloud.EarlyStarter: nothing is written before a controller calls.
func (c *Cloud) StartsEarly() bool { return true }

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// Routes are there when the cloud config names a router.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) {
	if c.conf.Route.RouterID == "" {
		return nil, false
	}
	return c.routes, true
}

// LoadBalancer implements cloudprovider.Interface. There are none where the cloud config has enabled=false.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	if !c.conf.LoadBalancer.Enabled {
		return nil, false
	}
	return c.balancers, true
}

// MaxInstances implements cloud.InstancesLister.
func (c *Cloud) MaxInstances() int { return maxNodes }

// ListInstances implements cloud.InstancesLister: one list of the project's servers and one of its ports, whatever the
// number of nodes.
func (c *Cloud) ListInstances(
	ctx context.Context,
	nodes []*corev1.Node,
	want cloud.Want,
) ([]cloud.InstanceState, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	return c.instances.list(ctx, nodes, want)
}

// Probe asks Nova a cheap question, for readiness: it returns nil if the answer came and the credentials are good for
// it.
func (c *Cloud) Probe(ctx context.Context) error { return c.instances.probe(ctx) }
