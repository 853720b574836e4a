package nodelifecycle

import (
	"cmp"
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
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

const (
	// groupsPerTick bounds the calls of a tick, however many nodes are not Ready.
	groupsPerTick = 2
	// groupsInFlight bounds the calls that are made at the same time: one that hangs takes up the place of none of the
	// next tick's.
	groupsInFlight = 4
)

// question is about one node.
type question struct {
	node *corev1.Node
	// witness is that the node is Ready. Nothing follows for it: it says whether the cloud knows this cluster's instances.
	witness bool
}

// tick looks at all nodes once. It does not wait for the cloud's answers: a call that hangs must not keep other nodes
// from being looked at. ticking ends when the next tick is due: what has found no slot until then is left to it.
func (c *Controller) tick(ticking, reads, calls context.Context) {
	begun := c.clock.Now()
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return // the cache always answers
	}
	questions, back := c.chooseQuestions(all, begun)
	c.mu.Lock()
	c.noteOwnNode(calls)
	c.mu.Unlock()
	c.decide(calls, nil) // nodes that are held may be gone by now
	pass := c.beginPass(questions, begun)
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
	groups := slices.Collect(slices.Chunk(questions, c.reader.Size()))
	for i, group := range groups {
		select {
		case c.reads <- struct{}{}:
		case <-ticking.Done():
			c.release(groups[i:], pass)
			return
		}
		start(func() { c.checkGroup(reads, calls, group, begun, pass) })
	}
}

// beginPass returns the evidence that the answers to questions add to. A node for which a call has failed counts as
// failed until its next call. Otherwise a pass with one answer alone would prove that answer.
func (c *Controller) beginPass(questions []question, now time.Time) *evidence {
	c.mu.Lock()
	defer c.mu.Unlock()
	pass := &evidence{open: len(questions), ownUnknown: c.own == ""}
	for _, q := range questions {
		if q.witness {
			pass.witnesses++
		}
		pass.ownPending = pass.ownPending || q.node.Name == c.own
	}
	for _, w := range c.watched {
		if w.awaitsRetry(now) {
			pass.missed++
		}
	}
	return pass
}

