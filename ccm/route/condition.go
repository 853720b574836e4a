package route

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// Reasons and messages of the condition, as upstream's: other components and users' alerts look at them.
const (
	reasonCreated  = "RouteCreated"
	messageCreated = "RouteController created a route"
	reasonNone     = "NoRouteCreated"
	messageNone    = "RouteController failed to create a route"
)

// conditionHolds is how long a condition that this controller has written is left alone, whatever others write. A
// network plugin writes the same condition with a reason of its own (Calico: CalicoIsUp). Two writers that correct each
// other must not do so all the time. Upstream's is the same.
const conditionHolds = 10 * time.Second

// patched is the condition that was last written to a node, or is being written.
type patched struct {
	uid      types.UID
	verdict  verdict
	at       time.Time
	running  bool
	failures int
	next     time.Time
}

// verdict is what a node's condition should say.
type verdict int

const (
	pending verdict = iota // nothing has been tried yet: leave it as it is
	created
	lacking
)

// observed is the part of a condition that is compared. Upstream compares the reason too, so that another's False
// becomes ours (#131804).
type observed struct {
	Status corev1.ConditionStatus
	Reason string
}

func networkCondition(node *corev1.Node) observed {
	for i := range node.Status.Conditions {
		if condition := &node.Status.Conditions[i]; condition.Type == corev1.NodeNetworkUnavailable {
			return observed{condition.Status, condition.Reason}
		}
	}
	return observed{}
}

func (v verdict) observed() observed {
	if v == created {
		return observed{corev1.ConditionFalse, reasonCreated}
	}
	return observed{corev1.ConditionTrue, reasonNone}
}

// judgeNode decides what the condition of a node should say.
func judgeNode(n needs, a attempts) verdict {
	if len(n.node.Spec.PodCIDRs) == 0 {
		return lacking // a route leads to it, but none should
	}
	if len(n.missing) == 0 {
		return created
	}
	if len(n.refused) > 0 {
		return lacking
	}
	for _, d := range n.missing {
		if a.hasFailed(createOf(d, creation{node: n.node})) {
			return lacking
		}
	}
	return pending
}

// updateConditions brings the conditions of nodes in line with their routes: one patch for each node whose condition
// says something else.
func (c *Controller) updateConditions(ctx, calls context.Context, nodes []*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	present := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		present[node.Name] = true
	}
	for name, patch := range c.patches {
		if !present[name] && !patch.running {
			delete(c.patches, name)
		}
	}
	judged := planChanges(nodes, c.current(nodes), c.clusterCIDRs).nodes
	c.tellRefused(judged)
	for _, n := range judged {
		verdict := judgeNode(n, c.attempts)
		if verdict == pending || networkCondition(n.node) == verdict.observed() {
			continue
		}
		patch := c.patches[n.node.Name]
		if patch == nil || patch.uid != n.node.UID && !patch.running {
			patch = &patched{uid: n.node.UID}
			c.patches[n.node.Name] = patch
		}
		if patch.running {
			continue // it asks for another pass when it has ended
		}
		until := patch.next
		if held := patch.at.Add(conditionHolds); patch.verdict == verdict && held.After(until) {
			until = held
		}
		if until.After(now) {
			c.queue.AddAfter(retry, until.Sub(now))
			continue
		}
		patch.running, patch.verdict = true, verdict
		c.work.Go(func() { c.patch(ctx, calls, n.node, patch, verdict) })
	}
}

// tellRefused makes an event of each node that is refused a route, once. The caller has the lock.
func (c *Controller) tellRefused(nodes []needs) {
	told := map[types.UID]bool{}
	for _, n := range nodes {
		if len(n.refused) == 0 {
			continue
		}
		told[n.node.UID] = true
		if !c.told[n.node.UID] {
			c.eventRefused(n)
		}
	}
	c.told = told
}

// patch writes a node's condition. It is for the node that was judged: one that was created again under the same name
// has a UID of its own.
func (c *Controller) patch(ctx, calls context.Context, node *corev1.Node, patch *patched, verdict verdict) {
	err := c.writeCondition(ctx, calls, node, verdict)
	c.mu.Lock()
	defer c.mu.Unlock()
	patch.running = false
	switch {
	case err == nil:
		patch.at, patch.failures, patch.next = c.clock.Now(), 0, time.Time{}
		c.queue.AddAfter(retry, conditionHolds) // by then the cache shows it, or another client has written since
	case ctx.Err() != nil, term.IsFinal(calls, err):
	default:
		patch.failures++
		patch.next = c.clock.Now().Add(backoff(patch.failures))
		patch.verdict = pending
		c.queue.AddAfter(retry, patch.next.Sub(c.clock.Now()))
		klog.FromContext(ctx).Error(err, "Writing the condition NetworkUnavailable, will be retried", "node", node.Name)
	}
}

func (c *Controller) writeCondition(ctx, calls context.Context, node *corev1.Node, verdict verdict) error {
	select {
	case c.patchSlots <- struct{}{}:
		defer func() { <-c.patchSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	now := metav1.NewTime(c.clock.Now())
	condition := corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: reasonNone, Message: messageNone,
		LastTransitionTime: now, LastHeartbeatTime: now,
	}
	if verdict == created {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, reasonCreated, messageCreated
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{condition}},
	})
	if err != nil {
		return fmt.Errorf("encoding the condition of node %q: %w", node.Name, err)
	}
	if _, err := c.client.CoreV1().Nodes().PatchStatus(calls, node.Name, body); err != nil {
		return fmt.Errorf("patching the condition of node %q: %w", node.Name, err)
	}
	return nil
}
