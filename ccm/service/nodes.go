package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

const (
	// joinDelay gathers nodes whose events are in one answer of the API server's watch. They would be a lone node and a
	// group behind it else, which costs each load balancer two updates.
	joinDelay = 20 * time.Millisecond
	// leaveDelay gathers nodes that leave together. They do not wait longer: connections are sent to them meanwhile.
	leaveDelay = 200 * time.Millisecond
	// leaveInterval is the least time between two updates for nodes that leave, so that a scale-down of many costs few.
	leaveInterval = 2 * time.Second
)

// batching decides when nodes that have joined or left are given to the load balancers.
//
// The first nodes that join after a quiet time are given at once (joinDelay), unless others are known to be on their
// way. What follows waits until none has come or joined for two windows (for one, if it is a lone node), or for the
// interval. A group that scales up over ten seconds costs each load balancer two updates, and a lone node waits for
// nothing.
type batching struct {
	window, interval time.Duration

	firstJoin, lastJoin time.Time // of those not given yet; zero without one
	firstLeave          time.Time
	burst               time.Time // when joins were last given at once
	joinsGiven          time.Time // when they were last given after a wait
	leavesGiven         time.Time

	coming map[string]time.Time // nodes that wait to be initialised, and since when
	order  []comer              // the same, the last at the end; those that have arrived may still be in it
}

// comer is a node that waits to be initialised.
type comer struct {
	name  string
	since time.Time
}

func (b *batching) noteChange(what change, now time.Time) {
	switch what {
	case changeJoins:
		b.lastJoin = now
		if b.firstJoin.IsZero() {
			b.firstJoin = now
		}
	case changeLeaves:
		if b.firstLeave.IsZero() {
			b.firstLeave = now
		}
	case changeNone:
	}
}

// noteComing notes whether a node is on its way to be a member, and reports whether that is news.
func (b *batching) noteComing(name string, coming bool, now time.Time) bool {
	if _, known := b.coming[name]; known == coming {
		return false
	}
	if !coming {
		delete(b.coming, name)
		return true
	}
	if b.coming == nil {
		b.coming = map[string]time.Time{}
	}
	b.coming[name] = now
	b.order = append(b.order, comer{name, now})
	return true
}

// lastCame is when the last node came of those that wait to be initialised; zero when none does.
func (b *batching) lastCame() time.Time {
	for n := len(b.order); n > 0; n-- {
		last := b.order[n-1]
		if since, coming := b.coming[last.name]; coming && since.Equal(last.since) {
			return last.since
		}
		b.order = b.order[:n-1]
	}
	return time.Time{}
}

// arrived is until when nodes are known to be on their way; zero when none is. One that is not initialised within the
// period is expected no longer: its cloud may not know it.
func (b *batching) arrived() time.Time {
	if came := b.lastCame(); !came.IsZero() {
		return came.Add(b.period())
	}
	return time.Time{}
}

// period is for how long a group gathers at most, and how long it has to be quiet before a join is the first.
func (b *batching) period() time.Duration { return max(b.interval, 2*b.window) }

// isFirst reports whether the joins that wait are the first after a quiet time.
func (b *batching) isFirst() bool {
	return !b.firstJoin.Before(later(b.burst, b.joinsGiven).Add(b.period()))
}

// dueTime is when the load balancers are to be given what has changed; zero when nothing has.
func (b *batching) dueTime() time.Time {
	var due time.Time
	if !b.firstJoin.IsZero() {
		due = b.joinsDue()
	}
	if !b.firstLeave.IsZero() {
		if leave := later(b.firstLeave.Add(leaveDelay), b.leavesGiven.Add(leaveInterval)); due.IsZero() || leave.Before(due) {
			due = leave
		}
	}
	return due
}

func (b *batching) joinsDue() time.Time {
	earliest := later(b.firstJoin, b.joinsGiven.Add(b.interval))
	quiet, began := b.window, b.firstJoin
	if b.lastJoin.After(b.firstJoin) {
		quiet = 2 * b.window
	}
	if !b.isFirst() && b.burst.After(b.joinsGiven) {
		began = b.burst // the rest of a group whose first nodes were given at once
	}
	// A batch that has gathered for long enough waits a window longer for nodes that are on their way. They would cost
	// each load balancer another update.
	latest := later(earliest, began.Add(b.period()))
	latest = earlier(later(latest, b.arrived()), latest.Add(b.window))
	// While nodes come it is not quiet. On a busy API server it may take seconds until those that come are initialised.
	due := earlier(later(earliest, later(b.lastJoin, b.lastCame()).Add(quiet)), latest)
	if b.isFirst() {
		due = earlier(due, later(b.lastJoin.Add(joinDelay), b.arrived()))
	}
	return due
}

