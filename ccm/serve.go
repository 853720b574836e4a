package ccm

import (
	"errors"
	"fmt"
	"net/http"
	"time"

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

// errTold is the cause of an end that somebody asked for.
var errTold = errors.New("the process was told to end")

// shutdownTimeout is how long requests that are under way may take at the end.
const shutdownTimeout = time.Second

// serve serves /healthz, /livez, /readyz, /configz, /metrics and /metrics/slis, from before the provider is made until the process ends. It returns
// channels that are closed when that is over.
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
	stopped, listener, err := c.SecureServing.Serve(genericcontrollermanager.BuildHandlerChain(base, &c.Authorization, &c.Authentication), shutdownTimeout, p.ended)
	if err != nil {
		return nil, fmt.Errorf("serving on --secure-port: %w", err)
	}
	return []<-chan struct{}{stopped, listener}, p.showConfig()
}

// showConfig puts the configuration at /configz, as the file would say it.
func (p *process) showConfig() error {
	external := &configv1alpha1.CloudControllerManagerConfiguration{}
	if err := configv1alpha1.Convert_config_CloudControllerManagerConfiguration_To_v1alpha1_CloudControllerManagerConfiguration(
		&p.config.ComponentConfig, external, nil); err != nil {
		return fmt.Errorf("converting the configuration for /configz: %w", err)
	}
	external.SetGroupVersionKind(configv1alpha1.SchemeGroupVersion.WithKind("CloudControllerManagerConfiguration"))
	shown, err := configz.New(ConfigzName)
	if err != nil { // another manager in this program; there can be only one
		klog.ErrorS(err, "The configuration is not at /configz")
		return nil
	}
	p.configShown = true
	return shown.Set(external)
}

// serveWebhooks serves the author's webhooks, if the feature gate of upstream is on. They are served on standby too, as upstream's are.
func (p *process) serveWebhooks(provider cloudprovider.Interface) error {
	if len(p.webhooks) == 0 && len(p.handlers) == 0 || p.config.WebhookSecureServing == nil || !utilfeature.DefaultFeatureGate.Enabled(cmfeatures.CloudControllerManagerWebhook) {
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
