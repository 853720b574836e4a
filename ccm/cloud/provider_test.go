package cloud

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
)

// provider is a cloud provider of which a test says what its methods do. Interfaces that are nil are not implemented.
type provider struct {
	name        string
	balancer    cloudprovider.LoadBalancer
	instances   cloudprovider.Instances
	instancesV2 cloudprovider.InstancesV2
	zones       cloudprovider.Zones
	clusters    cloudprovider.Clusters
	routes      cloudprovider.Routes
	initialized int
}

func (p *provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	p.initialized++
}

func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return p.balancer, p.balancer != nil
}

func (p *provider) Instances() (cloudprovider.Instances, bool) {
	return p.instances, p.instances != nil
}

func (p *provider) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return p.instancesV2, p.instancesV2 != nil
}

func (p *provider) Zones() (cloudprovider.Zones, bool) { return p.zones, p.zones != nil }

func (p *provider) Clusters() (cloudprovider.Clusters, bool) { return p.clusters, p.clusters != nil }

func (p *provider) Routes() (cloudprovider.Routes, bool) { return p.routes, p.routes != nil }

func (p *provider) ProviderName() string {
	if p.name == "" {
		return "test"
	}
	return p.name
}

func (p *provider) HasClusterID() bool { return true }

// withInformers is a provider that wants informers.
type withInformers struct {
	*provider
	informers int
}

func (p *withInformers) SetInformers(informers.SharedInformerFactory) { p.informers++ }

// withLister is a provider that describes many instances in one call.
type withLister struct {
	*provider
	max  int
	list func(context.Context, []*corev1.Node, Want) ([]InstanceState, error)

	mu    sync.Mutex
	calls []listed
}

// listed is a call of ListInstances.
type listed struct {
	Nodes []string
	Want  Want
}

func (p *withLister) MaxInstances() int { return p.max }

func (p *withLister) ListInstances(ctx context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error) {
	p.mu.Lock()
	p.calls = append(p.calls, listed{names(nodes), want})
	p.mu.Unlock()
	if p.list != nil {
		return p.list(ctx, nodes, want)
	}
	return running(nodes), nil
}

// sizes are how many nodes each call was about.
func (p *withLister) sizes() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sizes []int
	for _, call := range p.calls {
		sizes = append(sizes, len(call.Nodes))
	}
	return sizes
}

func names(nodes []*corev1.Node) []string {
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}

// running are the states of nodes whose instances run. Their metadata names them.
func running(nodes []*corev1.Node) []InstanceState {
	states := make([]InstanceState, len(nodes))
	for i, node := range nodes {
		states[i] = InstanceState{Exists: true, Metadata: &cloudprovider.InstanceMetadata{ProviderID: "test://" + node.Name}}
	}
	return states
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}, Spec: corev1.NodeSpec{ProviderID: "test://" + name}}
}

func nodes(n int) []*corev1.Node {
	nodes := make([]*corev1.Node, n)
	for i := range nodes {
		nodes[i] = node(fmt.Sprintf("node-%d", i))
	}
	return nodes
}

// bucket is how a cloud limits calls.
type bucket struct {
	rate, burst float64
	latency     time.Duration

	mu              sync.Mutex
	tokens          float64
	at              time.Time
	served, refused int
	firstAt, lastAt time.Time
}

func newBucket(rate, burst float64, latency time.Duration) *bucket {
	return &bucket{rate: rate, burst: burst, latency: latency, tokens: burst, at: time.Now(), firstAt: time.Now()}
}

// count is how many calls were served so far.
func (b *bucket) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served
}

// statusError is the answer of a cloud that is no success, as SDKs have it.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("no success (%d %s)", int(e), http.StatusText(int(e)))
}

func (e statusError) HTTPStatusCode() int { return int(e) }

// call is one call to the cloud.
func (b *bucket) call(ctx context.Context) error {
	b.mu.Lock()
	now := time.Now()
	b.tokens = min(b.burst, b.tokens+b.rate*now.Sub(b.at).Seconds())
	b.at, b.lastAt = now, now
	var err error
	if b.tokens >= 1 {
		b.tokens--
		b.served++
	} else {
		b.refused++
		err = statusError(http.StatusTooManyRequests)
	}
	b.mu.Unlock()
	select {
	case <-time.After(b.latency):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
