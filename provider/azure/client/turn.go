package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Call is one call of a controller to upstream's provider. What it reads of an object it reads once, until it changes
// something that the object may have been read with.
type Call struct {
	ctx context.Context

	mu sync.Mutex
	// failed is the first failure of any request, and refused that of a change.
	failed, refused error
	read            map[string]*answer
}

// answer is what was read.
type answer struct {
	status string
	header http.Header
	body   []byte
}

// NewCall makes the call of a context.
func NewCall(ctx context.Context) *Call { return &Call{ctx: ctx, read: map[string]*answer{}} }

// Correct returns the call's error. Where upstream only logged that a change failed, that failure is the error. Text
// that it made of a failure wraps the failure again.
func (c *Call) Correct(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		if c.refused != nil {
			return fmt.Errorf("not all changes were made: %w", c.refused)
		}
		return nil
	}
	if c.failed == nil || errors.Is(err, c.failed) {
		return err
	}
	return &joined{text: err, cause: c.failed}
}

// Failed is the first failure of a request that asked for something; nil for none. Upstream takes some for "no".
func (c *Call) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// joined has upstream's text, and wraps what Azure answered.
type joined struct{ text, cause error }

func (j *joined) Error() string   { return j.text.Error() }
func (j *joined) Unwrap() []error { return []error{j.text, j.cause} }

// noteFailure keeps a failure. Upstream acts on answers that an object is not there, was changed by others, or is in
// use.
func (c *Call) noteFailure(err error, isChange bool) {
	var refusal *RefusalError
	if errors.As(err, &refusal) {
		switch refusal.Status {
		case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed:
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
	if isChange && c.refused == nil {
		c.refused = err
	}
}

// recall is what was read for this request before; nil for nothing.
func (c *Call) recall(in *http.Request) *http.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.read[in.URL.String()]
	if have == nil {
		return nil
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: have.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: have.header.Clone(), Body: io.NopCloser(bytes.NewReader(have.body)), Request: in,
		ContentLength: int64(len(have.body)),
	}
}

func (c *Call) keep(in *http.Request, out *http.Response) error {
	body, err := io.ReadAll(out.Body)
	if err != nil {
		return err
	}
	out.Body = io.NopCloser(bytes.NewReader(body))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[in.URL.String()] = &answer{status: out.Status, header: out.Header.Clone(), body: body}
	return nil
}

// forget drops what a change of an object may have made untrue. That is all of the network but the interfaces of other
// machines, and the machine or scale set itself. An operation that has ended may have changed them, too.
func (c *Call) forget(path string) {
	path = strings.ToLower(path)
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.read {
		at, _, _ := strings.Cut(strings.ToLower(key), "?")
		_, at, _ = strings.Cut(at, "/subscriptions/")
		at = "/subscriptions/" + at
		isMachine := strings.Contains(at, "/providers/microsoft.compute/") || strings.Contains(at, "/networkinterfaces/")
		if !isMachine || strings.HasPrefix(at, path) || strings.HasPrefix(path, at) {
			delete(c.read, key)
		}
	}
}

// isKept reports whether the answer to a request is kept for the call: that of an object, or of a list.
func isKept(in *http.Request) bool {
	return in.Method == http.MethodGet && strings.Contains(strings.ToLower(in.URL.Path), "/resourcegroups/")
}

// Turn is a transport whose requests are those of the call that Use has set last.
type Turn struct {
	next http.RoundTripper

	mu   sync.Mutex
	call *Call
}

// Turn makes a transport for upstream's provider. Before Use it sends nothing.
func (c *Client) Turn() *Turn { return &Turn{next: c.base} }

// Use has all requests from now on be those of a call; nil for none.
func (t *Turn) Use(call *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call = call
}

var errNoCall = errors.New("the request belongs to no call of a controller, and is not sent")

// RoundTrip implements http.RoundTripper. The request ends with the call's context, and carries its fence.
func (t *Turn) RoundTrip(in *http.Request) (*http.Response, error) {
	t.mu.Lock()
	call := t.call
	t.mu.Unlock()
	if call == nil {
		if in.Body != nil {
			_ = in.Body.Close() // as a RoundTripper must
		}
		return nil, &sendError{errNoCall}
	}
	kept := isKept(in)
	if !kept {
		call.forget(in.URL.Path)
		defer call.forget(in.URL.Path)
	} else if have := call.recall(in); have != nil {
		return have, nil
	}
	out, err := t.next.RoundTrip(in.WithContext(call.ctx)) //nolint:contextcheck // upstream's own may never end
	if err == nil && kept && out.StatusCode == http.StatusOK {
		err = call.keep(in, out)
	}
	if err != nil {
		call.noteFailure(err, mutates(in.Method))
		return nil, err
	}
	return out, nil
}
