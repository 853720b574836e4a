package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/admission"
	"github.com/transplant-dev/transplant/internal/fleet/certs"
	"github.com/transplant-dev/transplant/internal/fleet/operator"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/fleet/web"
	"github.com/transplant-dev/transplant/internal/mask"
)

const (
	headerTimeout = 5 * time.Second
	// idleTimeout is how long a connection is kept without a request.
	idleTimeout = 2 * time.Minute
	// shutdownTimeout is how long answers under way are waited for.
	shutdownTimeout = 5 * time.Second
	// readTimeout bounds a request for metrics or health. It has no body.
	readTimeout = 10 * time.Second
	// writeTimeout is how long such a request may take to the end of its answer. A client that does not read is cut
	// off.
	writeTimeout = 10 * time.Second
	// maxHeader bounds, in bytes, the header of a request: each key of it takes many times its bytes.
	maxHeader = 16 << 10
	// maxConnections bounds those to one port, which any pod of the seed may open. The memory limit is 512Mi.
	maxConnections = 128
	// maxOfSource bounds those of one address: the API server, Prometheus, a kubelet or one pod.
	maxOfSource = 32
	// maxScrapes bounds the answers with metrics that are made at the same time.
	maxScrapes = 4
	// datacenterTimeout bounds the look at the seed's datacenters in a decision.
	datacenterTimeout = 2 * time.Second
)

// server serves until its context ends.
type server func(context.Context) error

// servers listens on every address that is wanted, so that one that is taken is told at the start.
func (p *process) servers(ctx context.Context) ([]server, error) {
	var out []server
	certificates, err := p.certificates()
	if err != nil {
		return nil, err
	}
	if certificates != nil {
		out = append(out, func(ctx context.Context) error { certificates.Run(ctx); return nil })
	}
	for _, s := range []struct {
		address string
		make    func(net.Listener) (server, error)
	}{
		{p.healthAddress, func(l net.Listener) (server, error) { return serving(l, plain(p.health(certificates))), nil }},
		{p.metricsAddress, func(l net.Listener) (server, error) {
			scrapes := promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}
			return serving(l, plain(promhttp.HandlerFor(p.metrics.Registry, scrapes))), nil
		}},
		{p.webhookAddress, func(l net.Listener) (server, error) { return p.webhooks(l, certificates), nil }},
		{p.webAddress, func(l net.Listener) (server, error) { return p.page(ctx, l, certificates) }},
	} {
		if s.address == "" {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
		if err != nil {
			return nil, fmt.Errorf("listening on %s: %w", s.address, err)
		}
		made, err := s.make(netutil.LimitListener(limitPerSource(l, maxOfSource), maxConnections))
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// certificates are those that the webhooks serve.
type certificates interface {
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	// Check is for a readiness probe.
	Check(r *http.Request) error
	// Run keeps them until ctx ends.
	Run(ctx context.Context)
}

// certificates returns nil where there are no webhooks.
func (p *process) certificates() (certificates, error) {
	switch {
	case p.webhookAddress == "":
		return nil, nil
	case p.webhookCertificate != "":
		return certs.NewFiles("webhooks", p.webhookCertificate, p.webhookKey, clock.RealClock{})
	}
	return certs.New(
		certs.Options{
			Client:         p.kube,
			Namespace:      p.namespace,
			Secret:         p.webhookSecret,
			Hosts:          p.hosts(),
			Configurations: p.webhookConfigurations,
			Log:            p.log,
		},
	), nil
}

// hosts are the names by which the webhooks are called. These are those of the Service, and the address that they
// listen on if it is a specific one.
func (p *process) hosts() []string {
	hosts := certs.ServiceHosts(p.namespace, p.webhookService)
	if host, _, err := net.SplitHostPort(p.webhookAddress); err == nil && host != "" {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// plain returns a server for metrics or health without TLS. Any pod may ask. No connection outlives its answer, so that
// idle ones do not keep the kubelet's probes out.
func plain(h http.Handler) *http.Server {
	s := newServer(h, nil)
	s.ReadTimeout, s.WriteTimeout = readTimeout, writeTimeout
	s.SetKeepAlivesEnabled(false)
	return s
}

func newServer(h http.Handler, encryption *tls.Config) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		TLSConfig:         encryption,
	}
}

// serving serves until ctx ends, with TLS where the server has a configuration for it.
func serving(l net.Listener, s *http.Server) server {
	return func(ctx context.Context) error {
		s.BaseContext = func(net.Listener) context.Context { return ctx }
		done := make(chan struct{})
		defer close(done)
		stop := context.AfterFunc(ctx, func() {
			drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			_ = s.Shutdown(drain) // what does not end in time is cut off with the process
		})
		defer stop()
		serve := s.Serve
		if s.TLSConfig != nil {
			serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
		}
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving on %s: %w", l.Addr(), err)
		}
		return nil
	}
}

// health reports whether the process works (/healthz: restart it) and whether it can be asked (/readyz: send requests
// elsewhere).
func (p *process) health(held certificates) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(
		"/healthz",
		serveCheck(func(*http.Request) error { return errors.Join(p.elector.Check(p.lease), p.operator.Alive()) }),
	)
	mux.HandleFunc("/readyz", serveCheck(func(r *http.Request) error {
		if held != nil {
			if err := held.Check(r); err != nil {
				return err
			}
		}
		return p.operator.Ready()
	}))
	return mux
}

