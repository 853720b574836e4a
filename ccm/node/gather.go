package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

const (
	// groupsInFlight is how many groups of nodes are read at the same time.
	groupsInFlight = 8
	// remembered is how old what is known of an instance may be when addresses are written that could not be written at
	// first.
	remembered = time.Minute
)

// job is a node on its way to a worker.
type job struct {
	item  item
	node  *corev1.Node
	read  bool // it needs to be read from the cloud
	state cloud.InstanceState
}

// gather takes nodes from the queue, has them read in groups and gives them to the workers. It returns when the queue
// is shut down and all reads have ended.
//
// A group is read when it is full, or when its first node has waited for the window and the rate allows a call. The
// rate is five at once, then one per second. So a lone node waits for the window only, and however many join one after
// the other, there is a call per second.
func (c *Controller) gather(ctx, reads context.Context) {
	g := &gathering{items: make(chan item)}
	go func() {
		defer close(g.items)
		for {
			next, shutdown := c.queue.Get()
			if shutdown {
				return
			}
			g.items <- next
		}
	}()
	flights := groupsInFlight
	if c.reader.Size() == 1 {
		flights = c.workers
	}
	slots := make(chan struct{}, flights)
	var flying sync.WaitGroup
	defer flying.Wait()
	for {
		group, open := c.next(ctx, g)
		if len(group) > 0 {
			c.awaitSlot(ctx, g, slots)
			flying.Go(func() {
				defer func() { <-slots }()
				c.read(ctx, reads, group)
			})
		}
		if !open {
			return
		}
	}
}

// gathering is what comes from the queue, and what had come when no more groups could be read.
type gathering struct {
	items   chan item
	waiting []item
}

// next returns what comes next. isDue is that a group is due before, and not open that there is nothing more.
func (g *gathering) next(due <-chan time.Time) (next item, isDue, open bool) {
	if len(g.waiting) > 0 {
		next, g.waiting = g.waiting[0], g.waiting[1:]
		return next, false, true
	}
	select {
	case <-due:
		return item{}, true, true
	case next, open = <-g.items:
		return next, false, open
	}
}

// awaitSlot returns when one more group can be read. A cloud that answers late keeps no node waiting that needs no
// answer.
func (c *Controller) awaitSlot(ctx context.Context, g *gathering, slots chan<- struct{}) {
	items := g.items
	for {
		select {
		case slots <- struct{}{}: // reads end with ctx
			return
		default:
		}
		select {
		case slots <- struct{}{}:
			return
		case next, ok := <-items:
			if !ok {
				items = nil // which next finds out, too
				continue
			}
			switch j := c.pick(next); {
			case j == nil:
			case j.read:
				g.waiting = append(g.waiting, next) // the node may be another one when it has its turn
			default:
				c.hand(ctx, j)
			}
		}
	}
}

// next returns a group that is to be read; not open is that there will be none after it.
func (c *Controller) next(ctx context.Context, g *gathering) (group []*job, open bool) {
	size := c.reader.Size()
	var due <-chan time.Time
	for len(group) < size {
		next, isDue, open := g.next(due)
		switch {
		case isDue:
			return group, true
		case !open:
			return group, false
		default:
			j := c.pick(next)
			switch {
			case j == nil:
				continue
			case !j.read:
				c.hand(ctx, j)
				continue
			}
			group = append(group, j)
			if len(group) == 1 && size > 1 {
				now := c.clock.Now()
				reservation := c.pace.ReserveN(now, 1)
				timer := c.clock.NewTimer(max(c.window, reservation.DelayFrom(now)))
				defer timer.Stop()
				defer func() {
					if len(group) == size {
						reservation.CancelAt(c.clock.Now()) // a full group costs nothing: there is no better one
					}
				}()
				due = timer.C()
			}
		}
	}
	return group, true
}

// pick returns what is to be done for an item, or nil if it is nothing.
func (c *Controller) pick(next item) *job {
	node, err := c.nodes.Get(next.name)
	switch {
	case err != nil: // there is no such node
	case next.addresses && !hasCloudTaint(node):
		return &job{item: next, node: node, read: true}
	case next.addresses:
	case hasCloudTaint(node) && !c.isOutdated(node):
		return &job{item: next, node: node, read: true}
	case !hasCloudTaint(node) && len(unequalLabels(node.Labels)) > 0:
		return &job{item: next, node: node}
	}
	c.queue.Forget(next)
	c.queue.Done(next)
	return nil
}

// read asks the cloud about a group.
func (c *Controller) read(ctx, reads context.Context, group []*job) {
	nodes, want, age := make([]*corev1.Node, len(group)), cloud.WantAddresses, remembered
	for i, j := range group {
		nodes[i] = j.node
		if !j.item.addresses {
			want, age = cloud.WantMetadata, 0
		}
	}
	batchNodes.Observe(float64(len(group)))
	for i, state := range c.reader.Group(reads, nodes, want, age) {
		group[i].state = state
		c.hand(ctx, group[i])
	}
}

// hand gives a job to a worker, unless the manager stops.
func (c *Controller) hand(ctx context.Context, j *job) {
	select {
	case c.jobs <- j:
	case <-ctx.Done():
		c.queue.Done(j.item)
	}
}

func (c *Controller) work(ctx, calls context.Context) {
	for j := range c.jobs {
		if ctx.Err() == nil && calls.Err() == nil {
			c.finishJob(ctx, calls, j, c.runJob(calls, j))
		}
		c.queue.Done(j.item)
	}
}

// runJob does what is to be done for a node. Whatever it stumbles over, the worker goes on with the next.
func (c *Controller) runJob(calls context.Context, j *job) (err error) {
	defer c.reader.Tracker.Start(fmt.Sprintf("writing node %q", j.node.Name))()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("syncing node %q: panic: %v", j.node.Name, p)
		}
	}()
	switch {
	case j.item.addresses:
		return c.keepAddresses(calls, j.node, j.state)
	case j.read:
		return c.initialise(calls, j.node, j.state)
	default:
		return c.keepLabels(calls, j.node)
	}
}

func (c *Controller) finishJob(ctx, calls context.Context, j *job, err error) {
	switch {
	case err == nil:
		c.queue.Forget(j.item)
		c.reporter.forget(j.node.Name)
	case term.IsFinal(calls, err) || ctx.Err() != nil:
	case isImplementedElsewhere(j.state.Err):
		c.queue.Forget(j.item) // another controller handles it
	default:
		c.logFailure(ctx, j, err)
		c.queue.AddRateLimited(j.item)
	}
}

func (c *Controller) logFailure(ctx context.Context, j *job, err error) {
	logger := klog.FromContext(ctx).WithValues("node", j.node.Name)
	if c.reporter.recordFailure(j.node, err) {
		logger.Error(err, "Syncing node, will be retried")
	} else {
		logger.V(2).Info("Syncing node failed again, will be retried", "err", err)
	}
}
