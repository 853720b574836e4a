package ccm

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	genericcontrollermanager "k8s.io/controller-manager/app"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/trim"
	"github.com/transplant-dev/transplant/ccm/nodeipam"
)

// providerStart is the start of the provider, which happens once, whatever the number of leases, and its end.
type providerStart struct {
	once sync.Once
	done chan struct{} // closed when it is initialised
	stop chan struct{} // what it is initialised with: closed when its own loops have to end
	end  func()        // closes stop
}

func newProviderStart() *providerStart {
	s := &providerStart{done: make(chan struct{}), stop: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.stop) })
	return s
}

// newWarmInformers returns the caches of our own controllers. They are filled on standby too, so that nothing is left
// to read when a lease is won. Those of authors, SharedInformers, are started after InitFuncs have been called. Until
// then a transform, a handler of errors or a shorter resync can be set.
func (p *process) newWarmInformers() informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactoryWithOptions(p.config.VersionedClient, ResyncPeriod(p.config)(),
		informers.WithTransform(trim.Object)) // authors who watch Nodes too have them twice in memory
	trim.Nodes(factory, p.config.Kubeconfig.ContentConfig)
	return factory
}

// startProvider initialises the provider, unless that is done, and gives it its informers: those that are warm if it is
// started early. The second caller waits for the first. It is false when ctx has ended meanwhile. An Initialize that is
// under way then is told, and waited for.
func (p *process) startProvider(ctx context.Context) bool {
	p.start.once.Do(func() {
		defer close(p.start.done)
		defer context.AfterFunc(ctx, p.start.end)()
		factory := p.config.SharedInformers
		if p.early {
			factory = p.warm
		}
		first := p.groups[0].cloud // initialising one initialises the provider, and no second one does it again
		first.Initialize(builder{p.config.ClientBuilder, fencedByAny(p.fences())}, p.start.stop)
		if user, ok := first.(cloudprovider.InformerUser); ok {
			user.SetInformers(factory)
		}
	})
	return ctx.Err() == nil
}

// drained is closed when the workers of a group have ended and no call that they gave up may still change something. It
// is closed too when the process has ended, which does not wait for one that never does. When the last group ends, the
// provider is told to end its own loops. That is before a lease is released and not earlier: calls that are being
// finished may need them.
func (p *process) drained(g *group) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !p.waitForEnd(g.workers.drained()) || !p.waitForEnd(g.fence.AbandonedReturned()) {
			return
		}
		if !slices.ContainsFunc(p.groups, (*group).isWorking) {
			p.start.end()
		}
	}()
	return ended
}

// waitForEnd waits for something to end, and reports whether it did so before the process.
func (p *process) waitForEnd(end <-chan struct{}) bool {
	select {
	case <-end:
		return true
	case <-p.ended:
		return false
	}
}

// isWorking reports whether a worker of the group runs, or a call that one gave up.
func (g *group) isWorking() bool {
	if g.workers.isRunning() {
		return true
	}
	select {
	case <-g.fence.AbandonedReturned():
		return false
	default:
		return true
	}
}

// errUnanswered is why a process is not ready before the cloud has answered.
var errUnanswered = errors.New("the cloud has not answered yet")

// watchCloud asks the cloud until it has answered once. A provider that is started under a lease cannot be asked on
// standby, and readiness then says nothing of the cloud. A rollout must not wait for it: the process that is to be
// replaced holds the lease.
func (p *process) watchCloud(ctx context.Context, shell *cloud.Guard) {
	select {
	case <-p.start.done:
	case <-ctx.Done():
		return
	}
	p.answers.set(errUnanswered)
	nodes := p.warm.Core().V1().Nodes().Lister()
	untilAnswered(ctx, func(ctx context.Context) error { return probe(ctx, shell, nodes) }, p.answers)
}

// workers are the goroutines that work under one lease. The lease is released once they have ended.
type workers struct {
	mu      sync.Mutex
	running int
	asked   chan struct{} // closed when nothing runs any more, once that was asked for; nil before
}

// addWorker counts one more worker, unless those that there were have been waited for.
func (w *workers) addWorker() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked != nil && w.running == 0 {
		return false
	}
	w.running++
	return true
}

// isRunning reports whether any worker runs.
func (w *workers) isRunning() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running > 0
}

func (w *workers) removeWorker() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running == 0 && w.asked != nil {
		close(w.asked)
	}
}

// drained is closed when no worker runs. No worker begins after that.
func (w *workers) drained() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked == nil {
		w.asked = make(chan struct{})
		if w.running == 0 {
			close(w.asked)
		}
	}
	return w.asked
}

type workersKey struct{}

func withWorkers(ctx context.Context, w *workers) context.Context {
	return context.WithValue(ctx, workersKey{}, w)
}

// Go runs work in a goroutine that the lease of ctx waits for. When the process is told to end, ctx is cancelled, and
// the lease is released once work has returned. So a successor does not meet its last calls. An InitFunc that starts
// its controller with a plain go statement has its later writes refused by the fence instead. Without a lease in ctx,
// as under upstream's app.Run, Go is a plain go statement.
func Go(ctx context.Context, work func(context.Context)) {
	w, ok := ctx.Value(workersKey{}).(*workers)
	if !ok {
		go work(ctx)
		return
	}
	if !w.addWorker() {
		return // it would begin under a lease that is released
	}
	go func() {
		defer w.removeWorker()
		work(ctx)
	}()
}

// checkAllocation returns why node IPAM of ours cannot run with these flags and this provider, where it is to run. It
// is asked before a lease is contended for: a standby that could not start would be none.
func checkAllocation(
	groups []*group,
	constructors map[string]ControllerInitFuncConstructor,
	completed *config.CompletedConfig,
	provider cloudprovider.Interface,
) error {
	for _, g := range groups {
		for _, name := range g.controllers {
			if isSameConstructor(constructors[name].Constructor, StartNodeIPAMControllerWrapper) {
				return nodeipam.CheckAllocator(completed.ComponentConfig.KubeCloudShared.CIDRAllocatorType, provider)
			}
		}
	}
	return nil
}

// hasRouteController reports whether the route controller runs with these flags and this provider.
func hasRouteController(completed *config.CompletedConfig, provider cloudprovider.Interface) bool {
	return withoutRoutes(completed, provider) == "" && genericcontrollermanager.IsControllerEnabled(
		names.NodeRouteController,
		sets.NewString(),
		completed.ComponentConfig.Generic.Controllers,
	)
}
