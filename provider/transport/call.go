package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// Call is one call of a controller to a library that makes its requests with contexts of its own. See Binding.
type Call struct {
	ctx context.Context

	mu sync.Mutex
	// failed is the first failure of any request, and refused that of a change.
	failed, refused error
	read            map[string]*keptAnswer
}

// keptAnswer is what was read once for a call.
type keptAnswer struct {
	at     *url.URL
	status string
	header http.Header
	body   []byte
}

// NewCall makes the call of a context.
func NewCall(ctx context.Context) *Call { return &Call{ctx: ctx, read: map[string]*keptAnswer{}} }

// Context is the call's.
func (c *Call) Context() context.Context { return c.ctx }

// Failed is the first failure of any request of the call; nil for none. Libraries take some failures for "no".
func (c *Call) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Correct returns the call's error. It wraps the first failure of a request: a library may have formatted it into text.
// Where a library only logged the failure of a change, that is the error.
func (c *Call) Correct(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && c.refused == nil:
		return nil
	case err == nil:
		return fmt.Errorf("not all changes were made: %w", c.refused)
	case c.failed == nil:
		return err
	}
	return refused{refusal: c.failed, err: err}
}

// NoteFailure keeps what has failed in a call, where it is the first. A library may only log it.
func (c *Call) NoteFailure(err error, isChange bool) {
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
	_ = out.Body.Close()
	if err != nil {
		return err
	}
	out.Body = io.NopCloser(bytes.NewReader(body))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[in.URL.String()] = &keptAnswer{
		at:     in.URL,
		status: out.Status,
		header: out.Header.Clone(),
		body:   body,
	}
	return nil
}

// forget drops what a request may have made untrue. An operation that has ended may have changed something, too.
func (c *Call) forget(requested *url.URL, mayChange func(requested, read *url.URL) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, answer := range c.read {
		if mayChange(requested, answer.at) {
			delete(c.read, key)
		}
	}
}
