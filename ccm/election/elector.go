// Package election decides whether this process may act. It holds the leases under which cloud loops run. It closes the
// fence in front of every write at the moment when another process may have taken over.
//
//	lease --renewed--> Fence --Check, Bind--> cloud requests that mutate, kube writes
//	      --other holder seen, too old, drained, released--> ErrFenced
//
// The rules, and what they avoid:
//
//   - A lease that was last renewed at t is good until t + renew deadline. t is read before the request is sent, on a
//     clock that goes on while the machine is suspended. A leader that was frozen for longer finds its fence closed at
//     its first instruction. client-go's elector lets the controllers of such a leader run for another renew deadline
//     (kubernetes/kubernetes#44887).
//   - Seeing another holder ends leadership at once. So does a lease that another client released or deleted: any
//     manager may take it from then on. client-go counts it as one more failed renewal. Deleting a lease is thus a way
//     to force an election.
//   - Leases are observed from the start, on standby and before they may be contended for. So the migration lease's
//     expiry need not be awaited after that of the main lease. A watch tells of a release within milliseconds; without
//     leave to watch, polling does.
//   - A lease is released when the workers under it have drained, the migration lease before the main lease. Workers
//     that do not end in time are cut off, and the lease is left to expire: a successor must not meet their last call.
//   - A lease is taken soon after its holder's kubelet has said that the holder has ended, see package testimony.
//   - A loss ends leadership of all leases of the process, which then exits. Nothing is released: a worker may be in a
//     call.
//
// On the wire this is client-go's election by Lease objects: holderIdentity, leaseDurationSeconds, renewTime,
// acquireTime, and leaseTransitions, which grows with every change of holder. Contenders of both kinds understand each
// other. Two annotations are ours; see AdoptedAnnotation and testimony.Annotation.
//
// What no fence can stop is the one request that passed its last check before the fence closed. Writes to
// kube-apiserver carry UID or resourceVersion preconditions for that reason. docs/explanation/fence.md says all this to
// operators.
package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/transplant-dev/transplant/ccm/election/testimony"
)

// ErrLost is what Run returns when a lease that this process held is not certainly held any more. The process has to
// exit.
var ErrLost = errors.New("leadership is lost")

// Lease names a lease and says what this process wants of it.
type Lease struct {
	Namespace, Name string
	// Contend is that this process wants to hold the lease. Without it, the lease is only observed.
	Contend bool
	// After is the name of a lease that must be held before this one is contended for. The migration lease follows the
	// main lease, so that both stay in one process. It is observed from the start all the same.
	After string
}

// Config says which leases a process contends for, and what happens when it holds them.
type Config struct {
	// Identity names this process among those that contend, and no other one, not even its predecessor on the same host.
	Identity string
	// Client reads and writes leases. It has no fence and a rate limit of its own. It needs no timeout: every request gets
	// RenewDeadline/2 by its context, and a timeout of the client would also cut the watches. Its user needs get, create
	// and update for leases; watch is optional.
	Client coordinationv1client.LeasesGetter
	// Recorder gets LeaderElection events as those of client-go's elector. It may be nil.
	Recorder record.EventRecorder
	Leases   []Lease
	// Testimony may be nil: a lease whose holder crashed is waited for then.
	Testimony *Testimony

	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// DrainTimeout bounds how long Run waits for workers at its end.
	DrainTimeout time.Duration
	// Clock is Boottime when nil.
	Clock Clock
	// wall is the wall clock, for the times that are written into leases. Tests set it.
	wall func() time.Time

	// OnStarted is called in a goroutine of its own when a lease is won. ctx carries the fence, and is cancelled for the
	// drain or the loss.
	OnStarted func(ctx context.Context, lease string)
	// Drained returns a channel that is closed when the workers under the lease have ended. Calls that they gave up, see
	// Fence.AbandonedReturned, are theirs. It is called after their context was cancelled. With nil there is nothing to
	// wait for.
	Drained func(lease string) <-chan struct{}
}

// Testimony lets kubelets testify that the holder of a lease has ended, so that its lease is not waited for.
type Testimony struct {
	// Self is this process as its kubelet knows it, so that others hear of its end. It may be nil.
	Self *testimony.Self
	// Pods watches the pods of other holders. Its user needs watch for pods in the namespace of the leases. Without it,
	// leases are waited for.
	Pods corev1client.PodsGetter
}

// Elector contends for leases. It is safe for concurrent use.
type Elector struct {
	config     Config
	candidates []*candidate

	mu   sync.Mutex
	lost error                   // why leadership ended, once it did
	stop context.CancelCauseFunc // ends everything that Run does
}

