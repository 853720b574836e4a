package operator

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/internal/fleet/state"
)

// lookLimiter bounds how many user clusters are looked at at a time. Clusters that answered last time have places of
// their own.
type lookLimiter struct{ fast, slow chan struct{} }

func newLookLimiter(looks int) lookLimiter {
	return lookLimiter{fast: make(chan struct{}, looks), slow: make(chan struct{}, max(1, looks/2))}
}

// enter waits for a place, and returns how to leave it; nil when ctx ended first.
func (l lookLimiter) enter(ctx context.Context, failing bool) (leave func()) {
	lane := l.fast
	if failing {
		lane = l.slow
	}
	select {
	case lane <- struct{}{}:
		return func() { <-lane }
	case <-ctx.Done():
		return nil
	}
}

// runs decides whose control plane is changed now. Places are given in the order of the requests, but clusters in the
// middle of their handover go first: perhaps no manager runs their loops. A run that has not moved for a while does not
// count against the limit, so that clusters that hang do not block others. There are never more than most.
type runs struct {
	limit, most int
	stall       time.Duration
	now         func() time.Time

	mu      sync.Mutex
	active  map[string]*run
	waiting []waiter
	ending  bool
}

// run is one that is under way.
type run struct {
	part    state.Part
	back    bool
	stop    chan struct{}
	stopped bool
	moved   time.Time
	// group is that of the Cluster for which it was begun.
	group string
}

type waiter struct {
	name   string
	urgent bool
}

func newRuns(limit int, stall time.Duration, now func() time.Time) *runs {
	return &runs{
		limit:  limit,
		most:   4 * limit,
		stall:  stall,
		now:    now,
		active: map[string]*run{},
	}
}

// admit gives the cluster a place, or notes that it waits for one. It never gives a second one.
func (r *runs) admit(name string, urgent bool, part state.Part, back bool) (*run, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending || r.active[name] != nil {
		return nil, false
	}
	r.wait(name, urgent)
	at := slices.IndexFunc(r.waiting, func(w waiter) bool { return w.name == name })
	if at >= r.freeSlots() {
		return nil, false
	}
	r.waiting = slices.Delete(r.waiting, at, at+1)
	admitted := &run{
		part:  part,
		back:  back,
		stop:  make(chan struct{}),
		moved: r.now(),
	}
	r.active[name] = admitted
	return admitted, true
}

// wait puts the cluster behind those that are as urgent.
func (r *runs) wait(name string, urgent bool) {
	if at := slices.IndexFunc(r.waiting, func(w waiter) bool { return w.name == name }); at >= 0 {
		if r.waiting[at].urgent == urgent {
			return
		}
		r.waiting = slices.Delete(r.waiting, at, at+1)
	}
	at := len(r.waiting)
	if urgent {
		if at = slices.IndexFunc(r.waiting, func(w waiter) bool { return !w.urgent }); at < 0 {
			at = len(r.waiting)
		}
	}
	r.waiting = slices.Insert(r.waiting, at, waiter{name, urgent})
}

// freeSlots is how many runs may begin now.
func (r *runs) freeSlots() int {
	moving := 0
	for _, a := range r.active {
		if r.now().Sub(a.moved) < r.stall {
			moving++
		}
	}
	return max(0, min(r.limit-moving, r.most-len(r.active)))
}

// belong notes for the Cluster of which group the run of a name was begun.
func (r *runs) belong(name, group string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.active[name]; a != nil {
		a.group = group
	}
}

// groupOf returns the group for whose Cluster a run of the name is under way; empty for none.
func (r *runs) groupOf(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.active[name]; a != nil {
		return a.group
	}
	return ""
}

// forgetWaiting forgets that the cluster waits.
func (r *runs) forgetWaiting(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(w waiter) bool { return w.name == name })
}

// stop ends the run of the cluster between two steps.
func (r *runs) stop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.active[name]; a != nil && !a.stopped {
		a.stopped = true
		close(a.stop)
	}
}

// stopAll ends all runs between two steps, and lets none begin.
func (r *runs) stopAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
	for _, a := range r.active {
		if !a.stopped {
			a.stopped = true
			close(a.stop)
		}
	}
}

// move notes that the run of the cluster gets on.
func (r *runs) move(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.active[name]; a != nil {
		a.moved = r.now()
	}
}

// endRun gives the place back.
func (r *runs) endRun(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, name)
}

// next are the clusters for which there is a place now.
func (r *runs) next() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, w := range r.waiting[:min(len(r.waiting), r.freeSlots())] {
		out = append(out, w.name)
	}
	return out
}

// counts are the runs under way and the clusters that wait.
func (r *runs) counts() (active, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.active), len(r.waiting)
}
