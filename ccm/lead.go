package ccm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/clientbuilder"
	controllerhealthz "k8s.io/controller-manager/pkg/healthz"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/internal/progress"
)

// lead starts the controllers of a group. ctx carries the fence of its lease and ends when the work under it has to.
func (p *process) lead(ctx context.Context, g *group) {
	if !g.workers.begin() {
		return // the process was told to end before it came to this
	}
	defer g.workers.end()
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
			pause(ctx, wait.Jitter(interval, ControllerStartJitter))
		}
	}
	p.warm.Start(p.ended)
	p.config.SharedInformers.Start(p.ended)
	g.informers.Start(p.ended)
	controllerContext.ObjectOrMetadataInformerFactory.Start(p.ended)
	close(controllerContext.InformersStarted)
}

// startController calls an InitFunc and takes the controller's health check in.
func (p *process) startController(ctx context.Context, name string, init InitFunc, controllerContext genericcontrollermanager.ControllerContext) error {
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

// skip notes that an InitFunc has not started its controller. Ours have said why, and it is usual: a provider without routes. What an author's lacks is not
// known here, and to do without it is rarely meant.
func (p *process) skip(name string) {
	controllerLease.Delete(map[string]string{"controller": name, "lease": p.leaseOf(name)})
	_, usual := DefaultInitFuncConstructors[name]
	if isLibrarys(p.constructors[name].Constructor) || usual && p.embedding != nil {
		klog.InfoS("The controller has not started", "controller", name)
		return
	}
	controllerSkipped.WithLabelValues(name).Set(1)
	klog.Warningf("The controller %q has not started though --controllers enables it, and nothing does its work: what it logged before says why. Turn it off with "+
		"--controllers=-%s if that is meant", name, name)
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

// controllerContext is what InitFuncs are given beside what their constructors got. It has caches of its own, as upstream's.
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
		ClientBuilder:                   clients,
		InformerFactory:                 g.informers,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(g.informers, metadatainformer.NewSharedInformerFactory(metadataClient, resync())),
		RESTMapper:                      mapper,
		Stop:                            ctx.Done(),
		InformersStarted:                make(chan struct{}),
		ResyncPeriod:                    resync,
		ControllerManagerMetrics:        controllersmetrics.NewControllerManagerMetrics(string(component)),
	}, nil
}
