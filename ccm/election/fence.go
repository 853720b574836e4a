package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/internal/boottime"
)

// Boottime returns the clock that goes on while the machine is suspended. Go's own monotonic clock stands still then,
// and a guest that was frozen would take its lease for fresh. Where there is no CLOCK_BOOTTIME it is the monotonic
// clock; managers run in production on Linux.
func Boottime() Clock { return bootClock{} }

type bootClock struct{}

func (bootClock) Now() time.Duration { return boottime.Now() }

// ErrFenced is what a write gets instead of being sent once the lease that it depends on is not certainly held. It is
// final for this process: retrying is the next leader's business.
var ErrFenced = errors.New("this process may no longer act")

// Clock is the time that leases are measured with: since some fixed moment, going on while the machine is suspended.
type Clock interface {
	Now() time.Duration
}

// Fence reports whether the writes that depend on one lease may be sent. It starts closed. It is safe for concurrent
// use.
type Fence struct {
	lease string
	clock Clock

	mu      sync.Mutex
	open    bool
	forever bool          // no lease: open until it is revoked
	until   time.Duration // on clock; the fence is closed from then on
	revoked bool          // closed for good
	tenure  Tenure
	// takeover is what TakeoverAt returns instead of the tenure's AdoptedAt; nil for a lease.
	takeover *time.Time
	reason   string // why it is closed
	timer    *time.Timer
	bound    map[uint64]context.CancelCauseFunc // the contexts that end with the current opening
	next     uint64
	refused  uint64
	// abandoned is how many calls that change something were given up and still run. allReturned is closed when none
	// does; nil before the first.
	abandoned   int
	allReturned chan struct{}
}

// Tenure describes a time of holding a lease.
type Tenure struct {
	// Epoch is the lease's count of transitions, which grows by one whenever the holder changes. 0 without a lease.
	Epoch int64
	// AdoptedAt is since when the lease has been held by managers that are built on this package, with no other holder
	// between them. A restart does not move it; a rollback to another manager, and back, does. It is the wall clock's time
	// of the process that adopted it, to be compared with the times in objects. Without a lease it is when the process
	// started.
	AdoptedAt time.Time
	// IsInherited is that a manager of this kind has held the lease before this process, or that this is not known. What
	// such a manager did last is then not in this process's memory.
	IsInherited bool
}

// The reasons why a fence is closed that are not told to Revoke.
const (
	notYet  = "the lease has not been held yet"
	tooLate = "the lease was not renewed in time"
)

// NewFence returns a closed fence for the writes that depend on the named lease.
func NewFence(lease string, clock Clock) *Fence {
	return &Fence{lease: lease, clock: clock, reason: notYet}
}

// Unfenced returns a fence that is open until it is revoked, for a process that runs without leader election.
func Unfenced(adoptedAt time.Time) *Fence {
	return &Fence{
		lease:   "none",
		clock:   Boottime(),
		open:    true,
		forever: true,
		tenure:  Tenure{AdoptedAt: adoptedAt},
	}
}

// UnfencedAfter is Unfenced for a process that started at one time, of a kind of manager that took over at another: see
// RememberTakeover.
func UnfencedAfter(started, takeover time.Time) *Fence {
	f := Unfenced(started)
	f.takeover, f.tenure.IsInherited = &takeover, true
	return f
}

// TakeoverAt is since when managers of this kind have done what the fence is for. Restarts do not move it. It is zero
// when that is not known.
func (f *Fence) TakeoverAt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.takeover != nil {
		return *f.takeover
	}
	return f.tenure.AdoptedAt
}

// Lease is the name of the lease.
func (f *Fence) Lease() string { return f.lease }

// Tenure describes the time of holding the lease that the fence is open for, or was last.
func (f *Fence) Tenure() Tenure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tenure
}

