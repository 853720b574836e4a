// Package cloud decides what is between the controllers and a provider: who may call it, how often, and what is known
// of its calls.
//
//	controllers --> Shell.For(fence) --class, budget, fence, deadline, metrics--> provider
//	            --> Instances --cache, single flight, batch--'  (InstancesLister, or InstancesV2, or Instances and Zones)
//
// It works with any cloudprovider.Interface, unmodified. A provider adds what is near the wire (an SDK's middleware, an
// HTTP transport) with package election. One EnsureLoadBalancer is ten to twenty requests, and this package sees one.
//
// A provider that hangs costs its caller one timeout, and the call is abandoned. Until it returns, no call is made for
// the same load balancer or route. Only a restart helps against one that never returns, which is what Shell.Check is
// for.
package cloud

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// EarlyStarter is what a provider implements to be started before a lease is held, and so on standby too. It then has
// nothing left to read when the lease is won. Others are started when the first lease is won, as upstream does it,
// because they may write then, or start loops that do.
type EarlyStarter interface {
	// StartsEarly reports whether Initialize and SetInformers write nothing, to the cluster or to the cloud, and start
	// nothing that writes. With true, the provider also answers before them which of the interfaces it has. A lease
	// with nothing to run under it is then left alone.
	StartsEarly() bool
}

// Finisher is what a provider implements to end what it holds in the cloud before the process ends. Sessions are such:
// a cloud has only so many of them.
type Finisher interface {
	// Finish is called once, after the last controller has ended and leases are released. It returns when ctx ends.
	Finish(ctx context.Context)
}

// StartsEarly reports whether a provider, or the one below a guard, asks to be started before a lease is held.
func StartsEarly(c cloudprovider.Interface) bool {
	early, ok := Unwrap(c).(EarlyStarter)
	return ok && early.StartsEarly()
}

// guarded is a provider as the controllers of one lease see it.
type guarded struct {
	guard *Guard
	fence *election.Fence
}

var _ cloudprovider.Interface = (*guarded)(nil)

func (g *guarded) toGuard() *Guard { return g.guard }

// Initialize initialises the provider once, however many leases there are. Upstream does it once per lease, at the same
// time and without a lock.
func (g *guarded) Initialize(clientBuilder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	g.guard.initialize.Do(func() { g.guard.provider.Initialize(clientBuilder, stop) })
}

// LoadBalancer implements cloudprovider.Interface.
func (g *guarded) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancer, ok := g.guard.provider.LoadBalancer()
	if !ok || balancer == nil {
		return nil, false
	}
	return loadBalancer{g, balancer}, true
}

// Instances implements cloudprovider.Interface.
func (g *guarded) Instances() (cloudprovider.Instances, bool) {
	instances, ok := g.guard.provider.Instances()
	if !ok || instances == nil {
		return nil, false
	}
	return instancesV1{caller: g.guard.caller, fence: g.fence, provider: instances}, true
}

// InstancesV2 implements cloudprovider.Interface.
func (g *guarded) InstancesV2() (cloudprovider.InstancesV2, bool) {
	instances, ok := g.guard.provider.InstancesV2()
	if !ok || instances == nil {
		return nil, false
	}
	return instancesV2{caller: g.guard.caller, provider: instances}, true
}

// Zones implements cloudprovider.Interface.
func (g *guarded) Zones() (cloudprovider.Zones, bool) {
	zones, ok := g.guard.provider.Zones()
	if !ok || zones == nil {
		return nil, false
	}
	return zonesOf{caller: g.guard.caller, provider: zones}, true
}

// Clusters implements cloudprovider.Interface.
func (g *guarded) Clusters() (cloudprovider.Clusters, bool) {
	clusters, ok := g.guard.provider.Clusters()
	if !ok || clusters == nil {
		return nil, false
	}
	return clustersOf{g.guard.caller, clusters}, true
}

// Routes implements cloudprovider.Interface.
func (g *guarded) Routes() (cloudprovider.Routes, bool) {
	routes, ok := g.guard.provider.Routes()
	if !ok || routes == nil {
		return nil, false
	}
	return routesOf{g, routes}, true
}

// ProviderName implements cloudprovider.Interface.
func (g *guarded) ProviderName() string { return g.guard.provider.ProviderName() }

// HasClusterID implements cloudprovider.Interface.
func (g *guarded) HasClusterID() bool { return g.guard.provider.HasClusterID() }

