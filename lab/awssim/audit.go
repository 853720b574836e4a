package awssim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// Audit is the log of calls, in memory and, if asked for, on disk. A call is in memory from its arrival; its line is
// written when its outcome is certain: Effect is set exactly when the call had its effect (a read: when its answer was
// computed), Error is the code that the client got, or one of ConnectionDropped, ClientGone and ServerClosed. Both are
// set when a fault spoiled the answer to a call that did take effect.
type Audit struct {
	mu      sync.Mutex
	calls   []v1alpha1.CloudCall
	written []bool
	changed chan struct{}
	file    *os.File
	failure error
}

// Filter chooses calls. The zero value chooses all.
type Filter struct {
	// Keys, Services and Actions: one of them; empty for any.
	Keys, Services, Actions []string
	// Mutating, if set, chooses only calls that change something (or only those that don't).
	Mutating *bool
	// Since and Until bound the time of arrival: Since <= Arrived < Until. Zero for no bound.
	Since, Until time.Time
}

func newAudit(path string) (*Audit, error) {
	a := &Audit{changed: make(chan struct{})}
	if path == "" {
		return a, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	a.file = f
	return a, nil
}

// Calls are the chosen calls in the order of their arrival. What their maps and lists hold must not be changed.
func (a *Audit) Calls(f Filter) []v1alpha1.CloudCall {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.chosen(f)
}

// Wait blocks until enough says that the chosen calls are what the caller waits for, and returns them. It looks again
// after every arrival and every outcome. The error is the context's.
func (a *Audit) Wait(
	ctx context.Context,
	f Filter,
	enough func([]v1alpha1.CloudCall) bool,
) ([]v1alpha1.CloudCall, error) {
	for {
		a.mu.Lock()
		calls, changed := a.chosen(f), a.changed
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

func (a *Audit) chosen(f Filter) []v1alpha1.CloudCall {
	out := []v1alpha1.CloudCall{}
	for _, c := range a.calls {
		if f.matches(c) {
			out = append(out, c)
		}
	}
	return out
}

func (f Filter) matches(c v1alpha1.CloudCall) bool {
	among := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	return among(f.Keys, c.Key) && among(f.Services, c.Service) && among(f.Actions, c.Action) &&
		(f.Mutating == nil || *f.Mutating == c.Mutating) &&
		(f.Since.IsZero() || !c.Arrived.Before(f.Since)) && (f.Until.IsZero() || c.Arrived.Before(f.Until))
}

// arrive records a call whose request has been read, and numbers it.
func (a *Audit) arrive(c v1alpha1.CloudCall) (seq int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.Seq = int64(len(a.calls)) + 1
	a.calls = append(a.calls, c)
	a.written = append(a.written, false)
	a.announce()
	return c.Seq
}

// finish records a call's outcome. Resources replace those known at arrival unless nil.
func (a *Audit) finish(seq int64, effect *time.Time, refused *wire.Error, resources []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.calls[seq-1]
	c.Effect = effect
	if refused != nil {
		c.Error, c.Unknown = refused.Code, refused.Unknown
	}
	if resources != nil {
		c.Resources = resources
	}
	a.write(seq)
	a.announce()
}

func (a *Audit) announce() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// write appends a call's line. The first failure is kept for close: a call must not fail because its log did.
func (a *Audit) write(seq int64) {
	a.written[seq-1] = true
	if a.file == nil || a.failure != nil {
		return
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(a.calls[seq-1])
	if err == nil {
		_, err = a.file.Write(line.Bytes())
	}
	if err != nil {
		a.failure = fmt.Errorf("writing the audit log: %w", err)
	}
}

// close writes what has no line yet and closes the file.
func (a *Audit) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, done := range a.written {
		if !done {
			a.write(int64(i) + 1)
		}
	}
	if a.file == nil {
		return a.failure
	}
	if err := a.file.Close(); err != nil && a.failure == nil {
		a.failure = fmt.Errorf("closing the audit log: %w", err)
	}
	a.file = nil
	return a.failure
}
