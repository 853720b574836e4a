package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/provider/transport"
)

func TestWhatRequestsAreCalled(t *testing.T) {
	for request, want := range map[string]transport.Request{
		"GET zones/europe-west3-a/instances/node":           {Operation: "GET zones/instances/{name}"},
		"GET aggregated/instances":                          {Operation: "GET aggregated/instances"},
		"GET regions/europe-west3":                          {Operation: "GET regions/{name}"},
		"POST global/firewalls":                             {Operation: "POST global/firewalls", Mutates: true},
		"PATCH global/firewalls/x":                          {Operation: "PATCH global/firewalls/{name}", Mutates: true},
		"DELETE regions/r/forwardingRules/x":                {Operation: "DELETE regions/forwardingRules/{name}", Mutates: true},
		"POST regions/r/targetPools/x/addInstance":          {Operation: "POST regions/targetPools/{name}/addInstance", Mutates: true},
		"POST regions/r/operations/x/wait":                  {Operation: "POST regions/operations/{name}/wait"},
		"POST zones/z/instanceGroups/x/listInstances":       {Operation: "POST zones/instanceGroups/{name}/listInstances"},
		"POST zones/z/instanceGroups/x/removeInstances":     {Operation: "POST zones/instanceGroups/{name}/removeInstances", Mutates: true},
		"POST something/of/a/later/version/with/many/parts": {Operation: "POST other", Mutates: true},
	} {
		method, path, _ := strings.Cut(request, " ")
		want.Service = "compute"
		if got := Describe(httptest.NewRequest(method, "http://cloud/compute/v1/projects/lab/"+path, http.NoBody)); got != want {
			t.Errorf("%s: %+v, want %+v", request, got, want)
		}
	}
	if got := Describe(httptest.NewRequest(http.MethodGet, "http://cloud/compute/v1/projects/lab", http.NoBody)); got.Operation != "GET projects/{name}" {
		t.Errorf("the project: %+v", got)
	}
}

// roundTrips answers with a status and a body.
type roundTrips func(*http.Request) (*http.Response, error)

func (r roundTrips) RoundTrip(in *http.Request) (*http.Response, error) { return r(in) }

func answer(status int, body string) roundTrips {
	return func(in *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: in}, nil
	}
}

// TestRefusalsOfOthers: upstream takes any 404 for the word of Compute Engine that an object does not exist.
func TestRefusalsOfOthers(t *testing.T) {
	const google = `{"error":{"code":%d,"message":"gone","errors":[{"reason":"notFound"}]}}`
	for _, c := range []struct {
		status   int
		body     string
		believed bool
	}{
		{404, fmt.Sprintf(google, 404), true},
		{404, fmt.Sprintf(google, 403), false},
		{404, "<html>404</html>", false},
		{404, "", false},
		{404, `{"error":"not found"}`, false},
		{409, "Conflict", false},
		{400, "Bad Request", false},
		{403, "Forbidden", true}, // nothing is taken to be gone or there for it
		{503, "", true},
	} {
		out, err := (&refusing{next: answer(c.status, c.body)}).RoundTrip(httptest.NewRequest(http.MethodGet, "http://cloud/", http.NoBody))
		if (err == nil) != c.believed {
			t.Errorf("%d %q: %v", c.status, c.body, err)
		}
		if err != nil {
			if cloud.Classify(err) != cloud.OutcomeServerError {
				t.Errorf("%d %q counts as %s", c.status, c.body, cloud.Classify(err))
			}
			continue
		}
		body, err := io.ReadAll(out.Body)
		_ = out.Body.Close()
		if string(body) != c.body || err != nil {
			t.Errorf("%d: the body is %q: %v", c.status, body, err)
		}
	}
}

// TestWhatALibraryHides: upstream formats refusals into text, and only logs some.
func TestWhatALibraryHides(t *testing.T) {
	const throttled = `{"error":{"code":403,"message":"slow down","errors":[{"reason":"rateLimitExceeded"}]}}`
	bound := bind(answer(http.StatusForbidden, throttled))
	send := func(method string) error {
		out, err := bound.RoundTrip(httptest.NewRequest(method, "http://cloud/compute/v1/projects/lab/global/firewalls/x", http.NoBody))
		if err != nil {
			return err
		}
		defer func() { _ = out.Body.Close() }()
		return googleapi.CheckResponse(out)
	}
	if err := send(http.MethodGet); !errors.Is(err, transport.ErrNoCall) {
		t.Errorf("without a call the error is %v", err)
	}
	call := transport.NewCall(t.Context())
	bound.Use(call)
	if err := send(http.MethodGet); err == nil {
		t.Error("the library sees no refusal")
	}
	if err := call.Correct(nil); err != nil {
		t.Errorf("a read that the library does without fails the call: %v", err)
	}
	if err := call.Correct(errors.New("getting the firewall failed")); cloud.Classify(err) != cloud.OutcomeThrottled {
		t.Errorf("it counts as %s: %v", cloud.Classify(err), err)
	}
	_ = send(http.MethodDelete)
	if err := call.Correct(nil); cloud.Classify(err) != cloud.OutcomeThrottled {
		t.Errorf("a refused change: %v", err)
	}
}

// tokens are given one after the other.
type tokens []Token

func (t *tokens) Token(context.Context) (Token, error) {
	if len(*t) == 0 {
		return Token{}, &tokenRefusal{status: http.StatusNotFound, from: "the metadata server"}
	}
	next := (*t)[0]
	*t = (*t)[1:]
	return next, nil
}

func TestTokensAreRenewedEarly(t *testing.T) {
	soon, later := time.Now().Add(early/2), time.Now().Add(time.Hour)
	c := newCache(&tokens{{"one", soon}, {"two", later}})
	for _, want := range []string{"one", "two", "two"} {
		if got, err := c.get(t.Context()); got != want || err != nil {
			t.Errorf("the token is %q, want %q: %v", got, want, err)
		}
	}
	c.forget("one") // refused late: another one is in use
	if got, _ := c.get(t.Context()); got != "two" {
		t.Errorf("the token is %q", got)
	}
	c.forget("two")
	_, err := c.get(t.Context())
	if cloud.Classify(err) != cloud.OutcomeAuth || !strings.Contains(err.Error(), "the metadata server answers 404") {
		t.Errorf("%s: %v", cloud.Classify(err), err)
	}
	short := newCache(&tokens{{"one", soon}})
	for range 2 { // the second time there is no other, and this one is good for a while
		if got, err := short.get(t.Context()); got != "one" || err != nil {
			t.Errorf("the token is %q: %v", got, err)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	secrets := []any{Token{Value: "hunter2"}, Exchange{URL: "http://x", Body: "hunter2"}}
	for _, s := range secrets {
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(format, s); strings.Contains(text, "hunter2") {
				t.Errorf("%s of %T prints %s", format, s, text)
			}
		}
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, good := range map[string]bool{
		"": true, "https://compute.googleapis.com/compute/v1/": true, "http://127.0.0.1:80/compute/v1/": true,
		"https://compute.googleapis.com/": false, "compute.googleapis.com/compute/v1/": false, "https://x/compute/v1/projects/": false,
	} {
		if err := validateEndpoint(endpoint); (err == nil) != good {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
