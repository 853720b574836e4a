package election

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrFenced is what a write gets instead of being sent once the lease that it depends on is not certainly held. It is final for this process:
// retrying is the next leader's business.
var ErrFenced = errors.New("this process may no longer act")

// Clock is the time that leases are measured with: since some fixed moment, going on while the machine is suspended.
type Clock interface {
	Now() time.Duration
}

// Fence tells whether the writes that depend on one lease may be sent. It starts closed. It is safe for concurrent use.
type Fence struct {
	lease string
	clock Clock

	mu      sync.Mutex
	until   time.Duration // on clock; the fence is closed from then on
	forever bool          // no lease: open until it is revoked
	tenure  Tenure
	reason  string        // why it is closed
	ended   chan struct{} // closed when the current opening ends; nil while closed
	timer   *time.Timer
	refused uint64
}

// Tenure describes a time of holding a lease.
type Tenure struct {
	// Epoch is the lease's count of transitions, which grows by one whenever the holder changes. 0 without a lease.
	Epoch int64
	// AdoptedAt is since when the lease has been held by managers that are built on this package, one after the other and nobody else between
	// them. A restart does not move it; a rollback to another manager, and back, does. It is the wall clock's time of the process that adopted
	// it, to be compared with the times in objects. Without a lease it is when the process started.
	AdoptedAt time.Time
}

// NewFence returns a closed fence for the writes that depend on the named lease.
func NewFence(lease string, clock Clock) *Fence {
	return &Fence{lease: lease, clock: clock, reason: "the lease has not been held yet"}
}

// Unfenced returns a fence that is open until it is revoked, for a process that runs without leader election.
func Unfenced(adoptedAt time.Time) *Fence {
	return &Fence{lease: "none", clock: Boottime(), forever: true, ended: make(chan struct{}), tenure: Tenure{AdoptedAt: adoptedAt}}
}

// Lease is the name of the lease.
func (f *Fence) Lease() string { return f.lease }

// Tenure describes the time of holding the lease that the fence is open for, or was last.
func (f *Fence) Tenure() Tenure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tenure
}

// Check returns nil while the lease is certainly held, and an error that wraps ErrFenced and says why otherwise. Every mutating request asks it
// right before it is sent; an answer must not be kept.
func (f *Fence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil && (f.forever || f.clock.Now() < f.until) {
		return nil
	}
	f.close("the lease was not renewed in time")
	f.refused++
	return fmt.Errorf("%w: lease %s: %s", ErrFenced, f.lease, f.reason)
}

// Refused is how many times Check has refused.
func (f *Fence) Refused() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// Extend opens the fence, or keeps it open, until a time on its clock: that of the last renewal, read before it was sent, plus the renew deadline.
func (f *Fence) Extend(until time.Duration, tenure Tenure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := until - f.clock.Now()
	if left <= 0 {
		return
	}
	if f.ended != nil && f.clock.Now() >= f.until {
		f.close("the lease was not renewed in time") // what was bound to the earlier opening must not live on in the new one
	}
	f.until, f.tenure = until, tenure
	if f.ended == nil {
		f.ended = make(chan struct{})
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	ended := f.ended
	f.timer = time.AfterFunc(left, func() { f.expire(ended) })
}

// expire closes the fence when the timer of an opening fires. The timer stands still while the machine is suspended, which Check does not.
func (f *Fence) expire(ended chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == ended && !f.forever && f.clock.Now() >= f.until {
		f.close("the lease was not renewed in time")
	}
}

// Revoke closes the fence and ends every context that is bound to it. The reason is what refused writes are told.
func (f *Fence) Revoke(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close(reason)
}

// close ends the current opening, if there is one. The first reason stays.
func (f *Fence) close(reason string) {
	if f.ended == nil {
		return
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	close(f.ended)
	f.ended, f.reason, f.until, f.forever = nil, reason, 0, false
}

// Bind returns a context for the calls of a worker: it has the values of ctx, carries the fence, and ends when the fence closes. It does not end
// with ctx's cancellation, which asks workers to take no new work: what is being done then is given the time to finish. Its cause wraps ErrFenced.
// The caller calls cancel once the work is done.
func (f *Fence) Bind(ctx context.Context) (bound context.Context, cancel context.CancelFunc) {
	inner, cancelCause := context.WithCancelCause(NewContext(context.WithoutCancel(ctx), f))
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended == nil {
		cancelCause(f.Check())
		return inner, func() {}
	}
	stop := make(chan struct{})
	var once sync.Once
	go func() {
		select {
		case <-ended:
			cancelCause(f.Check())
		case <-stop:
			cancelCause(context.Canceled)
		}
	}()
	return inner, func() { once.Do(func() { close(stop) }) }
}

type fenceKey struct{}

// NewContext returns a context that carries the fence, for the layers between a controller and the wire that know only a context.
func NewContext(ctx context.Context, f *Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// FromContext returns the fence that a context carries, or nil.
func FromContext(ctx context.Context) *Fence {
	f, _ := ctx.Value(fenceKey{}).(*Fence)
	return f
}

// Guard asks the fence that a context carries, or the fallback when it carries none: calls of a provider's own goroutines have lost theirs.
// With neither, the write is refused.
func Guard(ctx context.Context, fallback *Fence) error {
	f := FromContext(ctx)
	if f == nil {
		f = fallback
	}
	if f == nil {
		return fmt.Errorf("%w: the request belongs to no lease", ErrFenced)
	}
	return f.Check()
}

// Transport wraps the transport of a client whose writes depend on a fence: requests that change something are refused once it is closed. Reads
// pass. A context's own fence goes before the given one.
func Transport(fallback *Fence, next http.RoundTripper) http.RoundTripper {
	return transport{fallback, next}
}

type transport struct {
	fallback *Fence
	next     http.RoundTripper
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		if err := Guard(request.Context(), t.fallback); err != nil {
			if request.Body != nil {
				_ = request.Body.Close() // a RoundTripper closes the body also when it fails
			}
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport below, which it does to close idle connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
