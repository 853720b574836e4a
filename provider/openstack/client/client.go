// Package client decides how OpenStack is spoken to: who asks, which requests may be sent at all, what is tried again,
// and what is counted.
//
//	provider --> Client --token, catalog--> gophercloud --retries--> transport --fence, metrics--> OpenStack
//
// The manager starts without Keystone: it logs in with the first call, and a call that cannot log in says why. A
// manager that ended instead would wait out the kubelet's back-off of five minutes after Keystone is back.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
	"github.com/transplant-dev/transplant/provider/transport"
)

// Options are the settings of a Client.
type Options struct {
	// Config is the [Global] section of a cloud.conf.
	Config cloudconf.Global
	// Timeout bounds one request.
	Timeout time.Duration
	// Gate says whether requests that change something may be sent.
	Gate *transport.Gate
	// Next sends the requests; nil for a transport with the certificates of Config.
	Next http.RoundTripper
	// Sent counts the requests that are sent; nil for none.
	Sent *atomic.Int64
	// UserAgent is put in front of gophercloud's; empty for none.
	UserAgent string
}

// Client has the services of one project.
type Client struct {
	options  Options
	provider *gophercloud.ProviderClient
	auth     gophercloud.AuthOptions
	endpoint gophercloud.EndpointOpts

	mu       sync.Mutex
	loggedIn bool
	project  string
	found    map[string]*gophercloud.ServiceClient // by the service's type in the catalog
	refusal  error                                 // of the last login that Keystone refused
	refused  time.Time
}

// maxAnswer is how long an answer may be. 1,000 servers with their metadata are about 4 MB.
const maxAnswer = 64 << 20

// maxList and maxPages bound a list over its pages. A cloud may have as few as 20 servers in a page.
const (
	maxList  = 512 << 20
	maxPages = 5000
)

var metrics = sync.OnceValue(func() *transport.Metrics { return transport.NewMetrics("openstack", "OpenStack") })

// New makes a Client. It sends nothing.
func New(o Options) (*Client, error) {
	next := o.Next
	if next == nil {
		var err error
		if next, err = newTransport(o.Config); err != nil {
			return nil, err
		}
	}
	provider, err := openstack.NewClient(o.Config.AuthURL)
	if err != nil {
		return nil, fmt.Errorf("[Global] auth-url %q: %w", o.Config.AuthURL, err)
	}
	provider.HTTPClient = http.Client{
		Timeout: o.Timeout,
		Transport: withLists{transport.New(transport.Options{
			Next: next, Sent: o.Sent, Gate: o.Gate, Describe: Describe, Metrics: metrics(), MaxAnswer: maxAnswer,
			List: transport.List{NextPage: "marker", MaxBytes: maxList, MaxPages: maxPages},
		})},
	}
	if o.UserAgent != "" {
		provider.UserAgent.Prepend(o.UserAgent)
	}
	provider.MaxBackoffRetries = throttledTries
	provider.RetryBackoffFunc = waitThrottled
	provider.RetryFunc = retryRead
	c := &Client{
		options: o, provider: provider, auth: authOptions(o.Config), found: map[string]*gophercloud.ServiceClient{},
	}
	c.endpoint = gophercloud.EndpointOpts{
		Region:       o.Config.Region,
		Availability: gophercloud.Availability(strings.TrimSuffix(o.Config.EndpointType, "URL")),
	}
	return c, nil
}

// authOptions are the credentials in gophercloud's words. The user's and the project's domains default to the domain,
// as openstackclient and the external provider have it.
func authOptions(g cloudconf.Global) gophercloud.AuthOptions {
	auth := gophercloud.AuthOptions{
		IdentityEndpoint:            g.AuthURL,
		Username:                    g.Username,
		UserID:                      g.UserID,
		Password:                    g.Password,
		TokenID:                     g.Token,
		ApplicationCredentialID:     g.ApplicationCredentialID,
		ApplicationCredentialName:   g.ApplicationCredentialName,
		ApplicationCredentialSecret: g.ApplicationCredentialSecret,
		AllowReauth:                 g.Token == "",
	}
	if g.TrustID != "" {
		auth.UserID = cmp.Or(g.TrusteeID, g.UserID)
		auth.Password = cmp.Or(g.TrusteePassword, g.Password)
		auth.Scope = &gophercloud.AuthScope{TrustID: g.TrustID}
	}
	if auth.UserID == "" && auth.Username != "" {
		auth.DomainID = cmp.Or(g.UserDomainID, g.DomainID)
		if auth.DomainID == "" {
			auth.DomainName = cmp.Or(g.UserDomainName, g.DomainName)
		}
	}
	if auth.Scope != nil || g.TenantID == "" && g.TenantName == "" {
		return auth
	}
	auth.Scope = &gophercloud.AuthScope{ProjectID: g.TenantID}
	if g.TenantID == "" {
		auth.Scope.ProjectName = g.TenantName
		auth.Scope.DomainID = cmp.Or(g.TenantDomainID, g.DomainID)
		if auth.Scope.DomainID == "" {
			auth.Scope.DomainName = cmp.Or(g.TenantDomainName, g.DomainName)
		}
	}
	return auth
}

