package nodelifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

const (
	// groupsPerTick bounds the calls of a tick, however many nodes are not Ready.
	groupsPerTick = 2
	// groupsInFlight bounds the calls that are made at the same time: one that hangs takes up the place of none of the next tick's.
	groupsInFlight = 4
)

// tick looks at all nodes once. It does not wait for the cloud's answers: a call that hangs must not keep other nodes from being looked at. ticking ends
// when the next tick is due: what has found no slot until then is left to it.
func (c *Controller) tick(ticking, reads, calls context.Context) {
	begun := c.clock.Now()
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return // the cache always answers
	}
	due, back := c.look(all, begun)
	var pending sync.WaitGroup
	pending.Add(1)
	c.work.Go(func() {
		pending.Wait()
		monitorDuration.Observe(c.clock.Since(begun).Seconds())
	})
	defer pending.Done()
	start := func(work func()) {
		pending.Add(1)
		c.work.Go(func() {
			defer pending.Done()
			work()
		})
	}
	for _, node := range back {
		start(func() { c.writing(reads, calls, node, c.untaint) })
	}
	groups := slices.Collect(slices.Chunk(due, c.reader.Size()))
	for i, group := range groups {
		select {
		case c.reads <- struct{}{}:
		case <-ticking.Done():
			c.release(groups[i:])
			return
		}
		start(func() { c.ask(reads, calls, group, begun) })
	}
}

// look returns the nodes to ask the cloud for, and those that are Ready again and have the shutdown taint still. Both are busy from now on.
func (c *Controller) look(all []*corev1.Node, now time.Time) (due, back []*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticked = now
	present := map[string]bool{}
	for _, node := range all {
		w := c.watched[node.Name]
		switch {
		case !ready(node):
			present[node.Name] = true
			if signature := signatureOf(node); w == nil || w.signature != signature && !w.busy {
				w = &watched{signature: signature}
				c.watched[node.Name] = w
			}
			if w.wanted(node, now) {
				due = append(due, node)
			}
		case tainted(node) && (w == nil || !w.busy):
			present[node.Name] = true
			c.watched[node.Name] = &watched{signature: signatureOf(node), busy: true}
			back = append(back, node)
		}
	}
	c.forgetOthers(present)
	due = c.inTurn(due)
	for _, node := range due {
		c.watched[node.Name].busy = true
	}
	return due, back
}

// forgetOthers forgets nodes that are Ready or gone. The caller has the lock.
func (c *Controller) forgetOthers(present map[string]bool) {
	delayed := 0
	for name, w := range c.watched {
		if !present[name] && !w.busy {
			delete(c.watched, name)
		} else if w.delayed && !w.removed {
			delayed++
		}
	}
	kept.Set(float64(delayed))
}

// inTurn returns those of the nodes that are asked for in this tick: those that have waited for longest come first, new ones before all, as their due time is
// zero. The caller has the lock.
func (c *Controller) inTurn(due []*corev1.Node) []*corev1.Node {
	slices.SortFunc(due, func(a, b *corev1.Node) int {
		if byTime := c.watched[a.Name].due.Compare(c.watched[b.Name].due); byTime != 0 {
			return byTime
		}
		return strings.Compare(a.Name, b.Name)
	})
	if size := c.reader.Size(); size > 1 {
		due = due[:min(len(due), groupsPerTick*size)]
	}
	return due
}

// release gives up nodes that were to be asked for.
func (c *Controller) release(groups [][]*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, group := range groups {
		for _, node := range group {
			c.watched[node.Name].busy = false
		}
	}
}

// ask asks the cloud about a group and does what follows from the answers.
func (c *Controller) ask(reads, calls context.Context, group []*corev1.Node, begun time.Time) {
	states := c.read(reads, group)
	<-c.reads
	if reads.Err() != nil { // the manager stops: this is no answer of the cloud
		c.release([][]*corev1.Node{group})
		return
	}
	var writing sync.WaitGroup
	for i, node := range group {
		writing.Go(func() {
			c.writing(reads, calls, node, func(calls context.Context, node *corev1.Node) error { return c.settle(calls, node, states[i], begun) })
		})
	}
	writing.Wait()
}

// read asks whether instances exist and are shut down. Where each question is a call, the second is asked only if its answer can change something: whoever
// has the taint keeps it until it is Ready.
func (c *Controller) read(ctx context.Context, group []*corev1.Node) []cloud.InstanceState {
	want := cloud.WantExists | cloud.WantShutdown
	if len(group) == 1 && c.reader.Size() == 1 && tainted(group[0]) {
		want = cloud.WantExists
	}
	states := c.reader.Group(ctx, group, want, 0)
	for i := range states {
		observe(states[i], want)
		if want == cloud.WantExists && states[i].Err == nil && states[i].Exists {
			states[i].Shutdown = true
		}
	}
	return states
}

// writing does a write for a node that is busy, which it ends, unless the manager stops, which ends reads. Whatever it stumbles over, others go on.
func (c *Controller) writing(reads, calls context.Context, node *corev1.Node, do func(context.Context, *corev1.Node) error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watched[node.Name].busy = false
	}()
	select {
	case c.writes <- struct{}{}:
		defer func() { <-c.writes }()
	case <-reads.Done():
	}
	if reads.Err() != nil {
		return
	}
	defer c.tracker.Start(fmt.Sprintf("writing node %q", node.Name))()
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(calls).Error(fmt.Errorf("panic: %v", p), "Looking after node, will be retried", "node", node.Name)
		}
	}()
	if err := do(calls, node); err != nil && !final(calls, err) {
		klog.FromContext(calls).Error(err, "Looking after node, will be retried", "node", node.Name)
	}
}
