package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// dispatch works on Services, one goroutine each, until ctx ends and what has begun is done. Calls are made with a
// context that outlives ctx.
func (c *Controller) dispatch(ctx, calls context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		select {
		case c.workerSlots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		key, quit := c.queue.Get()
		if quit || ctx.Err() != nil {
			return // what is left in the queue is the next leader's
		}
		workers.Go(func() { c.work(calls, key) })
	}
}

// work looks at one Service. Its place goes to another when it takes long, unless there is only the one.
func (c *Controller) work(ctx context.Context, key string) {
	leave := sync.OnceFunc(func() { <-c.workerSlots })
	defer leave()
	if c.config.Workers > 1 {
		defer leaveWhenSlow(leave, c.slowSlots)()
	}
	defer c.queue.Done(key)
	err := c.sync(ctx, key)
	c.rounds.done(key, c.clock.Now())
	c.requeue(ctx, key, err)
}

// leaveWhenSlow moves work that takes long from a worker's place to one for slow work, once there is one. The caller
// calls done when the work has ended.
func leaveWhenSlow(leave func(), slowSlots chan struct{}) (done func()) {
	ended := make(chan struct{})
	timer := time.AfterFunc(slowAfter, func() {
		select {
		case slowSlots <- struct{}{}:
			leave()
			<-ended
			<-slowSlots
		case <-ended:
		}
	})
	return func() {
		timer.Stop()
		close(ended)
	}
}

func (c *Controller) requeue(ctx context.Context, key string, err error) {
	if err == nil || isFinal(ctx, err) {
		c.retries.forget(key)
		return
	}
	logger := klog.FromContext(ctx).WithValues("service", key)
	next, unknown := c.nextFor(key)
	if unknown == nil && next.canWait() {
		c.queue.lanes.mark(key, true)
	}
	if retry, ok := errors.AsType[*api.RetryError](err); ok {
		logger.V(1).Info("The provider asks for another try", "after", retry.RetryAfter(), "reason", err.Error())
		c.queue.AddAfter(key, retry.RetryAfter())
		return
	}
	logger.Error(err, "Keeping a load balancer; it is tried again")
	delay := c.retries.delay(key, err)
	if unknown == nil && next.isLeaving() {
		delay = min(delay, maxDeleteDelay)
	}
	c.queue.AddAfter(key, delay)
}

// retries decides when a Service is tried again.
type retries struct {
	failed, throttled workqueue.TypedRateLimiter[string]
}

const (
	// throttledDelay is before the first try after one that the cloud has throttled. It doubles each time. The guard
	// makes no more calls than the cloud takes, so a longer delay would keep the Service waiting and spare no call.
	throttledDelay = 250 * time.Millisecond
	// throttledTries are not worth an event: the cloud takes the call soon as a rule.
	throttledTries = 4
)

func newRetries() retries {
	return retries{
		newDelays(),
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](throttledDelay, maxRetryDelay),
	}
}

// delay is how long to wait after an error.
func (r retries) delay(key string, err error) time.Duration {
	if isThrottled(err) {
		return r.throttled.When(key)
	}
	return r.failed.When(key)
}

func (r retries) forget(key string) {
	r.failed.Forget(key)
	r.throttled.Forget(key)
}

// isBrief reports whether an error only says that the cloud throttles, and has not done so for long.
func (r retries) isBrief(key string, err error) bool {
	return isThrottled(err) && r.throttled.NumRequeues(key) < throttledTries
}

func isThrottled(err error) bool { return err != nil && cloud.Classify(err) == cloud.OutcomeThrottled }

// urgentInRow is how many Services that were changed are taken before one of those that can wait, while there are both.
const urgentInRow = 4

// lanes is the order of the queue. Services that were made or changed come before those that a batch of nodes, a drift
// check or a takeover sends. A node that joins would else have a new Service wait until all load balancers have it.
// Those that can wait get each fifth turn, so that many changes do not keep nodes from the load balancers.
type lanes struct {
	adding sync.Mutex // a mark and what is added with it belong together

	mu      sync.Mutex
	canWait map[string]bool // by key that was added, until it is taken

	// The queue calls the methods under its own lock, which guards these.
	queued          map[string]bool // by key: whether it is urgent
	urgent, waiting []string        // in waiting there may be keys that have become urgent since
	inRow           int
}

// serviceQueue is a queue with such an order.
type serviceQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	lanes *lanes
}

// enqueue sends a Service that was made, changed or deleted.
func (q serviceQueue) enqueue(key string) { q.lanes.add(q, key, false) }

// enqueueWaiting sends a Service for another reason than its own change.
func (q serviceQueue) enqueueWaiting(key string) { q.lanes.add(q, key, true) }

func newLanes() *lanes { return &lanes{canWait: map[string]bool{}, queued: map[string]bool{}} }

// add adds a key to the queue of this order.
func (l *lanes) add(queue workqueue.TypedInterface[string], key string, canWait bool) {
	l.adding.Lock()
	defer l.adding.Unlock()
	l.mark(key, canWait)
	queue.Add(key)
}

// mark says whether a key can wait, until it is taken. What is urgent stays so.
func (l *lanes) mark(key string, canWait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.canWait[key]; !ok || before {
		l.canWait[key] = canWait
	}
}

func (l *lanes) isUrgent(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.canWait[key]
}

// forget ends what was said of a key that is taken.
func (l *lanes) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.canWait, key)
}

// Push implements workqueue.Queue.
func (l *lanes) Push(key string) {
	urgent := l.isUrgent(key)
	if l.queued[key] = urgent; urgent {
		l.urgent = append(l.urgent, key)
	} else {
		l.waiting = append(l.waiting, key)
	}
}

// Touch implements workqueue.Queue: a key that waits and was changed goes on among the urgent ones.
func (l *lanes) Touch(key string) {
	if wasUrgent, ok := l.queued[key]; ok && !wasUrgent && l.isUrgent(key) {
		l.queued[key] = true
		l.urgent = append(l.urgent, key)
	}
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return len(l.queued) }

// Pop implements workqueue.Queue.
func (l *lanes) Pop() string {
	for len(l.waiting) > 0 && l.isStale(l.waiting[0]) {
		l.waiting = l.waiting[1:]
	}
	var key string
	if len(l.urgent) > 0 && (len(l.waiting) == 0 || l.inRow < urgentInRow) {
		key, l.urgent = l.urgent[0], l.urgent[1:]
		l.inRow++
	} else {
		key, l.waiting = l.waiting[0], l.waiting[1:]
		l.inRow = 0
	}
	delete(l.queued, key)
	l.forget(key)
	return key
}

// isStale reports whether a key of those that wait was taken, or has become urgent.
func (l *lanes) isStale(key string) bool {
	urgent, queued := l.queued[key]
	return urgent || !queued
}

// task is what is to be done next about a load balancer.
type task struct {
	op      operation
	service *corev1.Service // nil when it is gone
	lb      lbState
}

// isLeaving reports whether a load balancer is to be deleted, and not made, kept or left alone.
func (t task) isLeaving() bool { return t.op == opDelete || t.op == opReplace || t.op == opCleanup }

// canWait reports whether no user waits for what is to be done.
func (t task) canWait() bool { return t.op == opUpdate || t.op == opCheck || t.op == opResync }

func (c *Controller) nextFor(key string) (task, error) {
	service, err := c.lookUp(key)
	if err != nil {
		return task{}, err
	}
	lb, known := c.store.get(key)
	op := chooseOperation(
		facts{
			service: service,
			known:   known,
			lb:      lb,
			view:    c.nodes.view(),
			now:     c.clock.Now(),
		},
	)
	return task{op, service, lb}, nil
}

// sync does what one Service's load balancer needs.
func (c *Controller) sync(ctx context.Context, key string) error {
	next, err := c.nextFor(key)
	if err != nil {
		return err
	}
	if next.canWait() {
		ctx = cloud.WithLowPriority(ctx)
	}
	service, lb := next.service, next.lb
	switch next.op {
	case opOrphan:
		c.store.orphan(key, lb)
		c.state.dropEntry(key)
	case opDelete:
		return c.removeGone(ctx, key, lb)
	case opReplace:
		if err := c.removeGone(ctx, key, lb); err != nil {
			return err
		}
		return c.sync(ctx, key)
	case opCleanup:
		return c.recordOutcome(ctx, key, service, lb, c.cleanup(ctx, key, service, lb))
	case opEnsure:
		if !lb.asked {
			c.recorder.Event(service, corev1.EventTypeNormal, reasonEnsuring, "Ensuring load balancer")
		}
		return c.recordOutcome(ctx, key, service, lb, c.ensure(ctx, key, service, lb))
	case opUpdate:
		return c.update(ctx, key, service, lb)
	case opStatus:
		return c.recordFailure(ctx, service, c.repairStatus(ctx, key, service, lb))
	case opResync:
		return c.recordFailure(ctx, service, c.resync(ctx, key, service, lb))
	case opCheck:
		return c.check(ctx, key, service, lb)
	case opNone:
	}
	return nil
}

