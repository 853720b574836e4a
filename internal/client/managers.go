package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// VersionOf asks a component on a host for the version of its program: an API server for /version, any other for its
// build's metric. Empty when it answers and does not tell this account.
func (c *Client) VersionOf(ctx context.Context, manager, host, address string) (version string, err error) {
	ask := func(ctx context.Context, client *http.Client, token string) error {
		if manager == component.KAS {
			version, err = recorder.Version(ctx, client, address, token)
			return err
		}
		m, err := recorder.Scrape(ctx, client, address, token)
		version = m.Version
		return err
	}
	err = c.askComponent(ctx, askTimeout, manager, host, ask)
	if recorder.Refused(err) {
		return "", nil
	}
	return version, err
}

// Scrape asks a manager for its gauges, with the token of an account that may read /metrics and nothing else. Before
// that account exists, it uses the kubeconfig's client certificate. That proves who asks without sending anything that
// could be used again. A bearer token of the operator's is never sent to a manager: its certificate is self-signed, so
// who answers is not known.
func (c *Client) Scrape(ctx context.Context, component, host, address string) (v1.Manager, error) {
	return c.scrapeWithin(ctx, askTimeout, component, host, address)
}

func (c *Client) scrapeWithin(
	ctx context.Context,
	limit time.Duration,
	component, host, address string,
) (m v1.Manager, err error) {
	err = c.askComponent(ctx, limit, component, host, func(ctx context.Context, client *http.Client, token string) error {
		m, err = recorder.Scrape(ctx, client, address, token)
		return err
	})
	return m, err
}

// askTimeout bounds a look at a component while a migration runs, which is repeated. A snapshot looks once: it waits
// longer, since a plan is not made while the owners of the loops are unknown.
const askTimeout = 5 * time.Second

// askComponent lets ask talk to a component on a host for a limited time, with the credentials that Scrape describes.
func (c *Client) askComponent(
	ctx context.Context,
	limit time.Duration,
	component, host string,
	ask func(context.Context, *http.Client, string) error,
) error {
	transport := c.transport(host)
	defer transport.CloseIdleConnections()
	token, err := c.observerToken(ctx)
	if err != nil {
		cert, certErr := clientCertificate(c.Config)
		if certErr != nil {
			return fmt.Errorf("no credentials for %s on %s: %w; and %w", component, host, err, certErr)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{cert}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	refused := ask(ctx, &http.Client{Transport: transport}, token)
	if refused != nil && err != nil {
		return fmt.Errorf("%w; it was asked with the client certificate of the kubeconfig, since %w", refused, err)
	}
	return refused
}

func clientCertificate(cfg *rest.Config) (tls.Certificate, error) {
	t, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return tls.Certificate{}, err
	}
	if t == nil || len(t.Certificates) == 0 && t.GetClientCertificate == nil {
		return tls.Certificate{}, fmt.Errorf("the kubeconfig has no client certificate")
	}
	if len(t.Certificates) > 0 {
		return t.Certificates[0], nil
	}
	cert, err := t.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		return tls.Certificate{}, err
	}
	return *cert, nil
}

// observerToken asks for a token of an hour for the account that may read /metrics, and keeps it until it is half
// spent.
func (c *Client) observerToken(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.tokenEnd) {
		return c.token, nil
	}
	// Asked first, so that a command that only looks sends no create before a migration has begun.
	if _, err := c.Kube.CoreV1().
		ServiceAccounts(component.Namespace).
		Get(ctx, planlayout.Observer, metav1.GetOptions{}); apierrors.IsNotFound(
		err,
	) {
		return "", fmt.Errorf(
			"ServiceAccount %s/%s is not there yet (apply makes it, and so does deploy/rbac/observer.yaml)",
			component.Namespace,
			planlayout.Observer,
		)
	} else if err != nil {
		return "", fmt.Errorf("reading ServiceAccount %s/%s: %w", component.Namespace, planlayout.Observer, err)
	}
	t, err := c.Kube.CoreV1().ServiceAccounts(component.Namespace).CreateToken(ctx, planlayout.Observer,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf(
			"asking for a token of ServiceAccount %s/%s: %w",
			component.Namespace,
			planlayout.Observer,
			err,
		)
	}
	c.token, c.tokenEnd = t.Status.Token, time.Now().Add(30*time.Minute)
	return c.token, nil
}

// transport is how a manager on a host is asked: through the host where that can be done, since managers listen on
// 127.0.0.1. TLS is end to end: what proves who asks never is on the host. A manager in a pod with a network of its own
// is asked through the API server.
func (c *Client) transport(host string) *http.Transport {
	t := &http.Transport{
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: answerlimit.MaxHeader,
	} //nolint:gosec // managers sign their own certificate; see scrape
	if namespace, name, ok := workloads.PodOfPlace(host); ok {
		dial := PortForward(c.Config, c.Kube, namespace)
		t.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, name, address) }
	}
	for _, h := range c.Hosts {
		if d, ok := h.(hostaccess.Dialer); ok && h.Name() == host {
			t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := d.DialContext(ctx, network, address)
				if err != nil && !errors.Is(err, context.Canceled) {
					err = fmt.Errorf("from host %s: %w", host, err)
				}
				return conn, err
			}
		}
	}
	return t
}

// Processes returns the processes of a component on a host.
func (c *Client) Processes(ctx context.Context, host, component string) ([]v1.Process, error) {
	for _, h := range c.Hosts {
		if h.Name() == host {
			return h.Processes(ctx, component)
		}
	}
	return nil, fmt.Errorf("host %q is not in --host-access", host)
}