// chooseQuestions returns what to ask the cloud, and the nodes that are Ready again and have the shutdown taint still.
// All are busy from now on.
func (c *Controller) chooseQuestions(all []*corev1.Node, now time.Time) (questions []question, back []*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticked, c.known, c.own = now, len(all), c.host.node(all)
	var due []*corev1.Node
	present := map[string]bool{}
	for _, node := range all {
		w := c.watched[node.Name]
		switch {
		case !isNodeReady(node):
			present[node.Name] = true
			if signature := signatureOf(node); w == nil || w.signature != signature && !w.busy {
				w = &watched{signature: signature}
				c.watched[node.Name] = w
			}
			if w.shouldAsk(node, now) {
				due = append(due, node)
			}
		case hasShutdownTaint(node) && (w == nil || !w.busy):
			present[node.Name] = true
			c.watched[node.Name] = &watched{signature: signatureOf(node), busy: true}
			back = append(back, node)
		}
	}
	c.forgetOthers(present)
	for _, node := range c.pickWitnesses(all, due) {
		c.witnesses[node.Name] = true
		questions = append(questions, question{node: node, witness: true})
	}
	for _, node := range c.takeTurns(due, len(questions)) {
		c.watched[node.Name].busy = true
		questions = append(questions, question{node: node})
	}
	return questions, back
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

// takeTurns returns those of the nodes that are asked for in this tick. New ones come first, as their due time is zero,
// so that none is asked for twice before all were once. Then come those of which a second read has to confirm that they
// have no instance. Then come those that have waited for longest. Others are asked for with them. The caller has the
// lock.
func (c *Controller) takeTurns(due []*corev1.Node, others int) []*corev1.Node {
	slices.SortFunc(due, func(a, b *corev1.Node) int {
		x, y := c.watched[a.Name], c.watched[b.Name]
		return cmp.Or(cmp.Compare(x.turn(), y.turn()), x.due.Compare(y.due), strings.Compare(a.Name, b.Name))
	})
	if size := c.reader.Size(); size > 1 {
		due = due[:min(len(due), max(groupsPerTick*size-others, 1))]
	}
	return due
}

// release gives up questions that were to be asked.
func (c *Controller) release(groups [][]question, pass *evidence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, group := range groups {
		for _, q := range group {
			c.idle(q)
			pass.giveUp(q, q.node.Name == c.own)
		}
	}
}

// idle is for a node that is not being asked for any more. The caller has the lock.
func (c *Controller) idle(q question) {
	if q.witness {
		delete(c.witnesses, q.node.Name)
	} else {
		c.watched[q.node.Name].busy = false
	}
}

// checkGroup asks the cloud about a group and does what follows from the answers.
func (c *Controller) checkGroup(reads, calls context.Context, group []question, begun time.Time, pass *evidence) {
	states := c.read(reads, group)
	<-c.reads
	if reads.Err() != nil { // the manager stops: this is no answer of the cloud
		c.release([][]question{group}, pass)
		return
	}
	follows := c.record(group, states, begun, pass)
	var writing sync.WaitGroup
	for _, node := range c.decide(calls, pass) {
		writing.Go(func() { c.writing(reads, calls, node, c.remove) })
	}
	for _, f := range follows {
		writing.Go(func() {
			c.writing(
				reads,
				calls,
				f.node,
				func(calls context.Context, node *corev1.Node) error { return c.applyAnswer(calls, node, f.state) },
			)
		})
	}
	writing.Wait()
}

// follow is a node that an answer has consequences for, apart from its deletion.
type follow struct {
	node  *corev1.Node
	state cloud.InstanceState
}

// record notes the answers to questions that were asked at a time. The nodes that it returns stay busy.
func (c *Controller) record(
	group []question,
	states []cloud.InstanceState,
	asked time.Time,
	pass *evidence,
) (follows []follow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, q := range group {
		answer := answerOf(states[i])
		pass.addAnswer(q, q.node.Name == c.own, answer, states[i].Terminated)
		if !q.witness {
			w := c.watched[q.node.Name]
			w.recordAnswer(answer, asked, c.period, c.options.BackoffLimit, c.reader.Size() > 1)
			w.node, w.evidence, w.terminated = nil, nil, false // a Node is large, and a lost zone has thousands
			if answer == gone {
				w.node, w.evidence, w.terminated = q.node, pass, states[i].Terminated
			}
			if answer == shutdown || answer == unknown || answer == gone && c.clock.Now().Before(c.graceEnd(q.node)) {
				follows = append(follows, follow{q.node, states[i]})
				continue
			}
		}
		c.idle(q)
	}
	return follows
}

// read asks whether instances exist and are shut down. If each question is a call, the second is asked only if its
// answer can change something. A node with the taint keeps it until it is Ready, and a witness gets none.
func (c *Controller) read(ctx context.Context, group []question) []cloud.InstanceState {
	nodes := make([]*corev1.Node, len(group))
	for i, q := range group {
		nodes[i] = q.node
	}
	want := cloud.WantExists | cloud.WantShutdown
	if len(group) == 1 && c.reader.Size() == 1 && (group[0].witness || hasShutdownTaint(nodes[0])) {
		want = cloud.WantExists
	}
	states := c.reader.Group(ctx, nodes, want, 0)
	for i := range states {
		observe(states[i], want)
		if want == cloud.WantExists && states[i].Err == nil && states[i].Exists {
			states[i].Shutdown = true
		}
	}
	return states
}

// writing does a write for a node that is busy, which it ends, unless the manager stops, which ends reads. Whatever it
// stumbles over, others go on.
func (c *Controller) writing(
	reads, calls context.Context,
	node *corev1.Node,
	do func(context.Context, *corev1.Node) error,
) {
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
	defer c.reader.Tracker.Start(fmt.Sprintf("writing node %q", node.Name))()
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(calls).Error(fmt.Errorf("panic: %v", p), "Looking after node, will be retried", "node", node.Name)
		}
	}()
	if err := do(calls, node); err != nil && !term.IsFinal(calls, err) {
		klog.FromContext(calls).Error(err, "Looking after node, will be retried", "node", node.Name)
	}
}
