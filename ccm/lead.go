package ccm

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/clientbuilder"
	controllerhealthz "k8s.io/controller-manager/pkg/healthz"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/progress"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// lead starts the controllers of a group. ctx carries the fence of its lease and ends when the work under it has to.
func (p *process) lead(ctx context.Context, g *group) {
	if !g.workers.addWorker() {
		return // the process was told to end before it came to this
	}
	defer g.workers.removeWorker()
	if ctx.Err() != nil || !p.startProvider(ctx) {
		return
	}
	ctx = withLease(withSettings(withWorkers(ctx, &g.workers), p.settings), p.warm, g.cloud)
	controllerContext, err := p.controllerContext(ctx, g)
	if err != nil {
		p.fail(fmt.Errorf("preparing the controllers of lease %q: %w", g.lease, err))
		return
	}
	for _, name := range g.controllers {
		if ctx.Err() != nil {
			return
		}
		if err := p.startController(ctx, name, g.inits[name], controllerContext); err != nil {
			p.fail(fmt.Errorf("starting controller %q: %w", name, err))
			return
		}
		if interval := p.config.ComponentConfig.Generic.ControllerStartInterval.Duration; interval > 0 {
			term.SleepUnlessDone(ctx, wait.Jitter(interval, ControllerStartJitter))
		}
	}
	p.warm.Start(p.ended)
	for _, factory := range p.shared {
		factory.Start(p.ended)
	}
	g.informers.Start(p.ended)
	controllerContext.ObjectOrMetadataInformerFactory.Start(p.ended)
	close(controllerContext.InformersStarted)
}

// startController calls an InitFunc and takes the controller's health check in.
func (p *process) startController(
	ctx context.Context,
	name string,
	init InitFunc,
	controllerContext genericcontrollermanager.ControllerContext,
) error {
	klog.V(1).InfoS("Starting the controller", "controller", name)
	made, started, err := init(ctx, controllerContext)
	switch {
	case err != nil:
		return err
	case !started:
		p.skip(name)
		return nil
	}
	health := open(controllerhealthz.NamedPingChecker(name))
	if checkable, ok := made.(controller.HealthCheckable); ok {
		if real := checkable.HealthChecker(); real != nil {
			_, ours := real.(progress.Open)
			health = check{controllerhealthz.NamedHealthChecker(name, real), ours}
		}
	}
	p.checkHealth(health)
	klog.InfoS("Started the controller", "controller", name)
	return nil
}

// skip notes that an InitFunc has not started its controller. Ours have said why, and it is usual: a provider without
// routes. What an author's lacks is not known here, and to do without it is rarely meant.
func (p *process) skip(name string) {
	controllerLease.Delete(map[string]string{"controller": name, "lease": p.leaseOf(name)})
	if isLibrarys(p.constructors[name].Constructor) || p.embedding != nil && slices.Contains(usual, name) {
		klog.InfoS("The controller has not started", "controller", name)
		return
	}
	controllerSkipped.WithLabelValues(name).Set(1)
	klog.Warningf(
		"The controller %q has not started though --controllers enables it, and nothing does its work: what it logged before says why. Turn it off with "+
			"--controllers=-%s if that is meant",
		name,
		name,
	)
}

// usual are the controllers of the library. Under Run, nothing but its name says whose an InitFunc is.
var usual = []string{
	names.CloudNodeController, names.CloudNodeLifecycleController, names.ServiceLBController, names.NodeRouteController,
	NodeIPAMController,
}

// leaseOf is the lease under which a controller runs.
func (p *process) leaseOf(controller string) string {
	for _, g := range p.groups {
		if slices.Contains(g.controllers, controller) {
			return g.lease
		}
	}
	return noLease
}

// checkHealth adds a check to /healthz and /livez.
func (p *process) checkHealth(health check) {
	for _, e := range p.health {
		e.add(health)
	}
}