// informerUser gives the provider its informers once, however many leases there are.
type informerUser struct {
	guard *Guard
	user  cloudprovider.InformerUser
}

// SetInformers implements cloudprovider.InformerUser.
func (u informerUser) SetInformers(factory informers.SharedInformerFactory) {
	u.guard.informers.Do(func() { u.user.SetInformers(factory) })
}

// guardedLister is the provider's lister, metered.
type guardedLister struct {
	caller *caller
	lister InstancesLister
}

var _ InstancesLister = guardedLister{}

// ListInstances implements InstancesLister.
func (l guardedLister) ListInstances(ctx context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error) {
	return do(
		ctx,
		l.caller,
		l.caller.listing(ctx, nodes),
		func(ctx context.Context) ([]InstanceState, error) { return l.lister.ListInstances(ctx, nodes, want) },
	)
}

// MaxInstances implements InstancesLister.
func (l guardedLister) MaxInstances() int { return max(l.lister.MaxInstances(), 1) }

// Class is a kind of call to the cloud. Each has its share of the call rate, so that load balancers that are
// throttled cannot keep nodes from being initialised.
type Class string

// The classes.
const (
	ClassNode         Class = "node"          // initialising nodes and keeping their addresses
	ClassLifecycle    Class = "lifecycle"     // whether an instance is gone or shut down
	ClassLoadBalancer Class = "load-balancer" // everything of cloudprovider.LoadBalancer
	ClassRoute        Class = "route"         // everything of cloudprovider.Routes
	ClassOther        Class = "other"
)

type classKey struct{}

// WithClass returns a context whose calls count for a class. Calls of LoadBalancer and Routes have theirs without it.
func WithClass(ctx context.Context, class Class) context.Context {
	return context.WithValue(ctx, classKey{}, class)
}

// classOf is the class that a context's calls count for, or the fallback.
func classOf(ctx context.Context, fallback Class) Class {
	if class, ok := ctx.Value(classKey{}).(Class); ok {
		return class
	}
	return fallback
}

type lowPriorityKey struct{}

// WithLowPriority returns a context whose calls wait behind the others of their class while the cloud throttles. It is
// for work that no user waits for, such as the members of 2,000 load balancers after a node has joined.
func WithLowPriority(ctx context.Context) context.Context {
	return context.WithValue(ctx, lowPriorityKey{}, true)
}

func isOfLowPriority(ctx context.Context) bool { return ctx.Value(lowPriorityKey{}) != nil }

type trackedKey struct{}

// tracked is a call of which its caller wants to know how long the provider takes.
type tracked struct {
	start func() (done func())

	mu    sync.Mutex
	ended bool
	done  func() // of what was started last; nil while the call waits
}

// Track follows the call that is made with the context that it returns. It calls start at once, and done when the
// caller calls end. In between, a call that waits because of the call rate counts as not started. A provider that was
// not called does not hang, however long the cloud throttles.
func Track(ctx context.Context, start func() (done func())) (tracking context.Context, end func()) {
	t := &tracked{start: start, done: start()}
	return context.WithValue(ctx, trackedKey{}, t), func() { t.stop(true) }
}

func (t *tracked) stop(forGood bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = t.ended || forGood
	if t.done != nil {
		t.done()
		t.done = nil
	}
}

func (t *tracked) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended && t.done == nil {
		t.done = t.start()
	}
}

// pauseTracking says that a call waits, to the caller that tracks it. It returns what says that the wait is over.
func pauseTracking(ctx context.Context) (resume func()) {
	t, ok := ctx.Value(trackedKey{}).(*tracked)
	if !ok {
		return func() {}
	}
	t.stop(false)
	return t.resume
}

// LoadBalancerTimeout is how long a call that changes a load balancer may take. It is 0, for no limit, if the cloud did
// not come from a guard.
func LoadBalancerTimeout(c cloudprovider.Interface) time.Duration {
	if g := guardOf(c); g != nil {
		return g.caller.options.LoadBalancerTimeout
	}
	return 0
}

// guardOf is the guard that a cloud came from; nil for a cloud that did not come from one.
func guardOf(c cloudprovider.Interface) *Guard {
	if guarded, ok := c.(interface{ toGuard() *Guard }); ok {
		return guarded.toGuard()
	}
	return nil
}

