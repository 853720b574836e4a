// Package aws decides what the AWS cloud-controller-manager is made of. It is the upstream AWS provider on clients of
// our own, which ask the fence before every request that changes something. It also reads in bulk what that provider
// reads one by one: the state of instances, and routes.
//
//	cloud config --understand--> overrides in the provider's names
//	controllers --> Cloud --instances, routes--> client.Services --fence--> AWS
//	                     \--everything else--> provider --> client.Services
package aws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"gopkg.in/gcfg.v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	awsv1 "k8s.io/cloud-provider-aws/pkg/providers/v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"
	"k8s.io/cloud-provider/app/config"
	settings "k8s.io/cloud-provider/config"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/provider/aws/client"
	"github.com/transplant-dev/transplant/provider/aws/leftover"
	"github.com/transplant-dev/transplant/provider/startup"
	"github.com/transplant-dev/transplant/provider/transport"
)

// Cloud is the upstream provider with our clients, our reading of instances and our routes.
type Cloud struct {
	*awsv1.Cloud

	gate    *transport.Gate
	ec2     iface.EC2
	elbv2   leftover.ELBV2
	region  string
	cluster string // the cluster's ID in tags; empty for none
	zones   *zones
	network *topology
	routes  *routes
	// families are the kinds of addresses that a node gets, in this order.
	families []string
	nodes    coreinformers.NodeInformer // nil until SetInformers
}

var (
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InformerUser = (*Cloud)(nil)
	_ cloud.InstancesLister      = (*Cloud)(nil)
	_ cloud.EarlyStarter         = (*Cloud)(nil)
)

// program is how the flags of a manager make this provider.
var program = startup.Program{Provider: awsv1.ProviderName, Cloud: "AWS", Open: openProgram}

// NewCloud makes the AWS provider that a manager's flags ask for, or ends the process with the reason. Until UseFences
// is called, requests whose context carries no fence are sent, as under a library that ends the process when it loses
// its lease.
func NewCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	return program.NewCloud(completed)
}

func openProgram(flags settings.KubeCloudSharedConfiguration, cloudConfig []byte) (cloudprovider.Interface, error) {
	none := context.Background() //nolint:forbidigo // the library's constructor of clouds has no context to give
	made, err := Open(none, cloudConfig, Options{})
	if err != nil {
		return nil, err
	}
	if made.HasClusterID() {
		return made, nil
	}
	if !flags.AllowUntaggedCloud {
		return nil, errors.New(
			"no cluster ID; set KubernetesClusterID in the cloud config, or tag this instance with kubernetes.io/cluster/<ID>, " +
				"or accept with --allow-untagged-cloud that all clusters in this account share load balancers",
		)
	}
	klog.Warning("The cluster has no cluster ID, and --allow-untagged-cloud accepts that: " +
		"it shares its cloud objects with every other such cluster of the account")
	return made, nil
}

// Options are the settings of a cloud that no cloud config has.
type Options struct {
	// HTTPClient sends the requests to AWS; nil for the SDK's.
	HTTPClient sdk.HTTPClient
	// Away reports whether the process runs on no machine of the cluster. Then no metadata service is asked: the cloud
	// config has to name a VPC, a subnet and the region.
	Away bool
	// Instances are IDs of machines of the cluster. Of a process that is away, their tags say the cluster ID where the
	// cloud config has none. Without either, the instances of every cluster count.
	Instances []string
}

// placeholder is the cluster ID that upstream's code is given in a process that is away. Without one it would ask the
// metadata service of an instance that this machine is not. It is for load balancers and routes, which are not made.
const placeholder = "cluster"

// Open makes the provider from the text of a cloud config, of the external provider or of the in-tree one.
func Open(ctx context.Context, cloudConfig []byte, o Options) (*Cloud, error) {
	cfg, err := readCloudConfig(cloudConfig)
	if err != nil {
		return nil, err
	}
	gate := &transport.Gate{}
	services, err := client.New(ctx, client.Options{
		Config: cfg, Gate: gate, HTTPClient: o.HTTPClient,
		STSEndpoint: func(region string) string { return stsEndpoint(cfg, region) },
	})
	if err != nil {
		return nil, err
	}
	return assemble(ctx, cfg, services, gate, o)
}