// controllerContext is what InitFuncs are given next to what their constructors got. It has caches of its own, as
// upstream's.
func (p *process) controllerContext(ctx context.Context, g *group) (genericcontrollermanager.ControllerContext, error) {
	clients := builder{clientbuilder.SimpleControllerClientBuilder{ClientConfig: p.config.Kubeconfig}, fencedBy(g.fence)}
	metadataConfig, err := clients.Config("metadata-informers")
	if err != nil {
		return genericcontrollermanager.ControllerContext{}, err
	}
	metadataClient, err := metadata.NewForConfig(metadataConfig)
	if err != nil {
		return genericcontrollermanager.ControllerContext{}, fmt.Errorf("making the client of metadata: %w", err)
	}
	discovery, err := clients.Client("controller-discovery")
	if err != nil {
		return genericcontrollermanager.ControllerContext{}, fmt.Errorf("making the client of discovery: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(discovery.Discovery()))
	go wait.UntilWithContext(ctx, func(context.Context) { mapper.Reset() }, 30*time.Second)
	versioned, err := clients.Client("shared-informers")
	if err != nil {
		return genericcontrollermanager.ControllerContext{}, fmt.Errorf("making the client of caches: %w", err)
	}
	resync := ResyncPeriod(p.config)
	g.informers = informers.NewSharedInformerFactory(versioned, resync())
	return genericcontrollermanager.ControllerContext{
		ClientBuilder:   clients,
		InformerFactory: g.informers,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(
			g.informers,
			metadatainformer.NewSharedInformerFactory(metadataClient, resync()),
		),
		RESTMapper:               mapper,
		Stop:                     ctx.Done(),
		InformersStarted:         make(chan struct{}),
		ResyncPeriod:             resync,
		ControllerManagerMetrics: controllersmetrics.NewControllerManagerMetrics(string(ownComponent)),
	}, nil
}

// lease is what our own controllers find in the context of a lease: caches that are warm, and the provider behind the
// fence. Authors' controllers do not get it.
type lease struct {
	caches informers.SharedInformerFactory
	cloud  cloudprovider.Interface
}

type leaseKey struct{}

func withLease(
	ctx context.Context,
	caches informers.SharedInformerFactory,
	guarded cloudprovider.Interface,
) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease{caches, guarded})
}

// ofLease returns what a controller of ours works with. An author's constructor that calls one of ours passes what it
// got. The provider itself is replaced by the guarded one; a provider of its own making is guarded here. Without a
// lease in ctx, as under upstream's app.Run, both stay.
func ofLease(
	ctx context.Context, completed *config.CompletedConfig, provider cloudprovider.Interface,
) (informers.SharedInformerFactory, cloudprovider.Interface) {
	l, ok := ctx.Value(leaseKey{}).(lease)
	if !ok {
		return completed.SharedInformers, provider
	}
	switch {
	case cloud.IsGuarded(provider):
		return l.caches, provider
	case isSame(provider, cloud.Unwrap(l.cloud)):
		return l.caches, l.cloud
	}
	return l.caches, cloud.New(provider, settingsOf(ctx).Cloud).For(election.FromContext(ctx))
}

// isSame reports whether two providers are one.
func isSame(a, b cloudprovider.Interface) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	return x.IsValid() && y.IsValid() && x.Type() == y.Type() && x.Comparable() && y.Comparable() && a == b
}

const (
	// probePeriod is how often a cloud is asked that has not answered yet.
	probePeriod = 2 * time.Second
	// probePatience is after how long a question to the cloud counts as unanswered. A provider that hangs in it keeps
	// nothing else waiting.
	probePatience = 20 * time.Second
)

// probe asks a cloud something, to see that it answers. A cloud of which nothing can be asked, because there is no node
// yet, is not waited for.
func probe(ctx context.Context, shell *cloud.Guard, nodes corelisters.NodeLister) error {
	all, err := nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	var node *corev1.Node
	if len(all) > 0 {
		node = all[0]
	}
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	if err := shell.Probe(ctx, node); !errors.Is(err, cloud.ErrNothingToProbe) {
		return err
	}
	return nil
}

// untilAnswered asks until the cloud has answered once. Metrics and alerts say whether it still does. A process that
// became unready would stop serving its webhooks and block a rollout, and no other process would reach the cloud
// either.
func untilAnswered(ctx context.Context, ask func(context.Context) error, answers *state) {
	for {
		err := ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			answers.set(nil)
			return
		}
		answers.set(fmt.Errorf("the cloud does not answer: %s", cloud.Classify(err)))
		klog.ErrorS(err, "The cloud does not answer")
		if !term.SleepUnlessDone(ctx, probePeriod) {
			return
		}
	}
}