// Check returns nil while the lease is certainly held, and an error that wraps ErrFenced and says why otherwise. Every
// mutating request asks it right before it is sent; an answer must not be kept.
func (f *Fence) Check() error {
	f.mu.Lock()
	ended := f.expire()
	var err error
	if !f.open {
		f.refused++
		err = f.refusal()
	}
	f.mu.Unlock()
	ended.cancel()
	return err
}

// Refused is how many times Check has refused.
func (f *Fence) Refused() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// Extend opens the fence, or keeps it open, until a time on its clock. That is the time of the last renewal, read
// before it was sent, plus the renew deadline. A time that has passed and a revoked fence stay as they are: the answer
// to a renewal may come after the loss was seen.
func (f *Fence) Extend(until time.Duration, tenure Tenure) {
	f.mu.Lock()
	ended := f.expire() // what was bound to an opening that is over must not live on in the new one
	if left := until - f.clock.Now(); left > 0 && !f.revoked {
		f.open, f.until, f.tenure = true, until, tenure
		f.arm(left)
	}
	f.mu.Unlock()
	ended.cancel()
}

// arm sets the timer that ends the contexts of an opening when nothing asks the fence.
func (f *Fence) arm(left time.Duration) {
	if f.timer != nil {
		f.timer.Stop()
	}
	f.timer = time.AfterFunc(left, func() {
		f.mu.Lock()
		ended := f.expire()
		if f.open && !f.forever { // it was extended just now, or the clock is behind the timer's
			f.arm(max(f.until-f.clock.Now(), time.Millisecond))
		}
		f.mu.Unlock()
		ended.cancel()
	})
}

// Revoke closes the fence for good and ends every context that is bound to it before it returns. The reason is what
// refused writes are told.
func (f *Fence) Revoke(reason string) {
	f.mu.Lock()
	ended := f.close(reason)
	if f.reason == notYet {
		f.reason = reason
	}
	f.revoked = true
	f.mu.Unlock()
	ended.cancel()
}

// expire closes the fence if its time is over. The timer may not have fired: it stands still while the machine is
// suspended.
func (f *Fence) expire() ended {
	if f.open && !f.forever && f.clock.Now() >= f.until {
		return f.close(tooLate)
	}
	return ended{}
}

// close ends the current opening, if there is one. The first reason stays. The caller cancels what has ended once it
// has release the lock.
func (f *Fence) close(reason string) ended {
	if !f.open {
		return ended{}
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	f.open, f.reason = false, reason
	e := ended{f.bound, f.refusal()}
	f.bound = nil
	return e
}

func (f *Fence) refusal() error {
	return fmt.Errorf("%w: lease %s: %s", ErrFenced, f.lease, f.reason)
}

// ended is what was bound to an opening that is over.
type ended struct {
	bound map[uint64]context.CancelCauseFunc
	cause error
}

func (e ended) cancel() {
	for _, cancel := range e.bound {
		cancel(e.cause)
	}
}

// Bind returns a context for the calls of a worker: it has the values of ctx, carries the fence, and ends when the
// fence closes. It does not end with ctx's cancellation, which asks workers to take no new work. Work in progress gets
// the time to finish. Its cause wraps ErrFenced. The caller calls cancel once the work is done.
func (f *Fence) Bind(ctx context.Context) (bound context.Context, cancel context.CancelFunc) {
	bound, end := context.WithCancelCause(NewContext(context.WithoutCancel(ctx), f))
	f.mu.Lock()
	ended := f.expire()
	if !f.open {
		end(f.refusal())
		f.mu.Unlock()
		ended.cancel()
		return bound, func() {}
	}
	if f.bound == nil {
		f.bound = map[uint64]context.CancelCauseFunc{}
	}
	id := f.next
	f.next++
	f.bound[id] = end
	f.mu.Unlock()
	return bound, func() {
		f.mu.Lock()
		delete(f.bound, id)
		f.mu.Unlock()
		end(context.Canceled)
	}
}

// NoteAbandoned counts a call that changes something and was given up while it still ran. The lease is not released
// before it has returned, since a successor must not meet it. The caller calls returned then.
func (f *Fence) NoteAbandoned() (returned func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.abandoned == 0 {
		f.allReturned = make(chan struct{})
	}
	f.abandoned++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.abandoned--; f.abandoned == 0 {
			close(f.allReturned)
		}
	})
}

