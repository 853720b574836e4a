package client

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// answering answers every request with one body.
type answering struct {
	status int
	body   string
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func TestAnAnswerWithoutItsListIsNotAnEmptyList(t *testing.T) {
	long := `{"loadbalancers": [{"name": "` + strings.Repeat("x", 2*shortest) + `"}]}`
	for _, c := range []struct {
		method, path string
		status       int
		body         string
		refused      bool
	}{
		{http.MethodGet, "/v2/lbaas/loadbalancers", 200, `{}`, true},
		{http.MethodGet, "/v2/lbaas/loadbalancers", 200, `{"loadbalancers": null}`, true},
		{http.MethodGet, "/v2/lbaas/loadbalancers", 200, `{"loadbalancers_links": []}`, true},
		{http.MethodGet, "/v2.1/servers/detail", 200, `{}`, true},
		{http.MethodGet, "/v2.0/security-groups", 200, `{}`, true},
		{http.MethodGet, "/v2.0/security-groups", 200, `{"security_groups": []}`, false},
		{http.MethodGet, "/v2/lbaas/loadbalancers", 200, `{"loadbalancers": [], "loadbalancers_links": []}`, false},
		{http.MethodGet, "/v2/lbaas/loadbalancers", 200, long, false},
		{http.MethodGet, "/v2/lbaas/loadbalancers", 200, `<html>`, false}, // which the SDK refuses
		{http.MethodGet, "/v2/lbaas/loadbalancers", 404, `{}`, false},
		{http.MethodGet, "/v2/lbaas/loadbalancers/1", 200, `{}`, false},
		{http.MethodPost, "/v2/lbaas/loadbalancers", 200, `{}`, false},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, "http://cloud"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := withLists{answering{c.status, c.body}}.RoundTrip(request)
		if (err != nil) != c.refused {
			t.Errorf("%s %s %d %.40s: %v", c.method, c.path, c.status, c.body, err)
		}
		if err != nil {
			continue
		}
		data, err := io.ReadAll(answer.Body)
		if err != nil || string(data) != c.body {
			t.Errorf("%s: read %q, %v", c.path, data, err)
		}
		_ = answer.Body.Close()
	}
}

func TestOnlyReadsAndLoginsChangeNothing(t *testing.T) {
	for url, want := range map[string]bool{
		"GET http://cloud/v2.0/ports": false, "HEAD http://cloud/x": false, "POST http://cloud/v3/auth/tokens": false,
		"POST http://cloud/identity/v3/auth/tokens": false, "DELETE http://cloud/v3/auth/tokens": false,
		"POST http://cloud/v2.0/ports": true, "PUT http://cloud/v2.0/new-collection/1": true, "POST http://cloud/auth/network/v2.0/ports": true,
		"POST http://cloud/": true,
	} {
		method, address, _ := strings.Cut(url, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := Describe(request); got.Mutates != want {
			t.Errorf("%s: %+v", url, got)
		}
	}
}
