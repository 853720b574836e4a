package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// caller makes the calls to one provider.
type caller struct {
	provider  string
	options   Options
	budget    *budget
	abandoned *abandonedCalls
	// hasTypedErrors is what the provider says of itself, see TypedErrors.
	hasTypedErrors bool
}

// call is one call to the provider, and what is done around it.
type call struct {
	operation string // the method's name
	object    object
	inputs    inputs // what the provider is given
	class     Class
	timeout   time.Duration
	fence     *election.Fence // for a context that carries none
	mutates   bool
	retries   bool    // it is made again when the cloud throttles it
	ticket    *ticket // the budget's, if the caller has got it already
}

// object is what a call is about: "load balancer of service" and "default/web".
type object struct{ kind, name string }

// String names the object in errors.
func (o object) String() string {
	if o.name == "" {
		return o.kind
	}
	return fmt.Sprintf("%s %q", o.kind, o.name)
}

const (
	// grace is how long a provider has to return after its context has ended. What returns within it was not abandoned.
	grace = time.Second
	// retryFor is how long calls that the cloud throttles are made again by the guard. Controllers retry with a longer
	// back-off than the guard's.
	retryFor              = 2 * time.Minute
	firstBackoff, longest = 100 * time.Millisecond, 5 * time.Second
)

// do makes a call: it waits for the rate limit, and asks the fence if the call mutates. It returns the provider's
// answer, or an error if the provider panics or does not answer in time.
func do[T any](ctx context.Context, c *caller, call call, f func(context.Context) (T, error)) (T, error) {
	begun, backoff := time.Now(), firstBackoff
	for {
		answer, outcome, err := attempt(ctx, c, call, f)
		if !call.retries || outcome != OutcomeThrottled || time.Since(begun) > retryFor {
			return answer, err
		}
		call.ticket = nil
		retriesTotal.WithLabelValues(c.provider, call.operation).Inc()
		if !term.SleepUnlessDone(ctx, backoff/2+rand.N(backoff)) {
			return answer, err
		}
		backoff = min(2*backoff, longest)
	}
}

func attempt[T any](
	ctx context.Context,
	c *caller,
	call call,
	f func(context.Context) (T, error),
) (answer T, outcome Outcome, err error) {
	if call.mutates && election.FromContext(ctx) == nil && call.fence != nil {
		caller := ctx
		bound, cancel := call.fence.Bind(caller)
		defer cancel()
		defer context.AfterFunc(caller, cancel)() // a caller that knows no fence means the end of its context
		ctx = bound
	}
	begun := time.Now()
	if call.ticket, err = c.admit(ctx, call); err == nil {
		begun = time.Now()
		answer, err = callInGoroutine(ctx, c, call, f)
	}
	outcome = c.classify(inputsOf(ctx, call.inputs), err)
	if call.ticket != nil && !errors.Is(err, ErrStillRunning) || outcome == OutcomeFenced {
		c.observe(call.operation, outcome, time.Since(begun))
	}
	c.budget.report(call.ticket, outcome)
	return answer, outcome, err
}

// TypedErrors is what a provider implements whose errors always wrap what its SDK returned. Then no text makes a call
// count as throttled. A text may quote what users wrote elsewhere, as names and tags in the cloud.
type TypedErrors interface{ HasTypedErrors() bool }

// classify is how a call with these inputs ended.
func (c *caller) classify(in inputs, err error) Outcome {
	outcome := in.classify(err)
	if outcome == OutcomeThrottled && c.hasTypedErrors {
		answer := answerOf(err)
		return cmp.Or(ofCode(answer.code), ofStatus(answer.status), OutcomeOther)
	}
	return outcome
}

// admit waits for the budget. A call that the fence will refuse does not wait.
func (c *caller) admit(ctx context.Context, call call) (*ticket, error) {
	if call.mutates {
		if err := election.Guard(ctx, call.fence); err != nil {
			return nil, err
		}
	}
	if call.ticket != nil {
		return call.ticket, nil
	}
	defer pauseTracking(ctx)()
	admitted, err := c.budget.acquire(ctx, call.class)
	if err != nil {
		return nil, fmt.Errorf(
			"waiting until the call rate of class %s allows to call %s for %s: %w",
			call.class,
			call.operation,
			call.object,
			err,
		)
	}
	return admitted, nil
}

