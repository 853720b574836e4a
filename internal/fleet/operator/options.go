package operator

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/served"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Target is the user cluster that something is done for.
type Target struct {
	Name string
	// Namespace of its control plane in the seed.
	Namespace string
	// Group that the Cluster was read from.
	Group string
	// Cluster is only read.
	Cluster *kubermaticv1.Cluster
}

// Engine executes migrations and looks at control planes. Each method is about one cluster and may take long; it
// ends with its context.
type Engine interface {
	// Run executes a part or goes on with it, or takes Handover back. Closing stop ends it between two steps.
	Run(ctx context.Context, t Target, part state.Part, back bool, tell func(step.Event), stop <-chan struct{}) error
	// Journal reads how far the parts are, from the seed alone.
	Journal(ctx context.Context, t Target) (state.Journal, error)
	// Owners looks at who runs the cloud loops.
	Owners(ctx context.Context, t Target) (state.Owners, error)
	// Reach reports whether the user cluster's API server answers.
	Reach(ctx context.Context, t Target) error
	// Close lets the connections to the user cluster go.
	Close(t Target)
}

// PartsSeen is what came of bringing the parts around machines about.
type PartsSeen struct {
	state.Parts
	// Detail is for Machines. Did are sentences about what was changed.
	Detail any
	Did    []string
}

// Parts brings about what makes machines and serves volumes: CSI driver, machine-controller, its webhook and
// operating-system-manager.
type Parts interface {
	// Ensure changes what is not as it should be and says what is not ready yet; it waits for nothing.
	Ensure(ctx context.Context, t Target) (PartsSeen, error)
	// RenewToken renews the token of the cloud-controller-manager where it is due, and changes nothing else. It is for
	// completed clusters, for which Ensure is not called any longer.
	RenewToken(ctx context.Context, t Target) error
}

// MachinesAsked is what Machines has to know of the rest of the cluster.
type MachinesAsked struct {
	// CCMReady: cloud-controller-managers run every loop.
	CCMReady bool
	Parts    PartsSeen
	// Wanted: the cluster's owner asks for MachineDeployments to be restarted. Hold is why no further one may be begun
	// now, a sentence; empty when one may.
	Wanted bool
	Hold   string
}

// Machines looks at the machines of a cluster and restarts MachineDeployments.
type Machines interface {
	// Pass looks once, and does at most one thing. did says what, and is empty when nothing was done.
	Pass(ctx context.Context, t Target, asked MachinesAsked) (seen state.Machines, did string, err error)
}

// Rules judge Cluster objects.
type Rules interface {
	// Refusals are the sentences of the rules that an object breaks as it is. inTree is that its control plane was seen
	// with an in-tree provider.
	Refusals(ctx context.Context, c *kubermaticv1.Cluster, inTree bool) []string
	// Repair writes what the mutating webhook would have: the annotations, and what goes with them.
	Repair(ctx context.Context, group string, c *kubermaticv1.Cluster) (written bool, err error)
}

// Unjudging are Rules that may know too little of a Cluster to judge it. Their Refusals say so and nothing else then.
type Unjudging interface {
	// IsUnjudged reports whether that is so of a Cluster now.
	IsUnjudged(ctx context.Context, c *kubermaticv1.Cluster) bool
}

// Options of an Operator.
type Options struct {
	// Kube and Dynamic reach the seed. Their writes have to be fenced by the caller.
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface

	Engine   Engine
	Parts    Parts
	Machines Machines
	Rules    Rules

	// Installation names this operator and its other replicas in the Clusters that it migrates (AnnotationOperator).
	// Two installations that act on one cluster would overwrite each other's status, and each would revert the other's
	// changes. Empty: no cluster is claimed.
	Installation string

	// Definitions judges the CRDs of Clusters that the seed has; a group whose CRD would drop what is written is left
	// alone. Nil for no judgement.
	Definitions func(ctx context.Context) ([]served.Verdict, error)

	// Limits of decisions; state.DefaultLimits when zero.
	Limits state.Limits
	// MaxParallel is how many control planes are changed at a time; default 10.
	MaxParallel int
	// MaxParallelMachines is in how many clusters MachineDeployments are restarted at a time; default 5.
	MaxParallelMachines int
	// MaxWatches is of how many clusters machines are watched at a time while they are replaced; default 32. Those of
	// further ones are polled.
	MaxWatches int
	// StallAfter is how long a run may be without a new step before its place goes to another cluster; default 2
	// minutes.
	StallAfter time.Duration
	// Workers reconcile; default 4. Looks is how many user clusters are looked at at a time; default 16. Half as many
	// again are for those that do not answer.
	Workers, Looks int
	// LookTimeout bounds one look; default 30 seconds. WriteTimeout bounds one write to the seed; default 10 seconds.
	LookTimeout, WriteTimeout time.Duration
	// Discover is how often it is asked which of the groups the seed serves; default 30 seconds.
	Discover time.Duration

	// Recorder takes the events of Clusters; nil for none.
	Recorder record.EventRecorder
	// Metrics are made by NewMetrics; nil for ones that are not served.
	Metrics *Metrics
	Log     logr.Logger
}

func (o *Options) complete() error {
	if o.Kube == nil || o.Dynamic == nil || o.Engine == nil || o.Parts == nil || o.Machines == nil || o.Rules == nil {
		return errors.New("making the operator: it needs clients of the seed, an engine, parts, machines and rules")
	}
	if o.Limits == (state.Limits{}) {
		o.Limits = state.DefaultLimits()
	}
	if o.Limits.Version == "" {
		o.Limits.Version = "devel" // the original's schema wants one in each condition
	}
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&o.StallAfter, 2 * time.Minute},
		{&o.LookTimeout, 30 * time.Second},
		{&o.WriteTimeout, 10 * time.Second},
		{&o.Discover, 30 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	for _, n := range []struct {
		value *int
		or    int
	}{{&o.MaxParallel, 10}, {&o.MaxParallelMachines, 5}, {&o.MaxWatches, 32}, {&o.Workers, 4}, {&o.Looks, 16}} {
		if *n.value <= 0 {
			*n.value = n.or
		}
	}
	if o.Recorder == nil {
		o.Recorder = &record.FakeRecorder{}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	return nil
}
