package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"
)

// taintToBeDeleted is what the cluster autoscaler puts on a node that it is about to delete.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// eligibility is what decides whether one node is a member of load balancers.
type eligibility struct {
	included bool // not excluded by label
	// waiting is that the node is not initialised. Upstream adds it at once, and again when its provider ID appears:
	// two updates of every load balancer for each node that joins. Here it becomes a member once it is initialised;
	// until then its taint keeps pods away from it anyway. A member that is given the taint later, to be initialised
	// again, stays one: its connections must not be cut.
	waiting bool
	// leaving is that the node is being deleted, or will be. This alone changes no load balancer: the node's kube-proxy
	// fails its health check, which drains connections, and taking the member away would cut them. A load balancer that
	// changes for another reason leaves such a node out.
	leaving    bool
	providerID string
}

// eligibilityOf judges one node. Whether it is ready does not matter (KEP-3458), nor whether it may be scheduled to.
func eligibilityOf(node *corev1.Node) eligibility {
	s := eligibility{included: !isExcluded(node), leaving: node.DeletionTimestamp != nil, providerID: node.Spec.ProviderID}
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case taintToBeDeleted:
			s.leaving = true
		case cloudapi.TaintExternalCloudProvider:
			s.waiting = true
		}
	}
	return s
}

// isExcluded reports whether a node's label keeps it out of load balancers. What is not a boolean does.
func isExcluded(node *corev1.Node) bool {
	value, labelled := node.Labels[corev1.LabelNodeExcludeBalancers]
	if !labelled {
		return false
	}
	exclude, err := strconv.ParseBool(value)
	return err != nil || exclude
}

// counts reports whether the node is a member, or would be if it were not leaving.
func (s eligibility) counts() bool { return s.included && !s.waiting }

func (s eligibility) isMember() bool { return s.counts() && !s.leaving }

// becomesMember reports whether the node will be a member once it is initialised.
func (s eligibility) becomesMember() bool { return s.included && s.waiting && !s.leaving }

// change is what a node event may mean for load balancers.
type change int

const (
	changeNone  change = iota
	changeJoins        // a member more, or another machine behind a member
	changeLeaves
)

// changeOf judges what an update of a node means for load balancers. A taint that is taken back (a scale-down that was
// cancelled) counts as joining: a load balancer that was changed meanwhile has lost the node. Upstream does not look,
// and leaves it out until the next change of nodes.
func changeOf(before, now eligibility) change {
	switch {
	case before.counts() && !now.counts():
		return changeLeaves
	case now.isMember() && (!before.isMember() || before.providerID != now.providerID):
		return changeJoins
	}
	return changeNone
}

// memberSet is the nodes that a load balancer has, and the machines behind them. It is never changed once made.
type memberSet struct {
	ids  map[string]string // provider IDs by node; nil when only the hash is known
	hash string
}

// has reports whether a machine is known to be in the set. It is false for a set of which only the hash is known, and
// for none.
func (m *memberSet) has(name, providerID string) bool {
	if m == nil {
		return false
	}
	id, ok := m.ids[name]
	return ok && id == providerID
}

func newMemberSet(ids map[string]string) *memberSet {
	return &memberSet{ids: ids, hash: digest(ids)}
}

// view is the nodes as load balancers see them at one time.
type view struct {
	set     *memberSet
	leaving map[string]string // nodes that are no members for the one reason that they are leaving
}