// refusedFor is how long a login is not tried again after Keystone has refused it. Each is a failed attempt that counts
// towards locking the account.
const refusedFor = 30 * time.Second

// Login logs in, unless that was done. An error that Refused recognises will not go away by itself.
func (c *Client) Login(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.login(ctx)
}

// Refused reports whether a login failed for good: Keystone has answered, and not with a fault of its own.
func Refused(err error) bool {
	var refused *refusedError
	return errors.As(err, &refused)
}

type refusedError struct{ error }

func (r *refusedError) Unwrap() error { return r.error }

func (c *Client) login(ctx context.Context) error {
	if c.loggedIn {
		return nil
	}
	if c.refusal != nil && time.Since(c.refused) < refusedFor {
		return c.refusal
	}
	c.refusal = nil
	err := c.authenticate(ctx)
	if err == nil {
		c.project, err = c.projectOfToken()
	}
	if err == nil {
		c.loggedIn = true
		return nil
	}
	status := statusOf(err)
	err = fmt.Errorf("logging in to OpenStack at %s: %w", c.options.Config.AuthURL, Explain(err))
	if status == http.StatusUnauthorized {
		err = fmt.Errorf("%w (check the credentials in [Global] of the cloud config%s)", err, c.ofProject())
	}
	if status >= 400 && status < 500 && status != http.StatusTooManyRequests || errors.Is(err, errNoProject) {
		err = &refusedError{err}
		c.refusal, c.refused = err, time.Now()
	}
	return err
}

var errNoProject = errors.New(
	"the credentials are for no project: set [Global] tenant-id or tenant-name in the cloud config",
)

func (c *Client) projectOfToken() (string, error) {
	result, ok := c.provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	})
	if !ok {
		return "", errNoProject
	}
	project, err := result.ExtractProject()
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the project of the token: %w", err)
	case project == nil || project.ID == "":
		return "", errNoProject
	}
	return project.ID, nil
}

func (c *Client) authenticate(ctx context.Context) error {
	var err error
	if c.auth.Scope != nil && c.auth.Scope.TrustID != "" {
		err = openstack.AuthenticateV3(ctx, c.provider, &c.auth, gophercloud.EndpointOpts{})
	} else {
		err = openstack.Authenticate(ctx, c.provider, c.auth)
	}
	if err != nil {
		return err
	}
	c.limitLogins()
	return nil
}

// limitLogins keeps a client whose credentials were taken away from trying them with every request.
func (c *Client) limitLogins() {
	login := c.provider.ReauthFunc
	if login == nil {
		return
	}
	var (
		mu     sync.Mutex
		failed error
		at     time.Time
	)
	c.provider.ReauthFunc = func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil && time.Since(at) < refusedFor {
			return failed
		}
		failed = nil
		err := login(ctx)
		if status := statusOf(err); status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			failed, at = err, time.Now()
		}
		return err
	}
}

// computeMicroversion is the first of Nova's API that has a server's flavor in the server (Pike, 2017).
const computeMicroversion = "2.47"

// Compute is Nova.
func (c *Client) Compute(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "compute", openstack.NewComputeV2)
}

// Network is Neutron.
func (c *Client) Network(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "network", openstack.NewNetworkV2)
}

// LoadBalancer is Octavia.
func (c *Client) LoadBalancer(ctx context.Context) (*gophercloud.ServiceClient, error) {
	return c.service(ctx, "load-balancer", openstack.NewLoadBalancerV2)
}

// without says what to do in a cloud that lacks a service.
var without = map[string]string{
	"load-balancer": ", or set [LoadBalancer] enabled=false where the cloud has no Octavia",
}

// service finds a service in the catalog and asks it for its versions, once. A service that is away is asked again.
func (c *Client) service(
	ctx context.Context,
	kind string,
	open func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error),
) (*gophercloud.ServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.login(ctx); err != nil {
		return nil, err
	}
	if made := c.found[kind]; made != nil {
		return made, nil
	}
	made, err := open(c.provider, c.endpoint)
	var missing *gophercloud.ErrEndpointNotFound
	switch {
	case errors.As(err, &missing):
		return nil, fmt.Errorf("OpenStack's catalog has no %s service%s: check [Global] region and os-endpoint-type%s",
			kind, c.inRegion(), without[kind])
	case err != nil:
		return nil, fmt.Errorf("asking OpenStack's %s service for its versions: %w", kind, Explain(err))
	}
	if kind == "compute" {
		made.Microversion = computeMicroversion
	}
	c.found[kind] = made
	return made, nil
}

// ofProject says which project the user needs a role in. Keystone answers alike to a wrong password and to a project
// that does not exist.
func (c *Client) ofProject() string {
	project := cmp.Or(c.options.Config.TenantID, c.options.Config.TenantName)
	if project == "" || c.auth.ApplicationCredentialID != "" || c.auth.ApplicationCredentialName != "" {
		return ""
	}
	return fmt.Sprintf(", and that the user has a role in project %q", project)
}

func (c *Client) inRegion() string {
	if c.options.Config.Region == "" {
		return ""
	}
	return " for region " + c.options.Config.Region
}

// Project is the ID of the project that the credentials are for.
func (c *Client) Project(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.login(ctx); err != nil {
		return "", err
	}
	return c.project, nil
}
