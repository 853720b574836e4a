package openstacksim

import (
	"slices"
	"time"
)

// Work is how Octavia's workers take their time.
type Work struct {
	// Workers is how many load balancers are worked on at a time; the others wait for a free one.
	Workers int
	// Create is how long a worker needs for a new load balancer.
	Create time.Duration
	// Changes are how long it needs for a change, one after the other and again from the first one.
	Changes []time.Duration
}

// work is Work under way.
type work struct {
	Work

	free    []time.Time // when each worker is
	changes int
}

// SetWork has changes of load balancers executed by workers from now on, in place of SetPending.
func (c *Cloud) SetWork(w Work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.octavia.work = &work{Work: w, free: make([]time.Time, w.Workers)}
}

// end is when a change is executed that begins now, or once a worker is free.
func (w *work) end(now time.Time, status string) time.Time {
	needs := w.Create
	if status != PendingCreate {
		needs = w.Changes[w.changes%len(w.Changes)]
		w.changes++
	}
	first := slices.MinFunc(w.free, time.Time.Compare)
	i := slices.IndexFunc(w.free, first.Equal)
	if first.Before(now) {
		first = now
	}
	w.free[i] = first.Add(needs)
	return w.free[i]
}