// Guard is what stands in front of one provider, for all leases of a process: metrics, call rate, cache of instances.
type Guard struct {
	provider cloudprovider.Interface
	caller   *caller
	reader   *reader

	initialize, informers sync.Once
}

// New returns the guard of a provider.
func New(provider cloudprovider.Interface, o Options) *Guard {
	registerMetrics()
	o = o.withDefaults()
	caller := &caller{
		provider:  provider.ProviderName(),
		options:   o,
		budget:    newBudget(o.MaxQPS),
		abandoned: newAbandonedCalls(provider.ProviderName()),
	}
	if typed, ok := provider.(TypedErrors); ok {
		caller.hasTypedErrors = typed.HasTypedErrors()
	}
	return &Guard{provider: provider, caller: caller, reader: newReader(provider, caller)}
}

// For returns the provider for the controllers that run under a lease: calls that mutate are refused once its fence is
// closed. It implements cloudprovider.InformerUser and InstancesLister if the provider does, and nothing else that the
// provider does not.
func (s *Guard) For(fence *election.Fence) cloudprovider.Interface {
	all := &guarded{guard: s, fence: fence}
	user, isUser := s.provider.(cloudprovider.InformerUser)
	lister, isLister := s.provider.(InstancesLister)
	switch {
	case isUser && isLister:
		return struct {
			*guarded
			informerUser
			guardedLister
		}{all, informerUser{s, user}, guardedLister{s.caller, lister}}
	case isUser:
		return struct {
			*guarded
			informerUser
		}{all, informerUser{s, user}}
	case isLister:
		return struct {
			*guarded
			guardedLister
		}{all, guardedLister{s.caller, lister}}
	}
	return all
}

// Unwrap returns the provider below a guard, or the cloud itself. Controllers that come with a provider assert its
// type.
func Unwrap(c cloudprovider.Interface) cloudprovider.Interface {
	if g := guardOf(c); g != nil {
		return g.provider
	}
	return c
}

// IsGuarded reports whether a cloud came from a guard.
func IsGuarded(c cloudprovider.Interface) bool { return guardOf(c) != nil }

// Instances answers what controllers ask about instances, with as few calls as the provider allows.
type Instances interface {
	// Read describes the instances of nodes, in their order, one state each. Nodes that are asked for by several
	// callers at the same time are asked for once. A state that was read at most maxAge ago is given again; 0 asks the
	// cloud. An error of a call is in the Err of every node that it was for. Read obeys the call rate; it returns when
	// it has all states or ctx ends.
	Read(ctx context.Context, nodes []*corev1.Node, want Want, maxAge time.Duration) []InstanceState
	// BatchSize is for how many nodes one call to the cloud serves: 1 where the provider has no InstancesLister.
	BatchSize() int
}

// InstancesOf returns the reader of a cloud's instances. It is the shared one of the guard that it came from, or a new
// one for a cloud without a guard. It is false if the cloud implements neither InstancesLister, nor InstancesV2, nor
// Instances.
func InstancesOf(c cloudprovider.Interface) (Instances, bool) {
	var guard *Guard
	if guardedCloud, ok := c.(interface{ toGuard() *Guard }); ok {
		guard = guardedCloud.toGuard()
	} else {
		guard = New(c, Options{})
	}
	if !canDescribeInstances(guard.provider) {
		return nil, false
	}
	return guard.reader, true
}

// canDescribeInstances reports whether a provider can be asked about instances at all.
func canDescribeInstances(provider cloudprovider.Interface) bool {
	if _, ok := provider.(InstancesLister); ok {
		return true
	}
	if instances, ok := provider.InstancesV2(); ok && instances != nil {
		return true
	}
	instances, ok := provider.Instances()
	return ok && instances != nil
}

// Partial is what a provider embeds that does not have everything: it has no instances, load balancers, routes, zones
// or clusters, and nothing to initialise. What the provider has, it implements itself.
type Partial struct{}

// Initialize implements cloudprovider.Interface.
func (Partial) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface.
func (Partial) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Instances implements cloudprovider.Interface.
func (Partial) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (Partial) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones implements cloudprovider.Interface.
func (Partial) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (Partial) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (Partial) Routes() (cloudprovider.Routes, bool) { return nil, false }

// HasClusterID implements cloudprovider.Interface: the controllers refuse to start without one.
func (Partial) HasClusterID() bool { return true }
