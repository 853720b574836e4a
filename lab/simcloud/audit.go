package simcloud

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// Call is a request that the cloud got.
type Call struct {
	Seq       int64         `json:"seq"` // counts from 1
	Arrived   time.Time     `json:"arrived"`
	Answered  time.Time     `json:"answered,omitzero"` // zero while it is under way
	Caller    string        `json:"caller"`
	Operation api.Operation `json:"operation"`
	// name of the load balancer, range of the route, provider id or name of a single instance
	Object   string  `json:"object,omitempty"`
	Count    int     `json:"count,omitempty"` // of the instances that were asked for
	Mutating bool    `json:"mutating"`        // it is an operation that may change something
	Changed  bool    `json:"changed"`         // it did change something
	Outcome  Outcome `json:"outcome"`
}

// Outcome is how a call ended.
type Outcome string

// The outcomes.
const (
	Pending   Outcome = "pending"   // it is under way
	OK        Outcome = "ok"        // it took effect when it arrived
	Throttled Outcome = "throttled" // 429, without effect
	Failed    Outcome = "failed"    // a fault refused it, without effect
	Hung      Outcome = "hung"      // a fault kept it until somebody gave up, without effect
	NotFound  Outcome = "not-found" // 404
	Refused   Outcome = "refused"   // the request makes no sense, or contradicts what is there
)

// Filter chooses calls. The zero value chooses all.
type Filter struct {
	After      int64           // only calls with a greater Seq
	Callers    []string        // one of them; empty for any
	Operations []api.Operation // one of them; empty for any
	Mutating   bool            // only those
	Changed    bool            // only those
}

func (f Filter) matches(c Call) bool {
	return (len(f.Callers) == 0 || slices.Contains(f.Callers, c.Caller)) &&
		(len(f.Operations) == 0 || slices.Contains(f.Operations, c.Operation)) &&
		(!f.Mutating || c.Mutating) &&
		(!f.Changed || c.Changed)
}

// audit is the log of calls, in the order of their arrival.
type audit struct {
	mu      sync.Mutex
	calls   []Call
	changed chan struct{}
}

// arrive records a call and numbers it.
func (a *audit) arrive(c *Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.Seq, c.Outcome = int64(len(a.calls))+1, Pending
	a.calls = append(a.calls, *c)
	a.announce()
}

// note replaces what is known of a call.
func (a *audit) note(c Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[c.Seq-1] = c
	a.announce()
}

func (a *audit) announce() {
	if a.changed != nil { // somebody waits
		close(a.changed)
		a.changed = nil
	}
}

func (a *audit) chosen(f Filter) []Call {
	out := []Call{}
	for _, c := range a.calls[min(max(f.After, 0), int64(len(a.calls))):] {
		if f.matches(c) {
			out = append(out, c)
		}
	}
	return out
}

// Calls are the chosen calls in the order of their arrival.
func (c *Cloud) Calls(f Filter) []Call {
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	return c.audit.chosen(f)
}

// Seq is the number of the latest call, for a filter that chooses what comes after.
func (c *Cloud) Seq() int64 {
	c.audit.mu.Lock()
	defer c.audit.mu.Unlock()
	return int64(len(c.audit.calls))
}

// Wait blocks until enough says that the chosen calls are what the caller waits for, and returns them. It looks again
// after every arrival and every answer. The error is the context's.
func (c *Cloud) Wait(ctx context.Context, f Filter, enough func([]Call) bool) ([]Call, error) {
	a := &c.audit
	for {
		a.mu.Lock()
		calls := a.chosen(f)
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		if enough(calls) {
			return calls, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return calls, fmt.Errorf("waiting for calls to the simulated cloud: %w", ctx.Err())
		}
	}
}
