package cloud

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// Class is a kind of call to the cloud. Each has its share of the call budget, so that load balancers that are throttled cannot keep nodes from
// being initialised.
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

// Shell is what stands in front of one provider, for all leases of a process: metrics, call budget, cache of instances.
type Shell struct {
	provider cloudprovider.Interface
	caller   *caller
	reader   *reader

	initialize, informers sync.Once
}

// New returns the shell of a provider.
func New(provider cloudprovider.Interface, o Options) *Shell {
	registerMetrics()
	o = o.withDefaults()
	caller := &caller{provider: provider.ProviderName(), options: o, budget: newBudget(o.MaxQPS), hung: newHung(provider.ProviderName())}
	return &Shell{provider: provider, caller: caller, reader: newReader(provider, caller)}
}

// For returns the provider for the controllers that run under a lease: calls that mutate are refused once its fence is closed. It implements
// cloudprovider.InformerUser and InstancesLister if the provider does, and nothing else that the provider does not.
func (s *Shell) For(fence *election.Fence) cloudprovider.Interface {
	all := &guarded{shell: s, fence: fence}
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

// Unwrap returns the provider below a shell, or the cloud itself. Controllers that come with a provider assert its type.
func Unwrap(c cloudprovider.Interface) cloudprovider.Interface {
	if shelled, ok := c.(interface{ shellOf() *Shell }); ok {
		return shelled.shellOf().provider
	}
	return c
}

// IsGuarded reports whether a cloud came from a shell.
func IsGuarded(c cloudprovider.Interface) bool {
	_, shelled := c.(interface{ shellOf() *Shell })
	return shelled
}

// Instances answers what controllers ask about instances, with as few calls as the provider allows.
type Instances interface {
	// Read describes the instances of nodes, in their order, one state each. Nodes that are asked for by several callers at the same time are
	// asked for once. A state that was read at most maxAge ago is given again; 0 asks the cloud. An error of a call is in the Err of every node
	// that it was for. Read waits for the call budget; it returns when it has all states or ctx ends.
	Read(ctx context.Context, nodes []*corev1.Node, want Want, maxAge time.Duration) []InstanceState
	// BatchSize is for how many nodes one call to the cloud serves: 1 where the provider has no InstancesLister.
	BatchSize() int
}

// InstancesOf returns the reader of a cloud's instances: the shared one of the shell that it came from, or one of its own for a cloud without
// a shell. It is false if the cloud implements neither InstancesLister, nor InstancesV2, nor Instances.
func InstancesOf(c cloudprovider.Interface) (Instances, bool) {
	var shell *Shell
	if shelled, ok := c.(interface{ shellOf() *Shell }); ok {
		shell = shelled.shellOf()
	} else {
		shell = New(c, Options{})
	}
	if !describes(shell.provider) {
		return nil, false
	}
	return shell.reader, true
}

// describes is whether a provider can be asked about instances at all.
func describes(provider cloudprovider.Interface) bool {
	if _, ok := provider.(InstancesLister); ok {
		return true
	}
	if instances, ok := provider.InstancesV2(); ok && instances != nil {
		return true
	}
	instances, ok := provider.Instances()
	return ok && instances != nil
}
