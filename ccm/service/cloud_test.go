package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// fakeCloud is a cloud with load balancers in it.
type fakeCloud struct {
	mu        sync.Mutex
	balancers map[types.UID]fakeBalancer
	calls     []string
	delay     time.Duration
	addresses int
	// before is asked before a call; an error is its result. It may block. nil for nothing.
	before func(ctx context.Context, call, service string) error
	// answers replaces the status that ensuring returns; nil for the balancer's.
	answers func(service *corev1.Service) *corev1.LoadBalancerStatus
	none    bool // the cloud has no load balancers
	blind   bool // it says that there is no load balancer, whoever asks
}

type fakeBalancer struct {
	address string
	nodes   []string
	port    int32
}

func newFakeCloud() *fakeCloud { return &fakeCloud{balancers: map[types.UID]fakeBalancer{}} }

func (f *fakeCloud) call(ctx context.Context, call string, service *corev1.Service, nodes []*corev1.Node) error {
	f.mu.Lock()
	entry := call + " " + service.Name
	if nodes != nil || call == "ensure" || call == "update" {
		entry += " " + fmt.Sprint(names(nodes))
	}
	f.calls = append(f.calls, entry)
	before, delay := f.before, f.delay
	f.mu.Unlock()
	service.Labels = map[string]string{"changed-by": "a provider without manners"}
	if delay > 0 {
		pass(delay)
	}
	if before != nil {
		return before(ctx, call, service.Name)
	}
	return nil
}

func names(nodes []*corev1.Node) []string {
	out := []string{}
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return out
}

func (f *fakeCloud) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// count counts the calls so far that begin so.
func (f *fakeCloud) count(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, call := range f.calls {
		if strings.HasPrefix(call, prefix) {
			n++
		}
	}
	return n
}

func (f *fakeCloud) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// on asks something before each call from now on; nil for nothing.
func (f *fakeCloud) on(before func(ctx context.Context, call, service string) error) {
	f.set(func() { f.before = before })
}

// slow makes each call from now on take this long. A test with hundreds of Services needs it: a watch of client-go's fake holds a hundred events, and
// time stands still until they are read.
func (f *fakeCloud) slow(delay time.Duration) {
	f.set(func() { f.delay = delay })
}

func (f *fakeCloud) has() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for uid, b := range f.balancers {
		out = append(out, fmt.Sprintf("%s %s :%d %v", uid, b.address, b.port, b.nodes))
	}
	slices.Sort(out)
	return out
}

func (f *fakeCloud) GetLoadBalancer(ctx context.Context, _ string, s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if err := f.call(ctx, "get", s, nil); err != nil {
		return nil, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.balancers[s.UID]
	if !ok || f.blind {
		return nil, false, nil
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: b.address}}}, true, nil
}

func (f *fakeCloud) GetLoadBalancerName(_ context.Context, _ string, s *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(s)
}

func (f *fakeCloud) EnsureLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	if err := f.call(ctx, "ensure", s, nodes); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.balancers[s.UID]
	if !ok {
		f.addresses++
		b.address = fmt.Sprintf("192.0.2.%d", f.addresses)
	}
	b.nodes, b.port = names(nodes), s.Spec.Ports[0].Port
	f.balancers[s.UID] = b
	if f.answers != nil {
		return f.answers(s), nil
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: b.address}}}, nil
}

func (f *fakeCloud) UpdateLoadBalancer(ctx context.Context, _ string, s *corev1.Service, nodes []*corev1.Node) error {
	if err := f.call(ctx, "update", s, nodes); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.balancers[s.UID]
	if !ok {
		return errors.New("there is no such load balancer")
	}
	b.nodes = names(nodes)
	f.balancers[s.UID] = b
	return nil
}

func (f *fakeCloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, s *corev1.Service) error {
	if err := f.call(ctx, "delete", s, nil); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.balancers, s.UID)
	return nil
}

func (f *fakeCloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

func (f *fakeCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return f, !f.none }

func (f *fakeCloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (f *fakeCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

func (f *fakeCloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

func (f *fakeCloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

func (f *fakeCloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

func (f *fakeCloud) ProviderName() string { return "fake" }

func (f *fakeCloud) HasClusterID() bool { return true }

// failing makes calls of a kind fail.
func failing(kind string, err error) func(context.Context, string, string) error {
	return func(_ context.Context, call, _ string) error {
		if call == kind {
			return err
		}
		return nil
	}
}

// trying notes when it is ensured, since the first time.
func trying(tries *[]time.Duration, err error) func(context.Context, string, string) error {
	var begun time.Time
	return func(_ context.Context, call, _ string) error {
		if begun.IsZero() {
			begun = time.Now()
		}
		if call == "ensure" {
			*tries = append(*tries, time.Since(begun))
		}
		return err
	}
}

// inAnyOrder compares calls of workers that run next to each other.
var inAnyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })
