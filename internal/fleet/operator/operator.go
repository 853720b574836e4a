// Package operator decides what is done for which user cluster, when, and how much of it at a time.
//
//	Clusters (two groups), Deployments ──watch──> queue ──> reconcile: state.Decide, conditions written when they changed
//	                                                ^            │
//	                                                │            ├──> looks: journal, owners, parts, machines     (two lanes)
//	                                                │            └──> runs of the engine                          (bounded, first come)
//	                                                └── what they found, kept in memory ──────┘
//
// A reconcile asks caches and memory only, and at most writes conditions to the seed: no user cluster can hold it up.
// Long work runs next to it, at most one read and one run for each cluster. It puts the cluster into the queue again
// when it has ended. A cluster whose reads fail uses a lane of its own, so that clusters that hang do not block those
// that answer. A run that has not moved for a while gives its place to another cluster and goes on.
//
// What has to outlast the process is in the cluster: the conditions, and the journals in the seed namespaces. An
// operator that starts reads them, and goes on.
package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/view"
)

// Operator migrates the user clusters of a seed. Warm and Lead may each be called once.
type Operator struct {
	Options
	clusters    *clusters
	deployments *deployments
	queue       workqueue.TypedRateLimitingInterface[string]
	states      *stateCache
	runs        *runs
	watches     *watches
	looks       looks
	// leading is open while Lead runs: what is enqueued before that is dropped.
	leading   atomic.Bool
	jobs      jobs
	heartbeat heartbeat
}

// New returns an operator that does nothing yet.
func New(o Options) (*Operator, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	op := &Operator{
		Options: o,
		states:  newStateCache(),
		runs:    newRuns(o.MaxParallel, o.StallAfter, time.Now),
		watches: newWatches(o.MaxWatches),
	}
	op.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute),
	)
	op.clusters = newClusters(&o, op.enqueueCluster)
	op.jobs = jobs{Options: &op.Options, clusters: op.clusters, queue: op.queue}
	op.looks = looks{&op.Options, &op.jobs, op.states, newLookLimiter(o.Looks)}
	op.deployments = newDeployments(o.Kube, op.changedIn, op.clusters.namespaces)
	o.Metrics.watch(op)
	return op, nil
}

// Warm fills the caches and keeps them until ctx ends, on the leader and on standby.
func (op *Operator) Warm(ctx context.Context) {
	var caches sync.WaitGroup
	caches.Go(func() { op.clusters.run(ctx, op.Discover) })
	caches.Go(func() { op.deployments.run(ctx) })
	caches.Wait()
}

// Lead decides and acts until ctx ends, and returns when everything that it began has ended. Its caller holds the
// lease. When ctx ends, nothing new is begun, and steps under way are finished; when the fence that ctx carries closes,
// everything ends at once.
func (op *Operator) Lead(ctx context.Context) {
	op.leading.Store(true)
	defer op.leading.Store(false)
	context.AfterFunc(ctx, func() {
		op.queue.ShutDown()
		op.runs.stopAll()
		op.watches.stopAll()
	})
	acting := ctx
	if fence := election.FromContext(ctx); fence != nil {
		bound, release := fence.Bind(ctx)
		defer release()
		acting = bound
	}
	for !op.hasSynced() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	all, _ := op.clusters.List()
	for _, o := range all {
		op.queue.Add(o.Cluster.Name)
	}
	var workers sync.WaitGroup
	for n := range op.Workers {
		workers.Go(func() { op.work(ctx, acting, n) })
	}
	workers.Go(func() { op.handOut(ctx) })
	workers.Wait()
	op.jobs.running.Wait()
}

// work takes clusters from the queue until ctx ends; acting is the context of what it begins.
func (op *Operator) work(ctx, acting context.Context, worker int) {
	for {
		name, ended := op.queue.Get()
		if ended || ctx.Err() != nil {
			return
		}
		begun := time.Now()
		op.heartbeat.markBusy(worker, begun)
		err := op.jobs.guard(name, "decision", func() error { return op.reconcile(acting, name) })
		op.heartbeat.markIdle(worker)
		op.Metrics.reconciled(time.Since(begun), err)
		if err != nil && ctx.Err() == nil {
			op.Log.Error(err, "A cluster could not be reconciled and is tried again", "cluster", name)
			op.queue.AddRateLimited(name)
		} else {
			op.queue.Forget(name)
		}
		op.queue.Done(name)
	}
}

// handOut wakes those that wait for a place which a stalled run has given up.
func (op *Operator) handOut(ctx context.Context) {
	tick := time.NewTicker(max(op.StallAfter/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			op.wakeNext()
		}
	}
}

func (op *Operator) wakeNext() {
	for _, name := range op.runs.next() {
		op.queue.Add(name)
	}
}

func (op *Operator) enqueueCluster(name string) {
	if op.leading.Load() {
		op.queue.Add(name)
	}
}

func (op *Operator) changedIn(namespace string) {
	if !op.leading.Load() {
		return
	}
	for _, name := range op.clusters.in(namespace) {
		op.queue.Add(name)
	}
}

func (op *Operator) hasSynced() bool { return op.Ready() == nil }

// Ready returns why this operator could not do its work: a cache is not complete, or the seed does not serve Clusters.
func (op *Operator) Ready() error {
	if err := op.clusters.checkCaches(); err != nil {
		return err
	}
	if !op.deployments.hasSynced() {
		return errors.New("the caches of Deployments are not complete")
	}
	return nil
}

// stuckWorker is how long one reconcile may take. It asks memory, and writes to the seed with a time-out.
const stuckWorker = 2 * time.Minute

// Alive returns an error when a worker has been busy with one cluster for so long that the process has to be restarted.
func (op *Operator) Alive() error {
	if since, stuck := op.heartbeat.oldest(); stuck && time.Since(since) > stuckWorker {
		return fmt.Errorf("a worker has been at one cluster since %s", since.UTC().Format(time.RFC3339))
	}
	return nil
}

// List implements web.Clusters.
func (op *Operator) List() ([]view.Object, bool) { return op.clusters.List() }

// Changed implements web.Clusters.
func (op *Operator) Changed(ctx context.Context) <-chan struct{} { return op.clusters.Changed(ctx) }

// Groups returns the API groups under which there is a Cluster of a name, by the cache; complete is false while that is
// not full.
func (op *Operator) Groups(name string) (found []string, complete bool) {
	for _, o := range op.clusters.get(name) {
		found = append(found, o.Group)
	}
	return found, op.clusters.checkCaches() == nil
}

// Refusals are the sentences of the rules that keep a cluster from being migrated, judged as it would be with the
// feature on.
func (op *Operator) Refusals(ctx context.Context, c *kubermaticv1.Cluster) []string {
	c = rules.Enabled(c)
	plane := op.deployments.plane(c.ControlPlaneNamespace()) //nolint:contextcheck // the caches end with the operator and not with a caller
	return op.Rules.Refusals(ctx, c, plane.InTree != "")
}

// heartbeat notes since when each worker is busy.
type heartbeat struct {
	mu   sync.Mutex
	busy map[int]time.Time
}

func (p *heartbeat) markBusy(worker int, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy == nil {
		p.busy = map[int]time.Time{}
	}
	p.busy[worker] = at
}

func (p *heartbeat) markIdle(worker int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, worker)
}

func (p *heartbeat) oldest() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var oldest time.Time
	for _, at := range p.busy {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest, !oldest.IsZero()
}
