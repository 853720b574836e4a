package cloud

import (
	"context"
	"slices"
	"time"
)

// lane is where questions wait that can be asked in one call. For a provider without a lister, one call is one node's.
type lane struct {
	reader  *reader
	pending []*item
	byKey   map[nodeKey]*item
	first   time.Time // when the oldest item that waits came
	newest  time.Time
	storm   bool // the last batch was of many
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
	// lull is what gather is while many questions come: they are collected until none came for so long. Nodes that join do not come at once, but a few
	// milliseconds apart.
	lull = 50 * time.Millisecond
	// patience is the longest that a question waits for others.
	patience = time.Second
	// plenty are enough questions for a call of their own while others go on.
	plenty = 250
	// listings is how many batches there are at the same time: one that hangs does not hold up the others.
	listings = 4
	// singles is how many calls about one node there are at the same time, per class.
	singles = 50
)

// lane returns the lane for a class, with or without metadata. All classes share those of a lister.
func (r *reader) lane(class Class, rich bool) *lane {
	key := laneKey{class, rich}
	if _, ok := r.provider.(InstancesLister); ok {
		key.class = ""
	}
	l, ok := r.lanes[key]
	if !ok {
		l = &lane{reader: r, byKey: map[nodeKey]*item{}}
		r.lanes[key] = l
	}
	return l
}

// find returns the item of a node that waits here.
func (l *lane) find(key nodeKey) *item { return l.byKey[key] }

func (l *lane) push(i *item, now time.Time) {
	if len(l.pending) == 0 {
		l.first = now
	}
	l.newest = now
	l.pending = append(l.pending, i)
	l.byKey[i.key] = i
}

// pull takes the items of one batch, without those that nobody waits for any more.
func (l *lane) pull(most int) []*item {
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
func (l *lane) schedule(ctx context.Context) {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	for {
		wait, ok := l.due(time.Now())
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

// due is how long to wait before the next batch; false for as long as it takes for one to end.
func (l *lane) due(now time.Time) (time.Duration, bool) {
	size := l.reader.BatchSize()
	waiting := len(l.pending) - l.forming*size
	switch {
	case waiting <= 0:
		return 0, false
	case size == 1:
		return 0, l.forming+l.calling < singles
	case l.forming+l.calling >= listings:
		return 0, false
	case waiting >= min(plenty, size):
		return 0, true
	case l.forming > 0:
		return 0, false
	}
	pause := gather
	if l.storm {
		pause = lull
	}
	at := l.newest.Add(pause)
	if l.calling > 0 { // the call that is under way will end soon
		at = l.first.Add(patience)
	}
	return max(min(at.Sub(now), l.first.Add(patience).Sub(now)), 0), true
}

// run makes one batch: it waits for the budget, and only then takes what has come together meanwhile.
func (l *lane) run(ctx context.Context) {
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
		l.storm = len(items) > 1
	}
	b.begin(items)
	l.schedule(ctx)
	r.mu.Unlock()
	if len(items) > 0 {
		b.ask(WithClass(ctx, mostImportant(items)), items)
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
