package cloud

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// batch is one call about some nodes, and what follows from its failing.
type batch struct {
	reader *reader
	cancel context.CancelFunc
	ticket *ticket // the budget's leave for the first call
	wanted int     // items that a caller waits for
	spare  int     // how many more calls may be made to find the nodes that a call fails for
}

// spareCalls is enough to find one node in a thousand that makes a call fail.
const spareCalls = 24

// markRunning notes that items are being asked for. The caller has the reader's lock.
func (b *batch) markRunning(items []*item) {
	b.wanted, b.spare = len(items), spareCalls
	now := time.Now()
	for _, i := range items {
		i.batch, i.begun = b, now
		b.reader.running[i.key] = append(b.reader.running[i.key], i)
	}
}

// left is for an item that no caller waits for any more. The caller has the reader's lock.
func (b *batch) left() {
	b.wanted--
	if b.wanted == 0 {
		b.cancel()
	}
}

// readItems asks for items and finishes each. When the cloud refuses the call, it is made again for both halves. One
// node that the cloud refuses must not keep the others from being known. When the cloud cannot be reached or throttles,
// halves would fare no better.
func (b *batch) readItems(ctx context.Context, items []*item) {
	nodes := make([]*corev1.Node, len(items))
	var want Want
	for n, i := range items {
		nodes[n] = i.node
		want |= i.want // which changes only as long as the item waits
	}
	states, err := b.callProvider(ctx, nodes, want)
	if err == nil {
		for n, i := range items {
			b.reader.finish(i, want, states[n])
		}
		return
	}
	if len(items) > 1 && b.spare >= 2 && isDivisible(b.reader.caller.classify(inputs{nodes}, err)) && ctx.Err() == nil {
		b.spare -= 2
		half := len(items) / 2
		b.readItems(ctx, items[:half])
		b.readItems(ctx, items[half:])
		return
	}
	for _, i := range items {
		b.reader.finish(i, want, InstanceState{Err: err})
	}
}

// isDivisible reports whether an outcome may be the fault of some of the nodes.
func isDivisible(outcome Outcome) bool {
	switch outcome {
	case OutcomeClientError, OutcomeNotFound, OutcomePanic, OutcomeOther, OutcomeOK:
		return true
	default:
		return false
	}
}

// callProvider asks the provider in the best way that it has.
func (b *batch) callProvider(ctx context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error) {
	r := b.reader
	lister, ok := r.provider.(InstancesLister)
	if !ok {
		return []InstanceState{r.single(ctx, nodes[0], want, true)}, nil
	}
	batchSize.Observe(float64(len(nodes)))
	c := r.caller.listing(ctx, nodes)
	c.retries, c.ticket = true, b.ticket
	b.ticket = nil
	return do(ctx, r.caller, c, func(ctx context.Context) ([]InstanceState, error) {
		states, err := lister.ListInstances(ctx, nodes, want)
		if err == nil && len(states) != len(nodes) {
			return nil, fmt.Errorf(
				"listing instances: the cloud provider returned %d states for %d nodes",
				len(states),
				len(nodes),
			)
		}
		return states, err
	})
}

// batcher is where questions wait that can be asked in one call. For a provider without a lister, one call is one
// node's.
type batcher struct {
	reader  *reader
	pending []*item
	byKey   map[nodeKey]*item
	first   time.Time // when the oldest item that waits came
	newest  time.Time
	inBurst bool // the last batch was of many
	forming int  // batches that wait for the budget and have no items yet
	calling int  // batches that have
	timer   *time.Timer
}

// laneKey tells lanes apart. Metadata may cost a provider more calls, and those who do not want it do not wait for it.
type laneKey struct {
	class Class
	rich  bool
}

const (
	// gather is how long a question waits for others to share its call.
	gather = 5 * time.Millisecond
	// burstWindow is what gather is while many questions come: they are collected until none came for so long. Nodes that
	// join do not come at once, but a few milliseconds apart.
	burstWindow = 50 * time.Millisecond
	// maxWait is the longest that a question waits for others.
	maxWait = time.Second
	// batchThreshold are enough questions for a call of their own while others go on.
	batchThreshold = 250
	// listings is how many batches there are at the same time: one that hangs does not hold up the others.
	listings = 4
	// singles is how many calls about one node there are at the same time, per class.
	singles = 50
)

