package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"google.golang.org/api/googleapi"
)

// Call is one call of a controller, whose requests a library makes with contexts of its own.
type Call struct {
	ctx context.Context

	mu sync.Mutex
	// failed is the first failure of any request, and refused that of a change.
	failed, refused error
}

// NewCall makes the call of a context.
func NewCall(ctx context.Context) *Call { return &Call{ctx: ctx} }

// Context is the call's.
func (c *Call) Context() context.Context { return c.ctx }

// Correct returns the call's error. It wraps the first failure of a request where a library has formatted it into text.
// Where a library only logged the failure of a change, that is the error.
func (c *Call) Correct(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && c.refused == nil:
		return nil
	case err == nil:
		return fmt.Errorf("the change was not made to its end: %w", c.refused)
	case c.failed == nil || errors.Is(err, c.failed):
		return err
	}
	return corrected{err: err, failed: c.failed}
}

// corrected has the text of the library's error, and wraps what the API answered.
type corrected struct{ err, failed error }

func (c corrected) Error() string   { return c.err.Error() }
func (c corrected) Unwrap() []error { return []error{c.err, c.failed} }

func (c *Call) note(err error, mutates bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
	if mutates && c.refused == nil {
		c.refused = err
	}
}

// Bound is a transport whose requests are those of the call that Use has set last.
type Bound struct {
	next http.RoundTripper

	mu   sync.Mutex
	call *Call
}

// Bind makes a transport for a library that takes no contexts. Before Use it sends nothing.
func (c *Client) Bind() *Bound { return &Bound{next: c.base} }

// Use has all requests from now on be those of a call; nil for none.
func (b *Bound) Use(call *Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.call = call
}

// Call is the one that Use has set; nil for none.
func (b *Bound) Call() *Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.call
}

var errNoCall = errors.New("the request belongs to no call of a controller, and is not sent")

// RoundTrip implements http.RoundTripper. The request ends with the call's context, and carries its fence.
func (b *Bound) RoundTrip(in *http.Request) (*http.Response, error) {
	call := b.Call()
	if call == nil {
		if in.Body != nil {
			_ = in.Body.Close() // as a RoundTripper must
		}
		return nil, errNoCall
	}
	out, err := b.next.RoundTrip(in.WithContext(call.ctx))
	if err == nil {
		err = refusalOf(out)
		if err != nil {
			call.note(err, Describe(in).Mutates)
		}
		return out, nil
	}
	call.note(err, Describe(in).Mutates)
	return nil, err
}

// refusalOf is the error of an answer that refuses, whose body can still be read. Libraries act on some refusals: that
// an object is there, in use or gone.
func refusalOf(out *http.Response) error {
	switch out.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict:
		return nil
	}
	if out.StatusCode < http.StatusBadRequest {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(out.Body, maxRefusal))
	_ = out.Body.Close()
	out.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return googleapi.CheckResponse(&http.Response{
		StatusCode: out.StatusCode, Header: out.Header, Body: io.NopCloser(bytes.NewReader(body)),
	})
}