// AbandonedReturned returns a channel that is closed when no call runs that NoteAbandoned has counted. Workers may give
// up more calls later: it is asked for once they have ended.
func (f *Fence) AbandonedReturned() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.allReturned == nil {
		f.allReturned = make(chan struct{})
		close(f.allReturned)
	}
	return f.allReturned
}

type fenceKey struct{}

// NewContext returns a context that carries the fence, for the layers between a controller and the wire that know only
// a context.
func NewContext(ctx context.Context, f *Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// FromContext returns the fence that a context carries, or nil.
func FromContext(ctx context.Context) *Fence {
	f, _ := ctx.Value(fenceKey{}).(*Fence)
	return f
}

// Guard asks the fence that a context carries, or the fallbacks when it carries none. Calls of a provider's own
// goroutines have lost theirs, and may be sent while any lease of the process is held. With neither, the write is
// refused. Nil fallbacks are none.
func Guard(ctx context.Context, fallbacks ...*Fence) error {
	if f := FromContext(ctx); f != nil {
		return f.Check()
	}
	var last *Fence
	for _, f := range fallbacks {
		if f == nil {
			continue
		}
		if last = f; f.passes() {
			break
		}
	}
	if last == nil {
		return fmt.Errorf("%w: the request belongs to no lease", ErrFenced)
	}
	return last.Check()
}

// passes returns what Check would, without counting a refusal.
func (f *Fence) passes() bool {
	f.mu.Lock()
	ended := f.expire()
	open := f.open
	f.mu.Unlock()
	ended.cancel()
	return open
}

// Transport wraps the transport of a client whose writes depend on a fence: requests that change something are refused
// once it is closed. Reads pass. A context's own fence goes before the given one.
func Transport(fallback *Fence, next http.RoundTripper) http.RoundTripper {
	return TransportOfAny([]*Fence{fallback}, next)
}

// TransportOfAny is Transport for a client whose writes belong to no lease in particular: they pass while any of the
// fences is open.
func TransportOfAny(fallbacks []*Fence, next http.RoundTripper) http.RoundTripper {
	return transport{fallbacks, next}
}

type transport struct {
	fallbacks []*Fence
	next      http.RoundTripper
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return t.next.RoundTrip(request)
	}
	ask := func() error { return Guard(request.Context(), t.fallbacks...) }
	if err := ask(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a RoundTripper closes the body also when it fails
		}
		return nil, err
	}
	return t.next.RoundTrip(AskAgain(request, ask))
}

// AskAgain returns the request with a body that can be read only while ask returns nil. A connection may have to be
// made between the first question and the first byte, and the process may be frozen. A body that ends with an error
// ends the request: the other side gets no whole one.
func AskAgain(request *http.Request, ask func() error) *http.Request {
	if request.Body == nil || request.Body == http.NoBody {
		return request
	}
	out := request.WithContext(request.Context()) // a RoundTripper does not change what it is given
	out.Body = askingBody{AskToRead(request.Body, ask), request.Body}
	if again := request.GetBody; again != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return askingBody{AskToRead(body, ask), body}, nil
		}
	}
	return out
}

type askingBody struct {
	io.Reader
	io.Closer
}

// AskToRead is AskAgain for a client that takes the body of a request by itself: a reader that reads only while ask
// returns nil.
func AskToRead(body io.Reader, ask func() error) io.Reader {
	return askingReader{body, ask}
}

type askingReader struct {
	io.Reader

	ask func() error
}

func (r askingReader) Read(p []byte) (int, error) {
	if err := r.ask(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// WrappedRoundTripper lets client-go find the transport below, which it does to close idle connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
