package gce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	k8scloud "github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud"
	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud/filter"
	"github.com/GoogleCloudPlatform/k8s-cloud-provider/pkg/cloud/meta"
	"golang.org/x/oauth2"
	compute "google.golang.org/api/compute/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	upstream "k8s.io/cloud-provider-gcp/providers/gce"

	"github.com/transplant-dev/transplant/provider/gce/client"
	"github.com/transplant-dev/transplant/provider/transport"
)

// lane is upstream's provider. Its calls go one after the other. It serialises most of them itself, and each of its
// requests has to be known as one of a controller's call.
type lane struct {
	project   *project
	instances *instances
	turn      chan struct{} // holds one value while a call is made

	mu        sync.Mutex
	clients   cloudprovider.ControllerClientBuilder // nil before Initialize
	stop      <-chan struct{}
	informers informers.SharedInformerFactory // nil before SetInformers

	// these are the call's that has the turn
	made     *upstream.Cloud // nil before the first call
	end      func()          // what made has started
	services k8scloud.Cloud
	zones    []string // those that made has
	bound    *transport.Binding
	watched  chan struct{} // closed once the cluster's ID is watched
	listing  *listing      // nil until a call needs it
}

func newLane(p *project, i *instances) *lane {
	return &lane{project: p, instances: i, turn: make(chan struct{}, 1)}
}

func (l *lane) initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients, l.stop = clients, stop
}

func (l *lane) useInformers(factory informers.SharedInformerFactory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.informers = factory
}

// callTimeout bounds a call of upstream's provider, which takes an hour. The service controller calls again, and the
// call goes on from where it was.
const callTimeout = 10 * time.Minute

// call calls upstream's provider. Requests of the call end with its context and carry its fence.
func (l *lane) call(ctx context.Context, do func(context.Context, *upstream.Cloud) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("waiting for another call of the load balancers' provider to end: %w", context.Cause(ctx))
	}
	defer func() { <-l.turn }()
	if err := l.open(ctx); err != nil {
		return err
	}
	call := transport.NewCall(ctx)
	l.bound.Use(call)
	defer l.bound.Use(nil)
	l.listing = nil
	if err := l.knowCluster(ctx); err != nil {
		return err
	}
	return call.Correct(do(ctx, l.made))
}

// unused is a token source for upstream's own clients, which send nothing.
type unused struct{}

func (unused) Token() (*oauth2.Token, error) { return &oauth2.Token{AccessToken: "unused"}, nil }

// GoString is for upstream, which logs its token source.
func (unused) GoString() string { return "gce.unused{}" }

// open makes upstream's provider on our clients, and another one once there are other zones: it keeps those that it was
// made with. It sends no request that changes something.
func (l *lane) open(ctx context.Context) error {
	if l.made != nil {
		zones, err := l.project.managedZones(ctx)
		if err != nil || slices.Equal(zones, l.zones) {
			return err
		}
		l.end()
		l.made = nil
	}
	l.mu.Lock()
	clients, stop, factory := l.clients, l.stop, l.informers
	l.mu.Unlock()
	if clients == nil {
		return errors.New("the load balancers' provider is not started yet")
	}
	config, err := l.config(ctx)
	if err != nil {
		return err
	}
	bound := l.project.client.Bind()
	api, err := l.project.client.Services(ctx, bound)
	if err != nil {
		return err
	}
	services := k8scloud.NewGCE(&k8scloud.Service{
		GA: api.GA, Beta: api.Beta, Alpha: api.Alpha, RateLimiter: &limiter{l.project, bound},
		ProjectRouter: &router{config.ProjectID, config.NetworkProjectID},
	})
	made, err := upstream.CreateGCECloudWithCloud(config, &withInstances{services, l})
	if err != nil {
		return fmt.Errorf("making the load balancers' provider, which needs Google's default credentials next to those of "+
			"the cloud config: %w", err)
	}
	// The network and the subnetwork are read by these clients of upstream's.
	own := made.ComputeServices()
	*own.GA, *own.Beta, *own.Alpha = *api.GA, *api.Beta, *api.Alpha
	l.watched = make(chan struct{})
	l.bound = bound
	lives, end := context.WithCancel(wait.ContextForChannel(stop)) //nolint:contextcheck // it outlives the call
	made.Initialize(&clusterClients{clients, l, sync.OnceFunc(func() { close(l.watched) })}, lives.Done())
	if factory != nil {
		made.SetInformers(factory)
	}
	l.made, l.end, l.services, l.zones = made, end, services, config.ManagedZones
	return nil
}