// reply is what a provider's method returned.
type reply[T any] struct {
	answer T
	err    error
}

// callInGoroutine makes the call in a goroutine of its own: a provider that hangs, whatever its context says, must not
// take a worker with it.
func callInGoroutine[T any](
	ctx context.Context,
	c *caller,
	call call,
	f func(context.Context) (T, error),
) (answer T, err error) {
	if err := c.abandoned.allows(call); err != nil {
		return answer, err
	}
	limited, cancel := context.WithTimeout(ctx, call.timeout)
	defer cancel()
	replies := make(chan reply[T], 1)
	gauge := inFlight.WithLabelValues(c.provider, call.operation)
	gauge.Inc()
	go func() {
		var r reply[T]
		returned := false
		defer func() {
			if p := recover(); !returned {
				r = reply[T]{err: broken(call, p)}
			}
			gauge.Dec()
			replies <- r
		}()
		if call.mutates {
			r.err = election.Guard(limited, call.fence)
		}
		if r.err == nil {
			r.answer, r.err = f(limited)
		}
		if r.err != nil {
			_ = r.err.Error() // a nil pointer in an error panics here, and not where it is printed
		}
		returned = true
	}()
	r, ok := wait(limited, replies)
	if !ok {
		c.abandoned.abandon(ctx, call, errorOf(replies))
		return answer, noAnswerError(ctx, call)
	}
	if r.err != nil && limited.Err() != nil && ctx.Err() == nil && interrupted(r.err) != "" {
		r.err = fmt.Errorf(
			"calling %s of the cloud provider for %s: no answer within %s: %w",
			call.operation,
			call.object,
			call.timeout,
			r.err,
		)
	}
	return r.answer, normalizeError(ctx, r.err)
}

// wait returns the reply, or nothing if there is none shortly after the context has ended.
func wait[T any](ctx context.Context, replies <-chan T) (r T, ok bool) {
	select {
	case r = <-replies:
		return r, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r = <-replies:
		return r, true
	case <-timer.C:
		return r, false
	}
}

// noAnswerError is the error of a call that is given up.
func noAnswerError(ctx context.Context, call call) error {
	if ctx.Err() == nil {
		return fmt.Errorf(
			"calling %s of the cloud provider for %s: no answer within %s: %w",
			call.operation,
			call.object,
			call.timeout,
			context.DeadlineExceeded,
		)
	}
	return fmt.Errorf("calling %s of the cloud provider for %s: no answer: %w", call.operation, call.object, contextError(ctx))
}

// contextError is why a context ended: what errors.Is finds in it is the context's own error and its cause.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// sentinels are the errors that controllers, upstream's at least, compare with ==.
var sentinels = []error{
	cloudprovider.ImplementedElsewhere,
	cloudprovider.InstanceNotFound,
	cloudprovider.NotImplemented,
	cloudprovider.DiskNotFound,
}

// normalizeError turns a provider's error into one that controllers understand. A sentinel that the provider wrapped is
// returned bare, since upstream's controllers compare with ==. The end of a context says that it was the fence's.
func normalizeError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			if err != sentinel { //nolint:errorlint // whether it is wrapped is the question
				klog.FromContext(ctx).
					V(2).
					Info("The cloud provider wrapped an error that controllers compare with", "wrapped", err.Error())
			}
			return sentinel
		}
	}
	if cause := context.Cause(
		ctx,
	); cause != nil && errors.Is(cause, election.ErrFenced) &&
		!errors.Is(err, election.ErrFenced) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// ErrStillRunning is what a call gets whose object is still being worked on by an earlier call, that was given up for
// not answering. Otherwise the earlier call could create a load balancer after the later one had deleted it, and no
// controller would know.
var ErrStillRunning = errors.New("a call that was given up has not returned yet")

// The bounds of reads that hang. Reads do no harm when made twice, but each that hangs holds memory, and perhaps a
// connection.
const (
	hungReadsOfOne = 2
	hungReads      = 200
)

// stuckAfter is how long after it was given up a call makes the process unhealthy. Only a restart helps against a call
// that never returns.
const stuckAfter = 10 * time.Minute

