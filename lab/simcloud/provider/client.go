package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// Error is an answer of the cloud that is no success.
type Error struct {
	Operation api.Operation
	Code      int
	Message   string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d %s)", e.Operation, e.Message, e.Code, http.StatusText(e.Code))
}

// HTTPStatusCode lets metrics and the call rate tell throttling from refusal and failure.
func (e *Error) HTTPStatusCode() int { return e.Code }

// client makes calls.
type client struct {
	endpoint, caller string
	http             *http.Client
	ensureRequests   int
}

func newClient(config Config) *client {
	pool := &http.Transport{
		// Nothing here limits concurrency: that is what is measured. Connections are kept, so that a call costs no
		// handshake.
		MaxIdleConnsPerHost: 1000, IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: 5 * time.Minute,
	}
	return &client{
		endpoint: strings.TrimSuffix(config.Endpoint, "/"),
		caller:   config.Caller,
		http:     &http.Client{Transport: fenced{pool}},
	}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// call makes one request.
func (c *client) call(ctx context.Context, operation api.Operation, body api.Request) (api.Response, error) {
	var answer api.Response
	data, err := json.Marshal(body)
	if err != nil {
		return answer, fmt.Errorf("encoding request of %s: %w", operation, err)
	}
	request, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		c.endpoint+api.PathPrefix+string(operation),
		bytes.NewReader(data),
	)
	if err != nil {
		return answer, fmt.Errorf("building request of %s: %w", operation, err)
	}
	request.Header.Set(api.CallerHeader, c.caller)
	response, err := c.http.Do(request)
	if err != nil {
		return answer, fmt.Errorf("calling %s: %w", operation, err)
	}
	defer response.Body.Close()
	data, err = io.ReadAll(response.Body)
	if err != nil {
		return answer, fmt.Errorf("reading answer of %s: %w", operation, err)
	}
	if response.StatusCode != http.StatusOK {
		var refusal api.Refusal
		if json.Unmarshal(data, &refusal) != nil || refusal.Message == "" {
			refusal.Message = string(data)
		}
		return answer, &Error{operation, response.StatusCode, refusal.Message}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return answer, fmt.Errorf("decoding answer of %s: %w", operation, err)
	}
	return answer, nil
}

// fenced asks the fence of a request's context, if it carries one, before anything is changed. Every operation is a
// POST, so that the operation decides, not the method.
type fenced struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	if election.FromContext(request.Context()) != nil && api.Operation(path.Base(request.URL.Path)).Mutating() {
		if err := election.Guard(request.Context(), nil); err != nil {
			_ = request.Body.Close() // a RoundTripper closes the body also when it fails
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// CloseIdleConnections lets the client close the connections below.
func (t fenced) CloseIdleConnections() {
	if pool, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		pool.CloseIdleConnections()
	}
}
