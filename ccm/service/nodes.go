package service

import (
	"context"
	"sync"
	"time"
)

// giveBatches enqueues, for each batch of changed nodes, the load balancers whose members it changes. Those that are being worked on or failing
// are passed over: they take the nodes that there are when they are.
func (c *Controller) giveBatches(ctx, calls context.Context) {
	for {
		key, quit := c.nodeQueue.Get()
		if quit || ctx.Err() != nil {
			return
		}
		c.batches.Add(1)
		v := c.nodes.view()
		keys := c.book.lacking(v)
		c.rounds.begin(keys, c.clock.Now())
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

func (r *rounds) begin(keys []string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodeBatches.Inc()
	if r.open == nil {
		r.open = map[string]*round{}
	}
	next := &round{begun: now, left: len(keys)}
	for _, key := range keys {
		r.end(key, now)
		r.open[key] = next
	}
	if len(keys) == 0 {
		nodeSyncLatency.Observe(0)
	}
}

func (r *rounds) done(key string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(key, now)
}

func (r *rounds) end(key string, now time.Time) {
	open, ok := r.open[key]
	if !ok {
		return
	}
	delete(r.open, key)
	if open.left--; open.left == 0 {
		nodeSyncLatency.Observe(now.Sub(open.begun).Seconds())
	}
}
