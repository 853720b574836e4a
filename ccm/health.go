package ccm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cloudprovider "k8s.io/cloud-provider"
	configv1alpha1 "k8s.io/cloud-provider/config/v1alpha1"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/metrics/prometheus/slis"
	genericcontrollermanager "k8s.io/controller-manager/app"
	cmfeatures "k8s.io/controller-manager/pkg/features"
	"k8s.io/klog/v2"
)

// endpoint answers one path, such as /healthz, and a path for each of its checks below it. Checks are added as
// controllers start.
//
// A failing check of ours says why: its reason names objects and kinds of errors, and nothing that the cloud or the API
// server answered. The reason of an author's check is withheld, as upstream does it. The path is open to every client
// by default, and the text may hold anything. It is in the log, and at the path of the check, which is not open by
// default.
type endpoint struct {
	path string

	mu     sync.Mutex
	checks []check
	told   map[string]string // the last reason of each failing check, to log each one once
}

// check is a health check. Open is that anybody may read why it fails.
type check struct {
	healthz.HealthChecker
	open bool
}

// open returns a check of ours.
func open(c healthz.HealthChecker) check { return check{c, true} }

func newEndpoint(path string, checks ...check) *endpoint {
	return &endpoint{path: path, checks: checks, told: map[string]string{}}
}

func (e *endpoint) install(m *mux.PathRecorderMux) {
	m.Handle(e.path, e)
	m.HandlePrefix(e.path+"/", e)
}

func (e *endpoint) add(checks ...check) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checks = append(e.checks, checks...)
}

// requestedChecks returns the checks that a request is about, and whether there are any. These are all but those that
// ?exclude= names, or the one of the path, whose reason is open to its authorized readers.
func (e *endpoint) requestedChecks(r *http.Request) ([]check, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if name, one := strings.CutPrefix(r.URL.Path, e.path+"/"); one && name != "" {
		for _, c := range e.checks {
			if c.Name() == name {
				return []check{open(c)}, true
			}
		}
		return nil, false
	}
	excluded := map[string]bool{}
	for _, name := range r.URL.Query()["exclude"] {
		excluded[name] = true
	}
	var asked []check
	for _, c := range e.checks {
		if !excluded[c.Name()] {
			asked = append(asked, c)
		}
	}
	return asked, true
}

// ServeHTTP answers 200 and ok, or 500 and the checks with the reasons of those that fail. With ?verbose the checks are
// there in any case.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	checks, known := e.requestedChecks(r)
	if !known {
		http.NotFound(w, r)
		return
	}
	var details strings.Builder
	failed := false
	for _, c := range checks {
		err := c.Check(r)
		e.log(c.Name(), err)
		if err != nil {
			failed = true
			e.count(r, c.Name(), slis.Error)
			reason := "reason withheld"
			if c.open {
				reason = err.Error()
			}
			fmt.Fprintf(&details, "[-]%s failed: %s\n", c.Name(), reason)
			continue
		}
		e.count(r, c.Name(), slis.Success)
		fmt.Fprintf(&details, "[+]%s ok\n", c.Name())
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	name := e.name()
	_, verbose := r.URL.Query()["verbose"]
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", details.String(), name)
	case verbose:
		fmt.Fprintf(w, "%s%s check passed\n", details.String(), name)
	default:
		fmt.Fprint(w, "ok")
	}
}

// name is the path's: healthz, livez or readyz.
func (e *endpoint) name() string { return strings.TrimPrefix(e.path, "/") }

// count tells /metrics/slis of a check, as upstream does where all are asked for and not one of them.
func (e *endpoint) count(r *http.Request, name string, status slis.HealthcheckStatus) {
	if r.URL.Path == e.path {
		_ = slis.ObserveHealthcheck(r.Context(), name, e.name(), status) // it knows both
	}
}

// log says in the log when a check begins to fail, fails for another reason, or passes again.
func (e *endpoint) log(name string, err error) {
	e.mu.Lock()
	before, failing := e.told[name]
	switch {
	case err == nil:
		delete(e.told, name)
	default:
		e.told[name] = err.Error()
	}
	e.mu.Unlock()
	switch {
	case err != nil && (!failing || before != err.Error()):
		klog.InfoS("A health check fails", "path", e.path, "check", name, "reason", err.Error())
	case err == nil && failing:
		klog.InfoS("A health check passes again", "path", e.path, "check", name)
	}
}

