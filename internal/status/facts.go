package status

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/plan/options"
)

// Facts are what was read of a cluster.
type Facts struct {
	Cluster v1.Cluster
	// Now is the time of the API server, or that of this machine, which IsLocalTime tells.
	Now         time.Time
	IsLocalTime bool
	// Journal is nil when no migration was started, or when it may not be read, which JournalUnknown tells.
	Journal        *v1.Journal
	JournalUnknown bool
	// Untrusted is why no command goes on with the journal: it breaks the rules that hold for a migration's. Nil when
	// it keeps them.
	Untrusted error
	// Lock is nil when it is free.
	Lock *lock.State
	// LockUnknown reports whether the lock may not be read, so that a nil Lock says nothing.
	LockUnknown bool
	Control     *corev1.ConfigMap
	// Leases are the managers' and the migration's, by name; one that is not there is absent.
	Leases map[string]*coordinationv1.Lease
	// Nodes by name; NodesKnown is false when they may not be read.
	Nodes      map[string]*corev1.Node
	NodesKnown bool
	// Pods of the control plane.
	Pods []*corev1.Pod
	// Events that were reported about nodes, the control plane's pods and Services.
	Events []*corev1.Event
	// NotRead are the sentences that name what could not be read.
	NotRead []string
	// Owners maps a loop to component@pod as the managers of a hosted control plane say it. It is nil where leases alone
	// say who may run a loop. OwnersFrom says of each loop how that is known.
	Owners, OwnersFrom map[string]string
	// Health is what those who asked the managers found in the way. Judge sorts it in with what the objects show.
	Health []v1.Blocker
}

// steps are those of the plan that is executed now, or was last.
func (f Facts) steps() []v1.Step {
	if f.Journal.Rollback != nil {
		return f.Journal.Rollback.Steps
	}
	return f.Journal.Plan.Steps
}

// estimateOf is how many seconds a step takes by the plan's estimate. A canary that is watched for an hour is not slow.
func (f Facts) estimateOf(s v1.Step) float64 { return options.Estimate(f.Journal.Plan.Options, s) }

// isRunning reports whether the run is begun and not ended.
func (f Facts) isRunning() bool {
	return f.Journal != nil && f.Journal.IsUnderWay()
}

// clockTolerance is by how much the clock of the executing process may seem to be off before its times are corrected.
// The API server stamps its writes to the second.
const clockTolerance = 2 * time.Second

// skew is what has to be added to a time of who executes the run to have one of the API server's. The lock shows
// both times of the same renewal.
func (f Facts) skew() time.Duration {
	if f.IsLocalTime || f.Lock == nil || f.Lock.Touched.IsZero() || f.Lock.Renewed.IsZero() {
		return 0
	}
	if d := f.Lock.Touched.Sub(f.Lock.Renewed); d.Abs() > clockTolerance {
		return d.Round(time.Second)
	}
	return 0
}

// since is how long ago something happened by the clock of who executes the run; never negative.
func (f Facts) since(t time.Time) time.Duration {
	return max(0, f.Now.Sub(t.Add(f.skew())))
}

// roundSeconds rounds a time to whole seconds: no clock here is better than that.
func roundSeconds(d time.Duration) float64 { return d.Round(time.Second).Seconds() }