// clients are the provider's clients, and the one that our own code uses.
type clients interface {
	awsv1.Services
	EC2() iface.EC2
	ELBV2() leftover.ELBV2
}

// assemble puts a cloud together from its clients.
func assemble(
	ctx context.Context,
	cfg *awsconfig.CloudConfig,
	services clients,
	gate *transport.Gate,
	o Options,
) (*Cloud, error) {
	required, err := topologyPattern(cfg.Global.SupportedTopologyInstanceTypePattern)
	if err != nil {
		return nil, err
	}
	// The provider is given no SDKProvider this way, which its variants (Fargate) keep and do not use.
	given := *cfg
	if o.Away && configuredClusterID(cfg) == "" {
		given.Global.KubernetesClusterID = placeholder
	}
	provider, err := awsv1.NewAWSCloud(given, services)
	if err != nil {
		return nil, err
	}
	zone, err := provider.GetZone(ctx) // what the provider knows about itself; no request
	if err != nil {
		return nil, fmt.Errorf("asking the provider for its region: %w", err)
	}
	for _, note := range unusedOverrides(cfg, zone.Region) {
		klog.Warningf("Cloud config: %s", note)
	}
	gate.Use(election.Unfenced(now()))
	c := &Cloud{
		Cloud: provider, gate: gate, ec2: services.EC2(), elbv2: services.ELBV2(), region: zone.Region,
		families: cfg.Global.NodeIPFamilies,
	}
	if len(c.families) == 0 {
		c.families = []string{"ipv4"}
	}
	if c.cluster, err = c.clusterID(ctx, cfg, o); err != nil {
		return nil, err
	}
	c.zones, c.network = &zones{ec2: c.ec2}, &topology{ec2: c.ec2, required: required}
	c.routes = &routes{cloud: c, configured: cfg.Global.RouteTableID}
	return c, nil
}

// readCloudConfig reads a cloud config and says in the log how its overrides were understood.
func readCloudConfig(cloudConfig []byte) (*awsconfig.CloudConfig, error) {
	cfg := &awsconfig.CloudConfig{}
	err := gcfg.ReadInto(cfg, bytes.NewReader(cloudConfig))
	if fatal := gcfg.FatalOnly(err); fatal != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", fatal)
	}
	if err != nil {
		// the in-tree provider's DisableStrictZoneCheck, or a misspelt name
		klog.Warningf("Cloud config: left aside: %v", err)
	}
	notes, err := understand(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading the service overrides of the cloud config: %w", err)
	}
	for _, note := range notes {
		klog.Warningf("Cloud config: %s", note)
	}
	return cfg, nil
}

// UseFences sets the fences of the leases that this process runs under. A request that changes something and whose
// context carries no fence is sent only while one of them is open. The manager calls it once, before it contends for a
// lease; without leader election with election.Unfenced.
func (c *Cloud) UseFences(fences ...*election.Fence) { c.gate.Use(slices.Clone(fences)...) }

// AWS is the provider itself, for controllers that were written for it.
func (c *Cloud) AWS() *awsv1.Cloud { return c.Cloud }

// SetInformers gives the provider, and our own reading, the cache of Nodes.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	c.Cloud.SetInformers(factory)
	c.nodes = factory.Core().V1().Nodes()
}

// Routes are ours: the provider's list fails as a whole for one route whose instance has no Node.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return c.routes, true }

// LoadBalancer is the provider's, with errors that tell when the fence was closed.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, ok := c.Cloud.LoadBalancer()
	return loadBalancers{inner, c}, ok
}

// StartsEarly implements cloud.EarlyStarter: the provider makes clients, asks for the cluster's version and indexes
// nodes. It writes nothing before a controller calls it.
func (c *Cloud) StartsEarly() bool { return true }

// Probe asks AWS a cheap question, for readiness: it returns nil if the answer came and the credentials are good for
// it.
func (c *Cloud) Probe(ctx context.Context) error { return c.zones.refresh(ctx) }
