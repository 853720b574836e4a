// Package client decides how the Compute Engine API is spoken to: with which token, and which requests may be sent at
// all. It holds how long each may take, which refusals are believed, and what is counted.
//
//	provider --> Client.Compute ----------------\
//	upstream --> Client.Compute --> Bind (call) --> deadline --> token --> refusals --> transport --> Compute Engine
//
// Upstream's provider calls with a context of its own that lasts an hour. Bind replaces it by the controller's.
package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	computealpha "google.golang.org/api/compute/v0.alpha"
	computebeta "google.golang.org/api/compute/v0.beta"
	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/transplant-dev/transplant/provider/transport"
)

// The bounds of one request. Compute Engine answers a wait for an operation after two minutes at the latest.
const (
	DefaultRequestTimeout = 30 * time.Second
	waitTimeout           = 150 * time.Second
)

// maxAnswer is how long an answer may be. 500 instances with their metadata are about 10 MB, startup scripts included.
const maxAnswer = 128 << 20

// maxList and maxPages bound a list over its pages: 100,000 instances.
const (
	maxList  = 1 << 30
	maxPages = 1000
)

// Options are the settings of a Client.
type Options struct {
	// Endpoint is the address of the API, such as https://compute.googleapis.com/compute/v1/; empty for Google's own.
	Endpoint string
	// Tokens are the credentials.
	Tokens TokenSource
	// Gate says whether requests that change something may be sent.
	Gate *transport.Gate
	// Timeout bounds one request; 0 for DefaultRequestTimeout.
	Timeout time.Duration
	// Next sends the requests; nil for a clone of http.DefaultTransport.
	Next http.RoundTripper
	// Sent counts the requests that are sent; nil for none.
	Sent *atomic.Int64
	// UserAgent names the program to Google.
	UserAgent string
}

// Client reaches Compute Engine.
type Client struct {
	// Compute is the API's version 1. Its requests end with the context of the caller.
	Compute *compute.Service

	options Options
	base    http.RoundTripper
}

var metrics = sync.OnceValue(func() *transport.Metrics { return transport.NewMetrics("gce", "Compute Engine") })

// New makes a Client. It sends nothing.
func New(ctx context.Context, o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultRequestTimeout
	}
	if err := validateEndpoint(o.Endpoint); err != nil {
		return nil, err
	}
	sent := transport.New(transport.Options{
		Next: o.Next, Sent: o.Sent, Gate: o.Gate, Describe: Describe, Metrics: metrics(), MaxAnswer: maxAnswer,
		List: transport.List{NextPage: "pageToken", MaxBytes: maxList, MaxPages: maxPages},
	})
	authorized := &authorizing{next: &refusing{next: sent}, tokens: newCache(o.Tokens)}
	c := &Client{options: o, base: &limiting{next: authorized, timeout: o.Timeout}}
	services, err := c.Services(ctx, c.base)
	if err != nil {
		return nil, err
	}
	c.Compute = services.GA
	return c, nil
}

// Services are the versions of the API.
type Services struct {
	GA    *compute.Service
	Beta  *computebeta.Service
	Alpha *computealpha.Service
}

// Services are clients whose requests go over the given transport, which Bind has made.
func (c *Client) Services(ctx context.Context, over http.RoundTripper) (*Services, error) {
	with := option.WithHTTPClient(&http.Client{Transport: over})
	ga, err := compute.NewService(ctx, with)
	if err != nil {
		return nil, fmt.Errorf("making a client of Compute Engine: %w", err)
	}
	beta, err := computebeta.NewService(ctx, with)
	if err != nil {
		return nil, fmt.Errorf("making a client of Compute Engine's beta API: %w", err)
	}
	alpha, err := computealpha.NewService(ctx, with)
	if err != nil {
		return nil, fmt.Errorf("making a client of Compute Engine's alpha API: %w", err)
	}
	if c.options.Endpoint != "" {
		ga.BasePath = c.options.Endpoint
		root := strings.TrimSuffix(c.options.Endpoint, "v1/")
		beta.BasePath, alpha.BasePath = root+"beta/", root+"alpha/"
	}
	ga.UserAgent, beta.UserAgent, alpha.UserAgent = c.options.UserAgent, c.options.UserAgent, c.options.UserAgent
	return &Services{GA: ga, Beta: beta, Alpha: alpha}, nil
}

// validateEndpoint returns an error for an address that upstream's provider would put other addresses together from
// wrongly.
func validateEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || !strings.HasSuffix(endpoint, "/compute/v1/") {
		return fmt.Errorf("[global] api-endpoint %q has to be an address that ends with /compute/v1/, "+
			"such as https://compute.googleapis.com/compute/v1/", endpoint)
	}
	return nil
}