// abandonedCalls remembers the calls that were given up and have not returned.
type abandonedCalls struct {
	provider string

	mu    sync.Mutex
	calls []*abandoned // the oldest first
}

type abandoned struct {
	call  call
	since time.Time
}

func newAbandonedCalls(provider string) *abandonedCalls { return &abandonedCalls{provider: provider} }

// allows returns why a call must not be made now. No call is made for an object that a call of unknown outcome may
// still be changing. "There is no such load balancer" would let the Service go while one is being made.
func (h *abandonedCalls) allows(c call) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	same, reads := 0, 0
	for _, a := range h.calls {
		switch {
		case a.call.mutates && a.call.object == c.object:
			return a.refuseCall(c)
		case a.call.mutates:
		case !c.mutates && a.call.object == c.object && a.call.operation == c.operation:
			same++
			reads++
		default:
			reads++
		}
		if same >= hungReadsOfOne || !c.mutates && reads >= hungReads {
			return a.refuseCall(c)
		}
	}
	return nil
}

func (a *abandoned) refuseCall(c call) error {
	return fmt.Errorf("calling %s of the cloud provider for %s: %w: %s for %s was given up %s ago",
		c.operation, c.object, ErrStillRunning, a.call.operation, a.call.object, time.Since(a.since).Round(time.Second))
}

// abandon notes that a call was given up, until it returns. The lease of ctx is not released before one that changes
// something has returned: a successor could meet it.
func (h *abandonedCalls) abandon(ctx context.Context, c call, returned func() error) {
	a := &abandoned{c, time.Now()}
	noteReturned := func() {}
	if fence := election.FromContext(ctx); c.mutates && fence != nil {
		noteReturned = fence.NoteAbandoned()
	}
	h.mu.Lock()
	h.calls = append(h.calls, a)
	h.mu.Unlock()
	gauge := callsAbandoned.WithLabelValues(h.provider, c.operation)
	gauge.Inc()
	klog.InfoS(
		"Gave up a call to the cloud provider that does not answer",
		"operation",
		c.operation,
		"object",
		c.object.String(),
	)
	go func() {
		err := returned()
		noteReturned()
		gauge.Dec()
		h.mu.Lock()
		h.calls = slices.DeleteFunc(h.calls, func(other *abandoned) bool { return other == a })
		h.mu.Unlock()
		klog.InfoS(
			"A call to the cloud provider that was given up has returned",
			"operation",
			c.operation,
			"object",
			c.object.String(),
			"result",
			err,
		)
	}()
}

// check fails while a call that was given up long ago has not returned.
func (h *abandonedCalls) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.calls { // the oldest first
		if age := time.Since(a.since); age > stuckAfter {
			return fmt.Errorf(
				"%s of the cloud provider for %s was given up %s ago and has not returned",
				a.call.operation,
				a.call.object,
				age.Round(time.Second),
			)
		}
	}
	return nil
}

// Check is a health check of the process: it fails while a call hangs so long that only a restart helps.
func (s *Guard) Check(*http.Request) error { return s.caller.abandoned.check() }

// errorOf returns what waits for the reply of an abandoned call and returns its error.
func errorOf[T any](replies <-chan reply[T]) func() error {
	return func() error { return (<-replies).err }
}

// ErrPanic is what a call gets in which the provider panicked. One object with which a provider cannot deal must not
// end the process, and so the work on all others.
var ErrPanic = errors.New("the cloud provider panicked")

// broken is the error of a call that did not return, with what the provider panicked with: nil if it ended its
// goroutine.
func broken(c call, panicked any) error {
	if panicked == nil {
		panicked = "it ended the goroutine that it was called in"
	}
	logPanic(c.operation, panicked)
	return fmt.Errorf("calling %s of the cloud provider for %s: %w: %v", c.operation, c.object, ErrPanic, panicked)
}

// panicked are the operations of which a stack was logged. A controller comes to the place that panics with every
// retry.
var panicked sync.Map

func logPanic(operation string, value any) {
	if _, logged := panicked.LoadOrStore(operation, true); !logged {
		klog.ErrorS(nil, "The cloud provider panicked; further panics in this operation are only in the errors of its calls",
			"operation", operation, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	}
}
