package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/component-base/configz"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/election/testimony"
	"github.com/transplant-dev/transplant/ccm/internal/trim"
	"github.com/transplant-dev/transplant/internal/mask/events"
)

// process is one run of the manager.
//
//	serve --> provider --> groups --> caches --> leases --won--> provider's own loops --> controllers
//	  |                                 |
//	/healthz from here on            /readyz once caches are full and, for a provider that is started early, the cloud has answered; standby or not
type process struct {
	config       *config.CompletedConfig
	tokenFile    string // of the kubeconfig
	settings     Settings
	constructors map[string]ControllerInitFuncConstructor
	initCloud    InitCloudFunc
	webhooks     map[string]WebhookConfig
	// handlers are webhooks that an author's program has made, and embedding the configuration that its InitFuncs have
	// got: see Run.
	handlers  map[string]WebhookHandler
	embedding *config.Config
	// initConfig is what initCloud gets, with the fences that there are once it has returned. Replaced is what it has put
	// its own in place of, for the constructors; nil elsewhere.
	initConfig *config.CompletedConfig
	initFences laterFences
	initEvents record.EventBroadcaster
	replaced   config.Config

	health                   []*endpoint // /healthz and /livez
	ready                    *endpoint
	started, caches, answers *state

	shown *configz.Config // nil where another manager of the program is at /configz

	early  bool                              // the provider is started before a lease is held
	warm   informers.SharedInformerFactory   // the caches of our own controllers
	shared []informers.SharedInformerFactory // SharedInformers, and what constructors have put in their place
	start  *providerStart

	groups []*group
	made   cloudprovider.Interface // nil before
	ended  chan struct{}           // closed when the process has ended: for what lives as long, such as caches
	fail   context.CancelCauseFunc // ends the process because something cannot be started
}

// run runs until ctx ends, and then returns nil once work has ended and leases are released. It returns an error at
// once when a lease is lost, and when something cannot be started.
func (p *process) run(ctx context.Context) error {
	ctx, p.fail = context.WithCancelCause(ctx)
	defer p.fail(nil)
	trim.CollectOften()
	p.ended, p.start, p.warm = make(chan struct{}), newProviderStart(), p.newWarmInformers()
	p.shared = []informers.SharedInformerFactory{p.config.SharedInformers}
	controllersmetrics.Register()
	stopEvents := p.recordEvents()
	defer stopEvents()
	served, err := p.serve()
	if err == nil && p.settings.RenewToken {
		err = p.renewToken(ctx)
	}
	if err == nil {
		err = p.manage(ctx)
	}
	p.start.end()
	p.finish(ctx, err)
	close(p.ended)
	if p.shown != nil {
		configz.Delete(ConfigzName)
	}
	if errors.Is(err, election.ErrLost) {
		return err // at once: whatever is still running is cut off by the end of the process
	}
	for _, stopped := range served {
		<-stopped
	}
	p.stopInformers()
	if cause := context.Cause(
		ctx,
	); err == nil && cause != nil && !errors.Is(cause, context.Canceled) &&
		!errors.Is(cause, errTold) {
		return cause
	}
	return err
}

// finishTimeout bounds how long the provider may take to end what it holds in the cloud.
const finishTimeout = 5 * time.Second