// state is one thing that has to be so before the process is ready: nil once it is.
type state struct {
	mu  sync.Mutex
	err error
}

func newState(reason string) *state { return &state{err: errors.New(reason)} }

func (s *state) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *state) get() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *state) check(name string) check {
	return open(healthz.NamedCheck(name, func(*http.Request) error { return s.get() }))
}

// errTold is the cause of an end that was asked for.
var errTold = errors.New("the process was told to end")

// shutdownTimeout is how long requests that are under way may take at the end.
const shutdownTimeout = time.Second

// serve serves /healthz, /livez, /readyz, /configz, /metrics and /metrics/slis, from before the provider is made until
// the process ends. It returns channels that are closed when that is over.
func (p *process) serve() ([]<-chan struct{}, error) {
	p.started, p.caches = newState("the provider is not initialised yet"), newState("the caches are not complete yet")
	p.answers = &state{err: errUnanswered}
	p.health = []*endpoint{newEndpoint("/healthz"), newEndpoint("/livez")}
	p.ready = newEndpoint("/readyz", p.started.check("process"), p.caches.check("caches"), p.answers.check("cloud"))
	c := p.config
	if c.SecureServing == nil {
		return nil, nil
	}
	base := genericcontrollermanager.NewBaseHandler(&c.ComponentConfig.Generic.Debugging, p.health[0])
	base.HandlePrefix("/healthz/", p.health[0])
	p.health[1].install(base)
	p.ready.install(base)
	slis.SLIMetricsWithReset{}.Install(base)
	stopped, listener, err := c.SecureServing.Serve(
		genericcontrollermanager.BuildHandlerChain(base, &c.Authorization, &c.Authentication),
		shutdownTimeout,
		p.ended,
	)
	if err != nil {
		return nil, fmt.Errorf("serving on --secure-port: %w", err)
	}
	return []<-chan struct{}{stopped, listener}, p.openConfig()
}

// openConfig opens /configz and puts the configuration there.
func (p *process) openConfig() error {
	shown, err := configz.New(ConfigzName)
	if err != nil { // another manager in this program; there can be only one
		klog.ErrorS(err, "The configuration is not at /configz")
		return nil
	}
	p.shown = shown
	return p.showConfig()
}

// showConfig puts the configuration at /configz, as the file would say it.
func (p *process) showConfig() error {
	if p.shown == nil {
		return nil
	}
	external := &configv1alpha1.CloudControllerManagerConfiguration{}
	toExternal := configv1alpha1.Convert_config_CloudControllerManagerConfiguration_To_v1alpha1_CloudControllerManagerConfiguration
	if err := toExternal(&p.config.ComponentConfig, external, nil); err != nil {
		return fmt.Errorf("converting the configuration for /configz: %w", err)
	}
	external.SetGroupVersionKind(configv1alpha1.SchemeGroupVersion.WithKind("CloudControllerManagerConfiguration"))
	return p.shown.Set(external)
}

// serveWebhooks serves the author's webhooks, if the feature gate of upstream is on. They are served on standby too, as
// upstream's are.
func (p *process) serveWebhooks(provider cloudprovider.Interface) error {
	if len(p.webhooks) == 0 && len(p.handlers) == 0 || p.config.WebhookSecureServing == nil ||
		!utilfeature.DefaultFeatureGate.Enabled(cmfeatures.CloudControllerManagerWebhook) {
		return nil
	}
	handlers := p.handlers
	if len(p.webhooks) > 0 {
		handlers = NewWebhookHandlers(p.webhooks, p.config, provider)
	}
	m := mux.NewPathRecorderMux("controller-manager-webhook")
	for _, name := range sortedKeys(handlers) {
		klog.InfoS("The webhook is served", "webhook", name, "path", handlers[name].Path)
		m.Handle(handlers[name].Path, http.Handler(handlers[name]))
	}
	if _, _, err := p.config.WebhookSecureServing.Serve(m, shutdownTimeout, p.ended); err != nil {
		return fmt.Errorf("serving webhooks on --webhook-secure-port: %w", err)
	}
	return nil
}