// lookUp returns a Service, or nil when it is gone.
func (c *Controller) lookUp(key string) (*corev1.Service, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, err
	}
	service, err := c.services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return service, err
}

// recordFailure makes an error an event, unless it is that this process may no longer act.
func (c *Controller) recordFailure(ctx context.Context, service *corev1.Service, err error) error {
	if err != nil && !isFinal(ctx, err) && !c.retries.isBrief(keyOf(service), err) {
		c.recorder.Eventf(service, corev1.EventTypeWarning, reasonSyncFailed, "Error syncing load balancer: %v", err)
	}
	return err
}

// recordOutcome makes an error an event. Of tries that the provider asks for, one after the other, only the first has
// one.
func (c *Controller) recordOutcome(
	ctx context.Context,
	key string,
	service *corev1.Service,
	before lbState,
	err error,
) error {
	c.store.noteAsked(key, asksForAnother(err))
	if before.asked && asksForAnother(err) {
		return err
	}
	return c.recordFailure(ctx, service, err)
}

func asksForAnother(err error) bool {
	var retry *api.RetryError
	return errors.As(err, &retry)
}

// ensure makes the load balancer follow its Service. The state says from the start that it may not: what fails half-way
// is ensured again.
func (c *Controller) ensure(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	lb.uid = service.UID
	lb.service = service
	lb.spec = ""
	lb.implementedElsewhere = false
	lb.tried = true
	lb.cleaning = false
	lb.gone = false
	c.store.putLBState(key, lb)
	c.state.withdraw(ctx, key)
	if err := c.addFinalizer(ctx, service); err != nil {
		return fmt.Errorf("failed to add load balancer cleanup finalizer: %w", err)
	}
	return c.ensureAndWriteStatus(ctx, key, service, lb, false)
}

// ensureAndWriteStatus calls the provider and writes what it says into the Service. A quiet one makes no event when
// nothing goes wrong.
func (c *Controller) ensureAndWriteStatus(
	ctx context.Context,
	key string,
	service *corev1.Service,
	lb lbState,
	quiet bool,
) error {
	batch := c.batches.Load()
	nodes, v, err := c.nodes.members()
	if err != nil {
		return err
	}
	if len(nodes) == 0 && !quiet {
		c.recorder.Event(service, corev1.EventTypeWarning, reasonUnavailable, "There are no available nodes for LoadBalancer")
	}
	status, err := c.cloud.ensure(ctx, service, nodes)
	if err != nil && !isElsewhere(err) {
		return fmt.Errorf("failed to ensure load balancer: %w", err)
	}
	lb.service, lb.spec, lb.members = service, specPrint(service), v.set
	if isElsewhere(err) {
		klog.FromContext(ctx).V(4).Info("Another controller implements the load balancer", "service", key)
		lb.implementedElsewhere, lb.status, lb.stored, lb.seen = true, nil, nil, nil
		c.store.putLBState(key, lb)
		return nil
	}
	c.schedule(&lb)
	if lb.status == nil || !hasSameAddresses(status, lb.status) {
		lb.notFound = 0 // ensuring it has changed something
	}
	lb.status, lb.stored = status, nil
	c.store.putLBState(key, lb)
	if !quiet {
		c.recorder.Event(service, corev1.EventTypeNormal, reasonEnsured, "Ensured load balancer")
	}
	c.catchUp(key, lb, batch)
	return c.writeStatus(ctx, key, service, lb)
}

// update gives the load balancer the members of now. One that does not exist any more or fails is ensured at once,
// unless the provider asks for time.
func (c *Controller) update(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	batch := c.batches.Load()
	nodes, v, err := c.nodes.members()
	if err != nil {
		nodeSyncErrorCount.Inc()
		return err
	}
	c.state.withdraw(ctx, key)
	switch err = c.cloud.update(ctx, service, nodes); {
	case err == nil && len(nodes) == 0:
		c.recorder.Event(service, corev1.EventTypeWarning, reasonUnavailable, "There are no available nodes for LoadBalancer")
	case err == nil:
		c.recorder.Event(service, corev1.EventTypeNormal, reasonUpdated, "Updated load balancer with new hosts")
	case isElsewhere(err):
	default:
		return c.notUpdated(ctx, key, service, lb, nodes, err)
	}
	lb.members = v.set
	c.store.putLBState(key, lb)
	c.noteInSync(key, lb)
	c.catchUp(key, lb, batch)
	return nil
}

