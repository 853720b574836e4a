package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"

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
	if out.StatusCode < http.StatusBadRequest || isActedOn(out.StatusCode) {
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

// isActedOn reports whether libraries act on a refusal: that an object is there, in use or gone.
func isActedOn(status int) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, status)
}

// FailsCall reports whether the error of an operation fails the call that it is of.
func FailsCall(err error) bool {
	var refusal *googleapi.Error
	return err != nil && (!errors.As(err, &refusal) || !isActedOn(refusal.Code))
}
