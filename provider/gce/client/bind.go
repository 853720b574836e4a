package client

import (
	"bytes"
	"io"
	"net/http"

	"google.golang.org/api/googleapi"

	"github.com/transplant-dev/transplant/provider/transport"
)

// Bind makes a transport for upstream's provider, which takes no contexts.
func (c *Client) Bind() *transport.Binding { return bind(c.base) }

func bind(next http.RoundTripper) *transport.Binding {
	return transport.NewBinding(transport.BindingOptions{Next: next, Describe: Describe, Failure: failure})
}

// failure is what fails a call: an error, or an answer that refuses, whose body can still be read. Libraries act on
// some refusals: that an object is there, in use or gone.
func failure(out *http.Response, err error) error {
	if err != nil {
		return err
	}
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
