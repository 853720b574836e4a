package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// ErrStillRunning is what a call gets whose object is still being worked on by an earlier call, that was given up for not answering. Had both been
// made, a load balancer could be created by the earlier one after the later one had deleted it, and nobody would know of it.
var ErrStillRunning = errors.New("a call that was given up has not returned yet")

// The bounds of reads that hang. Reads do no harm when made twice, but each that hangs holds memory, and perhaps a connection.
const (
	hungReadsOfOne = 2
	hungReads      = 200
)

// stuckAfter is how long after it was given up a call makes the process unhealthy. Only a restart helps against a call that never returns.
const stuckAfter = 10 * time.Minute

// hung remembers the calls that were given up and have not returned.
type hung struct {
	provider string

	mu    sync.Mutex
	calls []*abandoned // the oldest first
}

type abandoned struct {
	call  call
	since time.Time
}

func newHung(provider string) *hung { return &hung{provider: provider} }

// allows returns why a call must not be made now. Nothing is asked or done about an object that a call of unknown outcome may still be changing: "there
// is no such load balancer" would let the Service go while one is being made.
func (h *hung) allows(c call) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	same, reads := 0, 0
	for _, a := range h.calls {
		switch {
		case a.call.mutates && a.call.object == c.object:
			return a.refuse(c)
		case a.call.mutates:
		case !c.mutates && a.call.object == c.object && a.call.operation == c.operation:
			same++
			reads++
		default:
			reads++
		}
		if same >= hungReadsOfOne || !c.mutates && reads >= hungReads {
			return a.refuse(c)
		}
	}
	return nil
}

func (a *abandoned) refuse(c call) error {
	return fmt.Errorf("calling %s of the cloud provider for %s: %w: %s for %s was given up %s ago",
		c.operation, c.object, ErrStillRunning, a.call.operation, a.call.object, time.Since(a.since).Round(time.Second))
}

// abandon notes that a call was given up, until it returns.
func (h *hung) abandon(c call, returned func() error) {
	a := &abandoned{c, time.Now()}
	h.mu.Lock()
	h.calls = append(h.calls, a)
	h.mu.Unlock()
	gauge := callsAbandoned.WithLabelValues(h.provider, c.operation)
	gauge.Inc()
	klog.InfoS("Gave up a call to the cloud provider that does not answer", "operation", c.operation, "object", c.object.String())
	go func() {
		err := returned()
		gauge.Dec()
		h.mu.Lock()
		h.calls = slices.DeleteFunc(h.calls, func(other *abandoned) bool { return other == a })
		h.mu.Unlock()
		klog.InfoS("A call to the cloud provider that was given up has returned", "operation", c.operation, "object", c.object.String(), "result", err)
	}()
}

// check fails while a call that was given up long ago has not returned.
func (h *hung) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.calls { // the oldest first
		if age := time.Since(a.since); age > stuckAfter {
			return fmt.Errorf("%s of the cloud provider for %s was given up %s ago and has not returned", a.call.operation, a.call.object, age.Round(time.Second))
		}
	}
	return nil
}

// Check is a health check of the process: it fails while a call hangs so long that only a restart helps.
func (s *Shell) Check(*http.Request) error { return s.caller.hung.check() }

// errorOf returns what waits for the reply of an abandoned call and returns its error.
func errorOf[T any](replies <-chan reply[T]) func() error {
	return func() error { return (<-replies).err }
}
