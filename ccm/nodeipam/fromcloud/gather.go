package fromcloud

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// window is how long a node waits for others to be read with.
const window = 100 * time.Millisecond

// wanted is what is asked about instances.
const wanted = cloud.WantExists | cloud.WantPodCIDRs

// job is a node with what the cloud says of its instance.
type job struct {
	node  *corev1.Node
	state cloud.InstanceState
}

// gather takes nodes from the queue, has them read in groups and gives them to the workers. It returns when the queue
// is shut down. A group is read when its first node has waited for the window, and the rate allows a call. The rate
// is five at once, then one per second.
func (c *Controller) gather(ctx, reads context.Context) {
	names := make(chan string)
	go func() {
		defer close(names)
		for {
			name, shutdown := c.queue.Get()
			if shutdown {
				return
			}
			names <- name
		}
	}()
	for {
		group, isOpen := c.nextGroup(names)
		c.readGroup(ctx, reads, group)
		if !isOpen {
			return
		}
	}
}

// nextGroup returns the nodes that are to be read together; not open is that there will be none after them.
func (c *Controller) nextGroup(names <-chan string) (group []string, isOpen bool) {
	var due <-chan time.Time
	for len(group) < c.reader.Size() {
		select {
		case <-due:
			return group, true
		case name, ok := <-names:
			if !ok {
				return group, false
			}
			if group = append(group, name); len(group) == 1 {
				now := c.clock.Now()
				timer := c.clock.NewTimer(max(window, c.pace.ReserveN(now, 1).DelayFrom(now)))
				defer timer.Stop()
				due = timer.C()
			}
		}
	}
	return group, true
}

// readGroup asks the cloud about nodes that need it, and gives each to a worker.
func (c *Controller) readGroup(ctx, reads context.Context, names []string) {
	var nodes []*corev1.Node
	for _, name := range names {
		node, err := c.nodes.Get(name)
		if err == nil && ctx.Err() == nil && c.needsWork(node) {
			nodes = append(nodes, node)
			continue
		}
		c.queue.Forget(name)
		c.queue.Done(name)
	}
	if len(nodes) == 0 {
		return
	}
	for i, state := range c.reader.Group(reads, nodes, wanted, 0) {
		select {
		case c.jobs <- job{nodes[i], state}:
		case <-ctx.Done():
			c.queue.Done(nodes[i].Name)
		}
	}
}
