package client

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/transplant-dev/transplant/provider/transport"
)

// Bind makes a transport for upstream's provider, which makes some requests with contexts that never end.
func (c *Client) Bind() *transport.Binding { return bind(c.base) }

func bind(next http.RoundTripper) *transport.Binding {
	return transport.NewBinding(transport.BindingOptions{
		Next: &interfaces{next}, Describe: describePart, Failure: failure,
		Once: transport.Once{IsKept: isKept, MayChange: mayChange},
	})
}

// describePart is Describe, with questions about an operation as a part of the change that it is of.
func describePart(in *http.Request) transport.Request {
	request := Describe(in)
	request.Mutates = request.Mutates || isPoll(in)
	return request
}

// failure is what fails a call. Upstream acts on answers that an object is not there, was changed by others, or is in
// use.
func failure(_ *http.Response, err error) error {
	var refusal *RefusalError
	if errors.As(err, &refusal) {
		switch refusal.Status {
		case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed:
			return nil
		}
	}
	return err
}

// isKept reports whether the answer to a request is kept for the call: that of an object, or of a list.
func isKept(in *http.Request) bool {
	return in.Method == http.MethodGet && strings.Contains(strings.ToLower(in.URL.Path), "/resourcegroups/")
}

// mayChange reports whether a request may have changed what was read at an address. That is all of the network but the
// interfaces of other machines, and the machine or scale set itself.
func mayChange(requested, read *url.URL) bool {
	path, at := strings.ToLower(requested.Path), strings.ToLower(read.Path)
	isMachine := strings.Contains(at, "/providers/microsoft.compute/") || strings.Contains(at, "/networkinterfaces/")
	return !isMachine || strings.HasPrefix(at, path) || strings.HasPrefix(path, at)
}
