package cloud

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
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

// Shell is what stands in front of one provider, for all leases of a process: metrics, call budget, cache of instances.
type Shell struct {
	provider cloudprovider.Interface
}

// Options are the settings of a shell. The zero value has the defaults.
type Options struct{}

// New returns the shell of a provider.
func New(provider cloudprovider.Interface, _ Options) *Shell { return &Shell{provider: provider} }

// For returns the provider for the controllers that run under a lease: calls that mutate are refused once its fence is closed. It implements
// cloudprovider.InformerUser if the provider does, and nothing that the provider does not.
func (s *Shell) For(_ *election.Fence) cloudprovider.Interface { return s.provider }

// Unwrap returns the provider below a shell, or the cloud itself. Controllers that come with a provider assert its type.
func Unwrap(c cloudprovider.Interface) cloudprovider.Interface { return c }

// Instances answers what controllers ask about instances, with as few calls as the provider allows.
type Instances interface {
	// Read describes the instances of nodes, in their order, one state each. Nodes that are asked for by several callers at the same time are
	// asked for once. A state that was read at most maxAge ago is given again; 0 asks the cloud. An error of a call is in the Err of every node
	// that it was for. Read waits for the call budget; it returns when it has all states or ctx ends.
	Read(ctx context.Context, nodes []*v1.Node, want Want, maxAge time.Duration) []InstanceState
	// BatchSize is for how many nodes one call to the cloud serves: 1 where the provider has no InstancesLister.
	BatchSize() int
}

// InstancesOf returns the reader of a cloud's instances: the shared one of the shell that it came from, or one of its own for a cloud without
// a shell. It is false if the cloud implements neither InstancesLister, nor InstancesV2, nor Instances.
func InstancesOf(_ cloudprovider.Interface) (Instances, bool) { return nil, false }