func serveCheck(check func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			http.Error(w, mask.Error(err), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("ok\n")) // who asks and goes away does not matter
	}
}

func (p *process) webhooks(l net.Listener, held certificates) server {
	handler := p.reviews()
	return func(ctx context.Context) error { return admission.Serve(ctx, l, handler, held.GetCertificate) }
}

// reviews answers an API server that asks about Clusters.
func (p *process) reviews() http.Handler {
	datacenters := &admission.Datacenters{Client: p.dynamic}
	return admission.New(admission.Options{
		OtherGroups: admission.Groups(p.dynamic),
		Datacenter:  datacenters.Get,
		VSphereCSI:  p.vSphereCSI,
		Log:         p.log,
	}).
		Handler()
}

// rules are those of the webhooks, asked again before a migration.
func (p *process) rules() operator.FleetRules {
	return operator.FleetRules{Hosted: p.hosted, VSphereCSI: p.vSphereCSI, Datacenter: p.datacenter}
}

// datacenter returns what the seed says of a datacenter. What it said last counts while it cannot be read; it is an
// error when it never could.
func (p *process) datacenter(ctx context.Context, name string) (*rules.Datacenter, error) {
	ctx, cancel := context.WithTimeout(ctx, datacenterTimeout)
	defer cancel()
	known, err := p.datacenters.Get(ctx, name)
	if err == nil {
		return known, nil
	}
	p.log.Error(err, "The datacenters of the seed cannot be read", "datacenter", name)
	if _, never := errors.AsType[*admission.NeverReadError](err); never {
		return nil, err
	}
	return known, nil
}

// page serves the page about the fleet.
func (p *process) page(ctx context.Context, l net.Listener, held certificates) (server, error) {
	handler := web.Handler(web.Options{
		Clusters:      p.operator,
		Kube:          p.kube,
		Config:        p.base,
		EnableActions: p.enableActions,
		ToolVersion:   p.version,
		Log:           p.log,
		Seed:          v1.Cluster{Server: p.base.Host},
		Plane: func(ctx context.Context, o view.Object) (web.Plane, error) {
			return p.looker.Plane(
				ctx,
				operator.Target{
					Name:      o.Cluster.Name,
					Namespace: o.Cluster.ControlPlaneNamespace(),
					Group:     o.Group,
					Cluster:   o.Cluster,
				},
			)
		},
		Refusals: func(o view.Object) []string { return p.operator.Refusals(ctx, o.Cluster) },
	})
	encryption, err := p.pageEncryption(ctx, held)
	if err != nil {
		return nil, err
	}
	return serving(l, newServer(handler, encryption)), nil
}

// pageEncryption has the page serve its own certificate, or that of the webhooks; nil where there is neither. Others
// renew its own, so that the files are looked at until ctx ends.
func (p *process) pageEncryption(ctx context.Context, held certificates) (*tls.Config, error) {
	if p.webCertificate != "" {
		own, err := certs.NewFiles("page", p.webCertificate, p.webKey, clock.RealClock{})
		if err != nil {
			return nil, err
		}
		go own.Run(ctx)
		held = own
	}
	if held == nil {
		return nil, nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: held.GetCertificate}, nil
}
