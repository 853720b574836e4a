package operator

import (
	"context"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Watcher is a Machines that can tell when a look would find something else, so that a cluster whose machines are replaced over days is not looked at all the time.
type Watcher interface {
	// Watch calls changed when it has begun to watch and at each change, until ctx ends or the watch does. A nil error means that it may begin again at once.
	Watch(ctx context.Context, t Target, changed func()) error
}

// watches are the clusters whose machines are watched now. There are never more than limit; further ones are polled.
type watches struct {
	limit int

	mu     sync.Mutex
	active map[string]context.CancelFunc
	ending bool
}

func newWatches(limit int) *watches {
	return &watches{limit: limit, active: map[string]context.CancelFunc{}}
}

// begin gives the cluster a place, if there is one and it has none.
func (w *watches) begin(ctx context.Context, name string) (context.Context, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending || w.active[name] != nil || len(w.active) >= w.limit {
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	w.active[name] = cancel
	return ctx, true
}

// stop ends the watch of the cluster, which gives its place back when it has ended.
func (w *watches) stop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancel := w.active[name]; cancel != nil {
		cancel()
	}
}

// stopAll ends all watches, and lets none begin.
func (w *watches) stopAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	for _, cancel := range w.active {
		cancel()
	}
}

func (w *watches) end(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active[name]()
	delete(w.active, name)
}

// watch keeps a watch on the machines of a cluster. While there is none, or it has broken off, the machines are polled.
func (op *Operator) watch(ctx context.Context, t Target) {
	machines, ok := op.Machines.(Watcher)
	if !ok {
		return
	}
	ctx, ok = op.watches.begin(ctx, t.Name)
	if !ok {
		return
	}
	op.start(t.Name, "watch", func() {
		defer op.watches.end(t.Name)
		wait := op.Limits.Retry
		for ctx.Err() == nil {
			err := op.guard(t.Name, "watch", func() error { return machines.Watch(ctx, t, func() { op.machinesChanged(t) }) })
			op.memory.known(t.Name, t.Cluster.UID, func(r *dossier) { r.watched = false })
			if err == nil {
				wait = op.Limits.Retry
			} else if ctx.Err() == nil {
				op.Log.V(1).Info("The machines of a cluster are polled: the watch has broken off", "cluster", t.Name, "error", mask.Error(err))
			}
			op.queue.Add(t.Name)
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			if err != nil {
				wait = min(2*wait, max(op.Limits.MaxRetry, op.Limits.Retry))
			}
		}
	})
}

// machinesChanged notes that a look would find something else. Of many changes before the next look the first one is told.
func (op *Operator) machinesChanged(t Target) {
	news := false
	op.memory.known(t.Name, t.Cluster.UID, func(r *dossier) {
		news = !r.watched || !r.changed.After(r.looked)
		r.watched = true
		if news {
			r.changed = time.Now()
		}
	})
	if news {
		op.queue.Add(t.Name)
	}
}

// followed adds to what was seen of machines whether they are watched, and whether there is news since.
func (r *dossier) followed() state.Machines {
	out := r.machines
	out.Watched, out.Looked, out.Changed = r.watched, r.looked, r.changed
	return out
}
