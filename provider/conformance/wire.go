package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Fault is a way in which a cloud fails.
type Fault struct {
	// Name is what the fault is called in the names of tests.
	Name string
	// Status, Type and Body are the answer; 0 for none.
	Status int
	Type   string
	Body   string
	// Hangs has no answer come before the request's context ends.
	Hangs bool
	// Lost has the request executed, and its answer lost.
	Lost bool
}

const page = "<html><head><title>error</title></head><body><h1>error</h1></body></html>"

// Faults are the ways in which every cloud fails one day: by itself, or through the proxy that is in front of it.
func Faults() []Fault {
	text := func(name string, status int) Fault {
		return Fault{
			Name:   name,
			Status: status,
			Type:   "text/plain",
			Body:   http.StatusText(status),
		}
	}
	return []Fault{
		text("credentials that are refused", http.StatusUnauthorized),
		text("missing rights", http.StatusForbidden),
		text("throttling", http.StatusTooManyRequests),
		text("a conflict", http.StatusConflict),
		text("an internal error", http.StatusInternalServerError),
		text("an API that is down", http.StatusServiceUnavailable),
		{Name: "a proxy that finds nothing", Status: http.StatusNotFound, Type: "text/html", Body: page},
		{Name: "a proxy without its backend", Status: http.StatusBadGateway, Type: "text/html", Body: page},
		{Name: "a page in place of an answer", Status: http.StatusOK, Type: "text/html", Body: page},
		{Name: "an empty answer", Status: http.StatusOK, Type: "text/plain"},
		{Name: "a broken connection"},
		{Name: "no answer", Hangs: true},
	}
}

// ErrBroken is what a request gets whose connection breaks.
var ErrBroken = errors.New("the connection was broken by the test")

// StatusError is the error of a request that was refused, for clouds that speak no HTTP.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("the cloud answers %d %s", e.Status, http.StatusText(e.Status))
}

// HTTPStatusCode gives the library the status.
func (e *StatusError) HTTPStatusCode() int { return e.Status }

// Wire lies between a provider and its cloud. It counts the requests that change something, and fails requests when a
// test asks for it.
type Wire struct {
	mu      sync.Mutex
	changes int
	fault   *Fault
	from    int           // the fault is for changes from this one on, counted from 1; 0: for all requests
	once    bool          // the fault is for one request
	hanging chan struct{} // closed when a request hangs
	before  func(change int)
}

// Pass lets a request of a cloud that speaks no HTTP through, or fails it. Such a request has to be made in send, which
// is called at most once.
func (w *Wire) Pass(ctx context.Context, mutates bool, send func() error) error {
	fault := w.countRequest(mutates)
	switch {
	case fault == nil:
		return send()
	case fault.Hangs:
		return w.hang(ctx)
	case fault.Lost:
		if err := send(); err != nil {
			return err
		}
		return ErrBroken
	case fault.Status >= http.StatusBadRequest:
		return &StatusError{fault.Status}
	}
	return ErrBroken
}

// Over is a transport whose requests go over the wire. mutates reports whether a request changes something; it must
// leave the request as it is.
func (w *Wire) Over(next http.RoundTripper, mutates func(*http.Request) bool) http.RoundTripper {
	return &over{wire: w, next: next, mutates: mutates}
}

type over struct {
	wire    *Wire
	next    http.RoundTripper
	mutates func(*http.Request) bool
}

// RoundTrip implements http.RoundTripper.
func (o *over) RoundTrip(in *http.Request) (*http.Response, error) {
	fault := o.wire.countRequest(o.mutates(in))
	if fault == nil {
		return o.next.RoundTrip(in)
	}
	if fault.Lost {
		out, err := o.next.RoundTrip(in)
		if err != nil {
			return out, err
		}
		_, _ = io.Copy(io.Discard, out.Body) // the answer is lost anyway
		_ = out.Body.Close()
		return nil, ErrBroken
	}
	if in.Body != nil {
		_ = in.Body.Close() // as a RoundTripper must
	}
	switch {
	case fault.Hangs:
		return nil, o.wire.hang(in.Context())
	case fault.Status == 0:
		return nil, ErrBroken
	}
	return &http.Response{
		StatusCode: fault.Status, Status: fmt.Sprintf("%d %s", fault.Status, http.StatusText(fault.Status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {fault.Type}}, Body: io.NopCloser(strings.NewReader(fault.Body)),
		ContentLength: int64(len(fault.Body)), Request: in,
	}, nil
}

// Front is a handler whose requests come over the wire, for a simulated cloud whose SDK takes no transport.
func (w *Wire) Front(next http.Handler, mutates func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		fault := w.countRequest(mutates(in))
		switch {
		case fault == nil:
			next.ServeHTTP(out, in)
			return
		case fault.Lost:
			next.ServeHTTP(&unread{header: http.Header{}}, in)
		case fault.Hangs:
			_, _ = io.Copy(io.Discard, in.Body) // only then does the server see that the client leaves
			_ = w.hang(in.Context())
		case fault.Status != 0:
			out.Header().Set("Content-Type", fault.Type)
			out.WriteHeader(fault.Status)
			_, _ = io.WriteString(out, fault.Body) // the client may have left
			return
		}
		panic(http.ErrAbortHandler) // it ends the connection
	})
}

// unread is an answer that the client does not get.
type unread struct{ header http.Header }

func (u *unread) Header() http.Header         { return u.header }
func (u *unread) Write(p []byte) (int, error) { return len(p), nil }
func (u *unread) WriteHeader(int)             {}

// countRequest counts a request, and returns the fault that it gets.
func (w *Wire) countRequest(mutates bool) *Fault {
	w.mu.Lock()
	next := w.changes + 1
	before := w.before
	w.mu.Unlock()
	if mutates && before != nil {
		before(next)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if mutates {
		w.changes++
	}
	if w.fault == nil || w.from > 0 && (!mutates || w.changes < w.from) {
		return nil
	}
	fault := w.fault
	if w.once {
		w.fault = nil
	}
	return fault
}

func (w *Wire) hang(ctx context.Context) error {
	w.mu.Lock()
	if w.hanging != nil {
		close(w.hanging)
		w.hanging = nil
	}
	w.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// Changes is how many requests have changed something, or tried to.
func (w *Wire) Changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes
}

// failRequests has every request fail until heal is called. The channel is closed when the first one hangs.
func (w *Wire) failRequests(f Fault) (hanging <-chan struct{}, heal func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.from, w.once = &f, 0, false
	hangs := make(chan struct{})
	w.hanging = hangs
	return hangs, w.heal
}

// failFrom has the n-th change from now fail, and all that follow unless it is once.
func (w *Wire) failFrom(n int, once bool, f Fault) (heal func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.from, w.once = &f, w.changes+n, once
	return w.heal
}

func (w *Wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = nil
}

// beforeChange has do be called before each change, with its number; nil for nothing.
func (w *Wire) beforeChange(do func(change int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = do
}