// finish has the provider end what it holds in the cloud, unless the lease was lost: then the process ends at once.
func (p *process) finish(ctx context.Context, err error) {
	finisher, ok := p.made.(cloud.Finisher)
	if !ok || errors.Is(err, election.ErrLost) {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	finisher.Finish(bounded)
}

// renewToken looks after the token of the process as long as it runs.
func (p *process) renewToken(ctx context.Context) error {
	r, err := newTokenRenewer(p.tokenFile, p.config.Kubeconfig)
	if err == nil {
		go r.run(ctx)
	}
	return err
}

// manage does what run does once health is served.
func (p *process) manage(ctx context.Context) error {
	provider, err := p.provider(ctx)
	if err != nil || provider == nil {
		return err
	}
	p.made = provider
	shell := cloud.New(provider, p.settings.Cloud)
	p.checkHealth(open(healthz.NamedCheck("cloud-calls", shell.Check)))
	p.early = cloud.StartsEarly(provider)
	known := provider
	if !p.early {
		known = nil
	}
	p.groups = divide(p.constructors, p.config, known)
	showGroups(p.groups)
	if err := checkAllocation(p.groups, p.constructors, p.config, provider); err != nil {
		return err
	}
	elector, err := p.elect(ctx)
	if err != nil {
		return err
	}
	if err := p.equip(shell, provider); err != nil {
		return err
	}
	if err := p.serveWebhooks(provider); err != nil {
		return err
	}
	if !p.warmUp(ctx) {
		return nil
	}
	p.watchReadiness(ctx, shell)
	if elector == nil {
		return p.runAlone(ctx)
	}
	return elector.Run(ctx)
}

// provider makes the provider. It is not waited for once ctx ends: a provider that hangs in its constructor must not
// keep the process from ending.
func (p *process) provider(ctx context.Context) (cloudprovider.Interface, error) {
	var err error
	if p.initConfig, err = fenced(p.config, p.initFences.wrap); err != nil {
		return nil, err
	}
	given := *p.initConfig.Config
	p.initEvents = given.EventBroadcaster
	made := make(chan cloudprovider.Interface, 1)
	go func() {
		defer close(made)
		made <- p.initCloud(p.initConfig)
	}()
	select {
	case <-ctx.Done():
		return nil, nil
	case provider := <-made:
		if err := p.takeOver(given); err != nil {
			return nil, err
		}
		if provider == nil {
			return nil, errors.New(
				"the program has made no cloud provider: --cloud-provider names one that it does not have, or one that is external to it",
			)
		}
		return provider, nil
	}
}

// takeOver keeps what InitCloudFunc has changed of the configuration that it was given, as upstream's has one
// configuration for all. The process has its own clients all the same, since those of InitCloudFunc ask the fences.
// Constructors get what was put in the place of a client, a broadcaster or a recorder.
func (p *process) takeOver(given config.Config) error {
	own, changed := p.config.Config, *p.initConfig.Config
	if _, handedOut := changed.ClientBuilder.(builder); handedOut {
		changed.ClientBuilder = own.ClientBuilder
	}
	p.replaced = replacedIn(changed, given)
	if p.replaced.EventBroadcaster != nil {
		p.replaced.EventBroadcaster.StartStructuredLogging(0)
		p.replaced.EventBroadcaster.StartRecordingToSink(events.Sink(given.Client.CoreV1()))
	}
	changed.Client, changed.VersionedClient = own.Client, own.VersionedClient
	changed.EventBroadcaster, changed.EventRecorder = own.EventBroadcaster, own.EventRecorder
	*own.Kubeconfig = *changed.Kubeconfig // in its place, since the ClientBuilder has it too
	own.Kubeconfig.Wrap(passLaterFences)
	changed.Kubeconfig = own.Kubeconfig
	*own = changed
	explicit := p.settings.explicitRoutePeriod
	p.settings.readShared(own.ComponentConfig.KubeCloudShared)
	p.settings.explicitRoutePeriod = p.settings.explicitRoutePeriod || explicit
	return p.showConfig()
}

// replacedIn is what of a configuration is not as it was given: clients, broadcaster and recorder.
func replacedIn(changed, given config.Config) (out config.Config) {
	if changed.Client != given.Client {
		out.Client = changed.Client
	}
	if changed.VersionedClient != given.VersionedClient {
		out.VersionedClient = changed.VersionedClient
	}
	if changed.EventBroadcaster != given.EventBroadcaster {
		out.EventBroadcaster = changed.EventBroadcaster
	}
	if changed.EventRecorder != given.EventRecorder {
		out.EventRecorder = changed.EventRecorder
	}
	return out
}

// elect returns the elector of the groups' leases and gives the groups their fences. It is nil without leader election.
func (p *process) elect(ctx context.Context) (*election.Elector, error) {
	generic := p.config.ComponentConfig.Generic.LeaderElection
	if !generic.LeaderElect {
		var err error
		p.groups[0].fence, err = p.openFence(ctx)
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the name of this host for the holder of leases: %w", err)
	}
	client, err := leaseClient(p.config.Kubeconfig)
	if err != nil {
		return nil, err
	}
	identity := host + "_" + string(uuid.NewUUID()) // two processes of one host must not take each other for themselves
	self, err := testimony.Prepare(p.settings.PodTestimony, p.settings.TerminationMessagePath, identity)
	if err != nil {
		return nil, err
	}
	elector, err := election.New(election.Config{
		Identity:      identity,
		Client:        client.CoordinationV1(),
		Testimony:     p.testimony(self, client),
		Recorder:      p.config.EventRecorder,
		Leases:        leases(p.groups, generic.ResourceNamespace),
		LeaseDuration: generic.LeaseDuration.Duration,
		RenewDeadline: generic.RenewDeadline.Duration,
		RetryPeriod:   generic.RetryPeriod.Duration,
		DrainTimeout:  p.settings.DrainTimeout,
		OnStarted:     func(ctx context.Context, lease string) { p.lead(ctx, p.group(lease)) },
		Drained:       func(lease string) <-chan struct{} { return p.drained(p.group(lease)) },
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the election: %w", err)
	}
	for _, g := range p.groups {
		g.fence = elector.Fence(g.lease)
		p.checkHealth(open(healthz.NamedCheck("lease-"+g.lease, func(*http.Request) error { return elector.Check(g.lease) })))
	}
	return elector, nil
}

// testimony is how the election hears of the end of other holders. It is nil where --pod-testimony is never.
func (p *process) testimony(self *testimony.Self, client kubernetes.Interface) *election.Testimony {
	if p.settings.PodTestimony == testimony.Never {
		return nil
	}
	return &election.Testimony{Self: self, Pods: client.CoreV1()}
}

// group is the group of a lease.
func (p *process) group(lease string) *group {
	for _, g := range p.groups {
		if g.lease == lease {
			return g
		}
	}
	return nil
}

// equip gives each group its clients and its cloud, behind its fence, and makes its InitFuncs with them. A constructor
// that may assert the provider's type gets the provider itself, which asks the fences at its transport if it can.
func (p *process) equip(shell *cloud.Guard, provider cloudprovider.Interface) error {
	fences := p.fences()
	if fenced, ok := provider.(interface{ UseFences(...*election.Fence) }); ok { // it asks them before each request
		fenced.UseFences(fences...)
	}
	p.initFences.set(fences)
	if err := p.fenceEmbedding(); err != nil {
		return err
	}
	p.shared = []informers.SharedInformerFactory{p.config.SharedInformers}
	for _, g := range p.groups {
		var err error
		if g.config, err = fenced(p.config, fencedBy(g.fence)); err != nil {
			return err
		}
		g.events = g.config.EventBroadcaster
		useReplaced(g.config.Config, p.replaced)
		g.cloud, g.inits = shell.For(g.fence), map[string]InitFunc{}
		for _, name := range g.controllers {
			c := p.constructors[name]
			given := provider
			if isLibrarys(c.Constructor) {
				given = g.cloud
			}
			g.inits[name] = c.Constructor(c.InitContext, g.config, given)
			if factory := g.config.SharedInformers; factory != p.config.SharedInformers { // for those that follow, too
				p.config.SharedInformers = factory
				p.shared = append(p.shared, factory)
			}
		}
	}
	return nil
}

// useReplaced puts into a configuration what InitCloudFunc has put in the place of its own.
func useReplaced(c *config.Config, replaced config.Config) {
	if replaced.Client != nil {
		c.Client = replaced.Client
	}
	if replaced.VersionedClient != nil {
		c.VersionedClient = replaced.VersionedClient
	}
	if replaced.EventBroadcaster != nil {
		c.EventBroadcaster = replaced.EventBroadcaster
	}
	if replaced.EventRecorder != nil {
		c.EventRecorder = replaced.EventRecorder
	}
}

// warmUp starts what leader and standby have in common: the caches, and the provider if it is started early. It is
// false when ctx ended before the provider was ready.
func (p *process) warmUp(ctx context.Context) bool {
	p.warm.Core().V1().Nodes().Informer()
	for _, g := range p.groups {
		if _, ok := g.inits[names.ServiceLBController]; ok {
			p.warm.Core().V1().Services().Informer()
		}
	}
	if p.early {
		go p.startProvider(ctx)
		select {
		case <-ctx.Done():
			return false
		case <-p.start.done:
		}
	} else {
		p.answers.set(nil)
	}
	p.warm.Start(p.ended)
	p.started.set(nil)
	return true
}

// sharedTimeout bounds the wait for informers that an author may have started with a channel that never closes.
const sharedTimeout = time.Second

// stopInformers waits until no cache is watched any more.
func (p *process) stopInformers() {
	p.warm.Shutdown()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for _, factory := range p.shared {
			factory.Shutdown()
		}
		for _, g := range p.groups {
			if g.informers != nil {
				g.informers.Shutdown()
			}
		}
	}()
	select {
	case <-stopped:
	case <-time.After(sharedTimeout):
		klog.InfoS("Shared informers are still running; the program has started them with a channel of its own")
	}
}

func (p *process) fences() []*election.Fence {
	var fences []*election.Fence
	for _, g := range p.groups {
		fences = append(fences, g.fence)
	}
	return fences
}

// watchReadiness notes when the caches are full and the cloud has answered. A process that was told to end is not ready
// any more.
func (p *process) watchReadiness(ctx context.Context, shell *cloud.Guard) {
	go func() {
		for kind, synced := range p.warm.WaitForCacheSync(ctx.Done()) {
			if !synced {
				p.caches.set(fmt.Errorf("the cache of %s is not complete", kind))
				return
			}
		}
		p.caches.set(nil)
		p.watchCloud(ctx, shell)
	}()
	context.AfterFunc(ctx, func() { p.started.set(errors.New("the process is ending")) })
}

// runAlone runs all controllers without a lease.
func (p *process) runAlone(ctx context.Context) error {
	g := p.groups[0]
	p.lead(election.NewContext(ctx, g.fence), g)
	<-ctx.Done()
	select {
	case <-p.drained(g):
	case <-time.After(p.settings.DrainTimeout):
		klog.InfoS("Some work has not ended in time and is cut off", "limit", p.settings.DrainTimeout)
	}
	g.fence.Revoke("the process is ending")
	return nil
}

// recordEvents sends the events of the process itself, those of elections, until the returned function is called.
func (p *process) recordEvents() (stop func()) {
	p.config.EventBroadcaster.StartStructuredLogging(0)
	p.config.EventBroadcaster.StartRecordingToSink(events.Sink(p.config.Client.CoreV1()))
	return func() {
		p.config.EventBroadcaster.Shutdown()
		if p.embedding != nil {
			p.embedding.EventBroadcaster.Shutdown()
		}
		switch {
		case p.replaced.EventBroadcaster != nil:
			p.replaced.EventBroadcaster.Shutdown() // the one that was given is the author's to end
		case p.initEvents != nil:
			p.initEvents.Shutdown()
		}
		for _, g := range p.groups {
			if g.events != nil {
				g.events.Shutdown()
			}
		}
	}
}