// buildView judges nodes. The second result is the members, by name. A set that equals the last one is the same object.
// Load balancers with the same members share it, and thousands of nodes are hashed and kept once.
func buildView(nodes []*corev1.Node, last *memberSet) (*view, []*corev1.Node) {
	v := &view{leaving: map[string]string{}}
	ids := make(map[string]string, len(nodes))
	var members []*corev1.Node
	for _, node := range nodes {
		s := eligibilityOf(node)
		s.waiting = s.waiting && !last.has(node.Name, s.providerID)
		switch {
		case s.isMember():
			ids[node.Name] = s.providerID
			members = append(members, node)
		case s.counts():
			v.leaving[node.Name] = s.providerID
		}
	}
	slices.SortFunc(members, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	if v.set = last; last == nil || !maps.Equal(ids, last.ids) {
		v.set = newMemberSet(ids)
	}
	return v, members
}

// resolve finds the set of a hash that a former leader wrote: that of today, or that of before nodes began to leave. Of
// another, only the hash is known.
func (v *view) resolve(hash string) *memberSet {
	if hash == v.set.hash {
		return v.set
	}
	if len(v.leaving) > 0 {
		all := maps.Clone(v.set.ids)
		maps.Copy(all, v.leaving)
		if set := newMemberSet(all); set.hash == hash {
			return set
		}
	}
	return &memberSet{hash: hash}
}

// needsUpdate reports whether a load balancer with these members needs an update. It does if it lacks a member, has
// another machine for one, or has a node too many. A node that is only leaving does not count.
func (v *view) needsUpdate(has *memberSet) bool {
	if has.hash == v.set.hash {
		return false
	}
	if has.ids == nil {
		return true
	}
	for name, id := range v.set.ids {
		if old, ok := has.ids[name]; !ok || old != id {
			return true
		}
	}
	for name := range has.ids {
		_, member := v.set.ids[name]
		if _, leaving := v.leaving[name]; !member && !leaving {
			return true
		}
	}
	return false
}

// nodeViews looks at the nodes when they have changed in a way that matters.
type nodeViews struct {
	lister corelisters.NodeLister

	mu      sync.Mutex
	dirty   bool // a node has changed in a way that matters to load balancers
	current *view
	// listed are the members of the current view. They are kept until a node has changed in what a provider reads. A
	// change of two thousand load balancers would list, judge and sort all nodes for each of them.
	listed []*corev1.Node
	stale  bool
}

func newNodeViews(lister corelisters.NodeLister) *nodeViews {
	return &nodeViews{lister: lister, dirty: true}
}

func (n *nodeViews) markDirty() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dirty = true
}

// markStale has the members of the next call listed again.
func (n *nodeViews) markStale() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stale = true
}

// areSameToProviders reports whether an event of a node changes nothing that a provider could read for its load
// balancers: it is a heartbeat.
func areSameToProviders(before, now *corev1.Node) bool {
	return before.UID == now.UID && maps.Equal(before.Labels, now.Labels) &&
		maps.Equal(before.Annotations, now.Annotations) &&
		slices.Equal(before.Status.Addresses, now.Status.Addresses) && reflect.DeepEqual(before.Spec, now.Spec)
}

// view is the nodes as they are now. The cache of an informer does not fail to be listed; of one that did, the last
// view stays.
func (n *nodeViews) view() *view {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current != nil && !n.dirty {
		return n.current
	}
	nodes, err := n.lister.List(labels.Everything())
	if err != nil && n.current != nil {
		return n.current
	}
	n.dirty, n.stale = err != nil, false
	n.current, n.listed = buildView(nodes, n.last())
	return n.current
}

// hasNodes reports whether there is a node, member or not.
func (n *nodeViews) hasNodes() bool {
	nodes, err := n.lister.List(labels.Everything())
	return err == nil && len(nodes) > 0
}

// members lists the nodes for a call, as they are now, with the view that they were seen in.
func (n *nodeViews) members() ([]*corev1.Node, *view, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current == nil || n.dirty || n.stale {
		nodes, err := n.lister.List(labels.Everything())
		if err != nil {
			return nil, nil, fmt.Errorf("listing nodes: %w", err)
		}
		n.current, n.listed = buildView(nodes, n.last())
		n.dirty, n.stale = false, false
	}
	return slices.Clone(n.listed), n.current, nil // a provider may sort what it gets
}

func (n *nodeViews) last() *memberSet {
	if n.current == nil {
		return nil
	}
	return n.current.set
}

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
		keys := c.store.keysWithOldMembers(v)
		c.rounds.beginRound(keys, c.clock.Now())
		c.state.withdraw(calls, keys...) // all at once: one write, and not one for each
		for _, key := range keys {
			c.queue.enqueueWaiting(key)
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