// given notes that the load balancers are being given everything that has changed so far. What is given at once does
// not keep what follows waiting for the interval.
func (b *batching) given(now time.Time) {
	switch {
	case b.firstJoin.IsZero():
	case b.isFirst() && now.Before(b.firstJoin.Add(b.window)):
		b.burst = now
	default:
		b.joinsGiven = now
	}
	if !b.firstLeave.IsZero() {
		b.leavesGiven = now
	}
	b.firstJoin, b.lastJoin, b.firstLeave = time.Time{}, time.Time{}, time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// batcher calls back when a batch is due.
type batcher struct {
	clock clock.WithTicker
	wake  chan struct{}

	mu    sync.Mutex
	state batching
}

func newBatcher(clock clock.WithTicker, window, interval time.Duration) *batcher {
	return &batcher{clock: clock, wake: make(chan struct{}, 1), state: batching{window: window, interval: interval}}
}

// noteEvent takes what an event means for load balancers, and whether the node is on its way to be a member.
func (b *batcher) noteEvent(name string, coming bool, what change) {
	b.mu.Lock()
	now := b.clock.Now()
	news := b.state.noteComing(name, coming, now)
	b.state.noteChange(what, now)
	b.mu.Unlock()
	if !news && what == changeNone {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default: // it has been told and has not looked yet
	}
}

// run calls give for each batch until ctx ends.
func (b *batcher) run(ctx context.Context, give func()) {
	for {
		var timer clock.Timer
		var due <-chan time.Time
		if wait, pending := b.wait(give); pending {
			timer = b.clock.NewTimer(wait)
			due = timer.C()
		}
		select {
		case <-ctx.Done():
		case <-b.wake:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// wait gives a batch that is due, or returns for how long the next is not.
func (b *batcher) wait(give func()) (time.Duration, bool) {
	b.mu.Lock()
	due := b.state.dueTime()
	now := b.clock.Now()
	ready := !due.IsZero() && !due.After(now)
	if ready {
		b.state.given(now)
	}
	b.mu.Unlock()
	if ready {
		give()
	}
	return due.Sub(now), !due.IsZero() && !ready
}

// giveBatches enqueues, for each batch of changed nodes, the load balancers whose members it changes. Those that are
// being worked on or failing are passed over: they take the nodes that there are when they are.
func (c *Controller) giveBatches(ctx, calls context.Context) {
	for {
		key, quit := c.nodeQueue.Get()
		if quit || ctx.Err() != nil {
			return
		}
		c.batches.Add(1)
		v := c.nodes.view()
		keys := c.store.lacking(v)
		c.rounds.beginRound(keys, c.clock.Now())
		c.state.withdraw(calls, keys...) // all at once: one write, and not one for each
		for _, key := range keys {
			c.queue.Add(key)
		}
		c.nodeQueue.Done(key)
	}
}

// rounds measures how long it takes until all load balancers that a batch concerns have been tried.
type rounds struct {
	mu   sync.Mutex
	open map[string]*round
}

type round struct {
	begun time.Time
	left  int
}

func (r *rounds) beginRound(keys []string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodeBatches.Inc()
	if r.open == nil {
		r.open = map[string]*round{}
	}
	next := &round{begun: now, left: len(keys)}
	for _, key := range keys {
		r.leaveRound(key, now)
		r.open[key] = next
	}
	if len(keys) == 0 {
		nodeSyncLatency.Observe(0)
	}
}

func (r *rounds) done(key string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaveRound(key, now)
}

func (r *rounds) leaveRound(key string, now time.Time) {
	open, ok := r.open[key]
	if !ok {
		return
	}
	delete(r.open, key)
	if open.left--; open.left == 0 {
		nodeSyncLatency.Observe(now.Sub(open.begun).Seconds())
	}
}

// watch registers what listens to Services and nodes. It costs next to nothing while the controller does not run: on
// taking over, everything is looked at once.
func (c *Controller) watch() error {
	services, nodes := c.config.Services.Informer(), c.config.Nodes.Informer()
	forServices, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { c.serviceAdded(now) },
		UpdateFunc: func(before, now any) { c.serviceUpdated(before, now) },
		DeleteFunc: func(last any) { c.serviceDeleted(last) },
	})
	if err != nil {
		return fmt.Errorf("listening to Services: %w", err)
	}
	forNodes, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { c.nodeChanged(nil, now) },
		UpdateFunc: func(before, now any) { c.nodeChanged(before, now) },
		DeleteFunc: func(last any) { c.nodeChanged(last, nil) },
	})
	if err != nil {
		return fmt.Errorf("listening to nodes: %w", err)
	}
	c.synced = []cache.InformerSynced{forServices.HasSynced, forNodes.HasSynced}
	c.removals = []func() error{
		func() error { return services.RemoveEventHandler(forServices) },
		func() error { return nodes.RemoveEventHandler(forNodes) },
	}
	return nil
}

func (c *Controller) unwatch() {
	for _, remove := range c.removals {
		_ = remove() // it fails only for a handler of another informer
	}
}

func (c *Controller) serviceAdded(now any) {
	service, ok := now.(*corev1.Service)
	if ok && c.running.Load() && (wantsLoadBalancer(service) || needsCleanup(service)) {
		c.queue.Add(keyOf(service))
	}
}

func (c *Controller) serviceUpdated(before, now any) {
	was, ok1 := before.(*corev1.Service)
	is, ok2 := now.(*corev1.Service)
	if !ok1 || !ok2 || !c.running.Load() {
		return
	}
	lb, known := c.store.get(keyOf(is))
	if isRelevantUpdate(was, is, known, lb) {
		c.queue.Add(keyOf(is))
	}
}

func (c *Controller) serviceDeleted(last any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(last)
	if err != nil || !c.running.Load() {
		return
	}
	// One that fails is in its back-off, and is looked at when that is over.
	if lb, known := c.store.get(key); known && (lb.isInSync() || !lb.tried) {
		c.queue.Add(key)
	}
}

// nodeChanged takes a node that came (before is nil), changed, or went (now is nil).
func (c *Controller) nodeChanged(before, now any) {
	if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = gone.Obj
	}
	var was, is eligibility
	var name string
	if node, ok := before.(*corev1.Node); ok {
		was, name = standingOf(node), node.Name
	}
	if node, ok := now.(*corev1.Node); ok {
		is, name = standingOf(node), node.Name
	}
	if was == is {
		return // a heartbeat
	}
	c.nodes.markDirty()
	what := changeNone
	if c.running.Load() {
		what = changeOf(was, is)
	}
	c.batcher.noteEvent(name, is.becomesMember(), what) // a standby knows, too, who is on the way: it may lead in a moment
}