// config is what upstream makes of a gce.conf, without the requests that it sends for that.
func (l *lane) config(ctx context.Context) (*upstream.CloudConfig, error) {
	name, err := l.project.name(ctx)
	if err != nil {
		return nil, err
	}
	network, err := l.project.networkName(ctx)
	if err != nil {
		return nil, err
	}
	zones, err := l.project.managedZones(ctx)
	if err != nil {
		return nil, err
	}
	conf := l.project.conf
	out := &upstream.CloudConfig{
		APIEndpoint: conf.Endpoint, ContainerAPIEndpoint: conf.ContainerAPIEndpoint,
		ProjectID: name, NetworkProjectID: network,
		Region: conf.Region, Regional: conf.Regional, Zone: conf.LocalZone, ManagedZones: zones,
		NetworkURL: l.project.networkURL(network), SecondaryRangeName: conf.SecondaryRangeName, NodeTags: conf.NodeTags,
		NodeInstancePrefix: conf.NodeInstancePrefix, TokenSource: unused{}, StackType: conf.StackType,
		AlphaFeatureGate: upstream.NewAlphaFeatureGate(conf.AlphaFeatures),
	}
	switch {
	case strings.Contains(conf.SubnetworkName, "/"):
		out.SubnetworkURL = conf.SubnetworkName
	case conf.SubnetworkName != "":
		out.SubnetworkURL = l.project.resourceURL(network, "regions/"+conf.Region+"/subnetworks/"+conf.SubnetworkName)
	}
	return out, nil
}

// knowCluster reads the ID of the cluster, which is in the ConfigMap kube-system/ingress-uid. Upstream makes one where
// there is none.
func (l *lane) knowCluster(ctx context.Context) error {
	select {
	case <-l.watched:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the load balancers' provider to start: %w", context.Cause(ctx))
	}
	if _, err := l.made.ClusterID.GetID(); err != nil {
		return fmt.Errorf("reading the cluster's ID from the ConfigMap %s/%s: %w",
			upstream.UIDNamespace, upstream.UIDConfigMapName, err)
	}
	return nil
}

// limiter is asked by upstream's clients before each request. The fence and the metrics are further below, where the
// request is known.
type limiter struct {
	project *project
	bound   *transport.Binding
}

// Accept implements k8scloud.RateLimiter. It ends a wait for an operation with the controller's call.
//
//nolint:contextcheck // upstream's own context lasts an hour; the call's takes its place
func (l *limiter) Accept(ctx context.Context, key *k8scloud.RateLimitKey) error {
	if call := l.bound.Call(); call != nil {
		ctx = call.Context()
	}
	if key.Service == "Operations" {
		return l.project.pause(ctx)
	}
	return context.Cause(ctx)
}

// Observe implements k8scloud.RateLimiter. It notes that an operation has ended with an error: the answer that says so
// is no refusal, and upstream only logs some.
func (l *limiter) Observe(_ context.Context, err error, key *k8scloud.RateLimitKey) {
	if call := l.bound.Call(); call != nil && key.Service == "Operations" && client.FailsCall(err) {
		call.NoteFailure(err, true)
	}
}

// router sends requests to the project that has the object, as upstream's own does.
type router struct{ project, network string }

// ProjectID implements k8scloud.ProjectRouter.
func (r *router) ProjectID(_ context.Context, _ meta.Version, service string) string {
	switch service {
	case "Firewalls", "Routes", "Subnetworks", "Networks":
		return r.network
	}
	return r.project
}

// withInstances is upstream's clients with another list of instances. Upstream removes the instances from load
// balancers that its list lacks, and its list is each zone's, several times in a call.
type withInstances struct {
	k8scloud.Cloud

	lane *lane
}

// Instances implements k8scloud.Cloud.
func (w *withInstances) Instances() k8scloud.Instances {
	return &listedInstances{w.Cloud.Instances(), w.lane}
}

type listedInstances struct {
	k8scloud.Instances

	lane *lane
}

// List is of the call's one list of all zones.
func (l *listedInstances) List(
	_ context.Context,
	zone string,
	matching *filter.F,
	_ ...k8scloud.Option,
) ([]*compute.Instance, error) {
	call := l.lane.bound.Call()
	if call == nil {
		return nil, errors.New("listing instances: no controller has asked for them")
	}
	list, err := l.lane.list(call.Context()) //nolint:contextcheck // upstream's own lasts an hour
	if err != nil {
		return nil, err
	}
	var out []*compute.Instance
	for at, instance := range list.known {
		if at.zone == zone && (matching == filter.None || matching.Match(instance)) {
			out = append(out, instance)
		}
	}
	return out, list.problem
}

// list is all instances of the project, read once in a call.
func (l *lane) list(ctx context.Context) (*listing, error) {
	if l.listing != nil {
		return l.listing, nil
	}
	list, err := l.instances.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := list.read(ctx, ""); err != nil {
		return nil, err
	}
	l.listing = list
	return list, nil
}