// lane returns the lane for a class, with or without metadata. All classes share those of a lister.
func (r *reader) lane(class Class, rich bool) *batcher {
	key := laneKey{class, rich}
	if _, ok := r.provider.(InstancesLister); ok {
		key.class = ""
	}
	l, ok := r.lanes[key]
	if !ok {
		l = &batcher{reader: r, byKey: map[nodeKey]*item{}}
		r.lanes[key] = l
	}
	return l
}

// find returns the item of a node that waits here.
func (l *batcher) find(key nodeKey) *item { return l.byKey[key] }

func (l *batcher) push(i *item, now time.Time) {
	if len(l.pending) == 0 {
		l.first = now
	}
	l.newest = now
	l.pending = append(l.pending, i)
	l.byKey[i.key] = i
}

// pull takes the items of one batch, without those that no caller waits for any more.
func (l *batcher) pull(most int) []*item {
	var items []*item
	taken := 0
	for _, i := range l.pending {
		if len(items) == most {
			break
		}
		taken++
		delete(l.byKey, i.key)
		if i.waiters > 0 {
			items = append(items, i)
		}
	}
	l.pending = slices.Delete(l.pending, 0, taken)
	l.first = time.Now() // of those that are left, who did wait: for the budget, or for a call to end
	return items
}

// schedule starts the batches whose time has come, and sets the timer for the next. The caller has the reader's lock.
func (l *batcher) schedule(ctx context.Context) {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	for {
		wait, ok := l.batchDelay(time.Now())
		switch {
		case !ok: // a batch that ends will come here again
			return
		case wait > 0:
			l.timer = time.AfterFunc(wait, func() {
				l.reader.mu.Lock()
				defer l.reader.mu.Unlock()
				l.schedule(ctx)
			})
			return
		}
		l.forming++
		go l.run(context.WithoutCancel(ctx)) // a batch is many callers': it must not end with the first one's context
	}
}

// batchDelay is how long to wait before the next batch; false for as long as it takes for one to end.
func (l *batcher) batchDelay(now time.Time) (time.Duration, bool) {
	size := l.reader.BatchSize()
	waiting := len(l.pending) - l.forming*size
	switch {
	case waiting <= 0:
		return 0, false
	case size == 1:
		return 0, l.forming+l.calling < singles
	case l.forming+l.calling >= listings:
		return 0, false
	case waiting >= min(batchThreshold, size):
		return 0, true
	case l.forming > 0:
		return 0, false
	}
	pause := gather
	if l.inBurst {
		pause = burstWindow
	}
	at := l.newest.Add(pause)
	if l.calling > 0 { // the call that is under way will end soon
		at = l.first.Add(maxWait)
	}
	return max(min(at.Sub(now), l.first.Add(maxWait).Sub(now)), 0), true
}

// run makes one batch: it waits for the budget, and only then takes what has come together meanwhile.
func (l *batcher) run(ctx context.Context) {
	r := l.reader
	var pass *ticket
	if _, ok := r.provider.(InstancesLister); ok {
		r.mu.Lock()
		class := mostImportant(l.pending)
		r.mu.Unlock()
		pass, _ = r.caller.budget.acquire(ctx, class) // there is no error: the context has no end
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &batch{reader: r, cancel: cancel, ticket: pass}
	r.mu.Lock()
	items := l.pull(r.BatchSize())
	l.forming--
	l.calling++
	if r.BatchSize() > 1 {
		l.inBurst = len(items) > 1
	}
	b.markRunning(items)
	l.schedule(ctx)
	r.mu.Unlock()
	if len(items) > 0 {
		b.readItems(WithClass(ctx, mostImportant(items)), items)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.calling--
	l.schedule(ctx)
}

// mostImportant is the class of a batch: that of its most important item.
func mostImportant(items []*item) Class {
	classes := make([]Class, len(items))
	for n, i := range items {
		classes[n] = i.class
	}
	return important(classes...)
}

// important is the class that goes before the others.
func important(classes ...Class) Class {
	for _, w := range weights {
		if slices.Contains(classes, w.class) {
			return w.class
		}
	}
	return ClassOther
}