// New returns an elector for the leases of the config.
func New(config Config) (*Elector, error) {
	if config.Clock == nil {
		config.Clock = Boottime()
	}
	if config.wall == nil {
		config.wall = time.Now
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	e := &Elector{config: config}
	for _, l := range config.Leases {
		e.candidates = append(e.candidates, newCandidate(e, l))
	}
	for _, c := range e.candidates {
		if c.After != "" {
			c.after = e.candidate(c.After)
			c.after.dependents = append(c.after.dependents, c)
		}
	}
	export(e)
	return e, nil
}

// self is this process as its kubelet knows it; nil where that is not known.
func (c *Config) self() *testimony.Self {
	if c.Testimony == nil {
		return nil
	}
	return c.Testimony.Self
}

func (c *Config) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Identity == "" {
		refuse("the identity is empty: every process needs one of its own")
	}
	if c.RetryPeriod <= 0 {
		refuse("the retry period is %s and has to be more than 0", c.RetryPeriod)
	}
	if least := time.Duration(pollJitter * float64(c.RetryPeriod)); c.RenewDeadline <= least {
		refuse("the renew deadline is %s and has to be more than %s, %.1f retry periods", c.RenewDeadline, least, pollJitter)
	}
	if c.LeaseDuration <= c.RenewDeadline {
		refuse("the lease duration is %s and has to be more than the renew deadline, %s", c.LeaseDuration, c.RenewDeadline)
	}
	contends := map[string]bool{}
	for _, l := range c.Leases {
		if _, twice := contends[l.Name]; twice {
			refuse("lease %q is listed twice", l.Name)
		}
		if before, listed := contends[l.After]; l.After != "" && !(listed && before) {
			refuse("lease %q follows lease %q, which is not contended for before it", l.Name, l.After)
		}
		contends[l.Name] = l.Contend
	}
	return errors.Join(errs...)
}

// Run contends until ctx ends, then drains and releases, and returns nil. When a held lease is lost, it revokes all
// fences and cancels the workers' contexts. Then it returns at once an error that wraps ErrLost. Any other error says
// which lease could not be released. Run is called once.
func (e *Elector) Run(ctx context.Context) error {
	own, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // leases are renewed while workers drain
	defer stop(nil)
	e.mu.Lock()
	e.stop = stop
	e.mu.Unlock()
	var watches, loops sync.WaitGroup
	unreleased := make([]error, len(e.candidates))
	for i, c := range e.candidates {
		watches.Go(func() { c.watch(own) })
		if c.listener != nil {
			watches.Go(func() { c.listener.Run(own) })
		}
		loops.Go(func() { unreleased[i] = c.run(ctx, own) })
	}
	if len(e.candidates) == 0 {
		<-ctx.Done()
	}
	loops.Wait()
	stop(nil)
	watches.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost != nil {
		return e.lost
	}
	return errors.Join(unreleased...)
}

// lose ends leadership of all leases: one process runs the loops of all of them, and it has to exit. No lease is
// released, because workers may be in the middle of a call.
func (e *Elector) lose(c *candidate, reason string) {
	c.fence.Revoke(reason)
	e.config.self().Retract()
	for _, other := range e.candidates {
		other.fence.Revoke(fmt.Sprintf("lease %s was lost", c.Name))
	}
	e.mu.Lock()
	if e.lost == nil {
		e.lost = fmt.Errorf("%w: lease %s: %s", ErrLost, c.Name, reason)
	}
	lost, stop := e.lost, e.stop
	e.mu.Unlock()
	for _, other := range e.candidates {
		other.stopLeading(lost)
	}
	stop(lost)
}

func (e *Elector) candidate(lease string) *candidate {
	for _, c := range e.candidates {
		if c.Name == lease {
			return c
		}
	}
	return nil
}

// Fence is the fence of a lease of the config; nil for others.
func (e *Elector) Fence(lease string) *Fence {
	if c := e.candidate(lease); c != nil {
		return c.fence
	}
	return nil
}

// Leading reports whether this process holds the lease. It is information, and no leave to write: that is the fence's.
func (e *Elector) Leading(lease string) bool {
	c := e.candidate(lease)
	return c != nil && c.isLeading()
}

// Check is the health of a lease. It fails when this process holds the lease and has not renewed it for too long, when
// its loop is stuck, and after a loss. A standby is healthy.
func (e *Elector) Check(lease string) error {
	e.mu.Lock()
	lost := e.lost
	e.mu.Unlock()
	c := e.candidate(lease)
	if lost != nil || c == nil {
		return lost
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, config := c.now(), e.config
	if age := now - c.renewed; c.held && age > config.RenewDeadline+config.RetryPeriod {
		return fmt.Errorf("lease %q is held and was last renewed %s ago", lease, age.Round(time.Second))
	}
	// One round of the loop is at most a few requests, each of half a renew deadline.
	if age := now - c.tick; c.tick != 0 && age > config.LeaseDuration+config.RenewDeadline {
		return fmt.Errorf("the loop of lease %q has been stuck for %s", lease, age.Round(time.Second))
	}
	return nil
}

// alive notes that the loop is in a new round, or that it has ended.
func (c *candidate) alive(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick = 0
	if on {
		c.tick = max(c.now(), 1)
	}
}