func (c *Controller) notUpdated(
	ctx context.Context,
	key string,
	service *corev1.Service,
	lb lbState,
	nodes []*corev1.Node,
	err error,
) error {
	if c.retries.isBrief(key, err) {
		return err // nothing is wrong with the load balancer
	}
	lb.spec = ""
	c.store.putLBState(key, lb)
	if isFinal(ctx, err) {
		return err
	}
	nodeSyncErrorCount.Inc()
	var retry *api.RetryError
	if errors.As(err, &retry) {
		return err
	}
	if _, exists, getErr := c.cloud.get(ctx, service); getErr != nil {
		klog.FromContext(ctx).Error(getErr, "Looking for a load balancer that could not be updated", "service", key)
	} else if !exists {
		return c.sync(ctx, key)
	}
	c.recorder.Eventf(
		service,
		corev1.EventTypeWarning,
		reasonUpdateFailed,
		"Error updating load balancer with new hosts %v [node names limited, total number of nodes: %d], error: %v",
		someNames(nodes),
		len(nodes),
		err,
	)
	klog.FromContext(ctx).Error(err, "Updating a load balancer failed; it is ensured", "service", key)
	return c.sync(ctx, key)
}

// catchUp enqueues a load balancer that was being worked on while a batch of nodes was given, and was passed over.
func (c *Controller) catchUp(key string, lb lbState, batch uint64) {
	if c.batches.Load() != batch && c.nodes.view().needsUpdate(lb.members) {
		c.queue.enqueueWaiting(key)
	}
}

// cleanup deletes the load balancer of a Service that wants it no more, and then lets the Service go.
func (c *Controller) cleanup(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	lb.uid, lb.service, lb.spec, lb.stored, lb.cleaning, lb.gone = service.UID, service, "", nil, true, false
	c.store.putLBState(key, lb)
	_, exists, err := c.cloud.get(ctx, service)
	if err != nil && !isElsewhere(err) {
		return fmt.Errorf("failed to check if load balancer exists before cleanup: %w", err)
	}
	c.state.withdraw(ctx, key)
	if exists {
		if !lb.asked {
			c.recorder.Event(service, corev1.EventTypeNormal, reasonDeleting, "Deleting load balancer")
		}
		if err := c.cloud.remove(ctx, service); err != nil {
			return fmt.Errorf("failed to delete load balancer: %w", err)
		}
	}
	if err := c.removeFinalizer(ctx, service); err != nil {
		return fmt.Errorf("failed to remove load balancer cleanup finalizer: %w", err)
	}
	c.recorder.Event(service, corev1.EventTypeNormal, reasonDeleted, "Deleted load balancer")
	c.store.dropLBState(key)
	return nil
}

// removeGone deletes the load balancer of a Service that is no longer there. The state says from the start that it
// goes. So it is neither left alone nor forgotten, whatever becomes of the next Service of that name.
func (c *Controller) removeGone(ctx context.Context, key string, lb lbState) error {
	if !lb.isMade() {
		c.store.dropLBState(key)
		return nil
	}
	lb.cleaning, lb.gone = true, false
	c.store.putLBState(key, lb)
	c.state.withdraw(ctx, key)
	if !lb.asked {
		c.recorder.Event(lb.service, corev1.EventTypeNormal, reasonDeleting, "Deleting load balancer")
	}
	if err := c.cloud.remove(ctx, lb.service); err != nil {
		c.store.noteAsked(key, asksForAnother(err))
		if !isFinal(ctx, err) && !(lb.asked && asksForAnother(err)) && !c.retries.isBrief(key, err) {
			c.recorder.Eventf(lb.service, corev1.EventTypeWarning, reasonDeleteFailed, "Error deleting load balancer: %v", err)
		}
		return fmt.Errorf("deleting the load balancer of service %q, which is gone: %w", key, err)
	}
	c.recorder.Event(lb.service, corev1.EventTypeNormal, reasonDeleted, "Deleted load balancer")
	c.store.dropLBState(key)
	return nil
}

// someNames are the first names of nodes, for an event.
func someNames(nodes []*corev1.Node) []string {
	const most = 20
	var names []string
	for i, node := range nodes {
		if i == most {
			return append(names, fmt.Sprintf("<%d more>", len(nodes)-most))
		}
		names = append(names, node.Name)
	}
	return names
}
