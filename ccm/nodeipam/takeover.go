package nodeipam

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/internal/term"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

// takeOver makes this process the one that gives out podCIDRs: see the package's guarantee. It is false if that has not
// come about.
func (c *Controller) takeOver(ctx, calls context.Context) bool {
	defer c.tracker.Start("looking at all nodes before giving out podCIDRs")()
	var nodes *corev1.NodeList
	if !c.retryUntilSuccess(ctx, calls, "Listing nodes", func() (err error) {
		nodes, err = c.client.CoreV1().Nodes().List(calls, metav1.ListOptions{}) // no resourceVersion: what etcd has now
		return err
	}) {
		return false
	}
	var without []*corev1.Node
	for i := range nodes.Items {
		if node := &nodes.Items[i]; len(node.Spec.PodCIDRs) > 0 {
			c.hold(node)
		} else {
			without = append(without, node)
		}
	}
	if !c.markNodes(ctx, calls, without) {
		return false
	}
	c.mu.Lock()
	c.ready = true
	c.mu.Unlock()
	known, err := c.nodes.List(labels.Everything())
	if err != nil {
		return false
	}
	for _, node := range known { // events so far were ignored
		c.seen(node)
	}
	return true
}

// markNodes changes nodes so that what was under way for them is refused. It returns once that holds for all.
func (c *Controller) markNodes(ctx, calls context.Context, nodes []*corev1.Node) bool {
	var work sync.WaitGroup
	slots, done := make(chan struct{}, workers), make([]bool, len(nodes))
	for i, node := range nodes {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			done[i] = c.retryUntilSuccess(ctx, calls, "Marking node "+node.Name, func() error { return c.mark(calls, node) })
		})
	}
	work.Wait()
	for _, ok := range done {
		if !ok {
			return false
		}
	}
	return true
}

// mark changes one node. A node that has changed since it was listed needs it no more: whatever is under way for it was
// read before.
func (c *Controller) mark(calls context.Context, node *corev1.Node) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion,
		// one that was there already would change nothing
		"annotations": map[string]any{podcidr.MarkAnnotation: c.clock.Now().UTC().Format(time.RFC3339Nano)},
	}})
	if err != nil {
		return fmt.Errorf("encoding the mark of node %q: %w", node.Name, err)
	}
	_, err = c.client.CoreV1().Nodes().Patch(calls, node.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		klog.FromContext(calls).
			Error(err, "A node may not be changed, so that it cannot be given podCIDRs either", "node", node.Name)
	default:
		return fmt.Errorf("marking node %q: %w", node.Name, err)
	}
	current, err := c.client.CoreV1().Nodes().Get(calls, node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading node %q: %w", node.Name, err)
	}
	if len(current.Spec.PodCIDRs) > 0 {
		c.hold(current) // the predecessor's request was the change
	}
	return nil
}

// retryUntilSuccess repeats an action with a growing pause until it succeeds. It is false if this process stops, or may
// no longer act, before that.
func (c *Controller) retryUntilSuccess(ctx, calls context.Context, what string, action func() error) bool {
	pause := wait.Backoff{
		Duration: 500 * time.Millisecond,
		Factor:   2,
		Jitter:   0.2,
		Steps:    10,
		Cap:      10 * time.Second,
	}
	for ctx.Err() == nil {
		err := action()
		if err == nil {
			return true
		}
		if term.IsFinal(calls, err) {
			return false
		}
		klog.FromContext(ctx).Error(err, what+", will be retried")
		select {
		case <-c.clock.After(pause.Step()):
		case <-ctx.Done():
		}
	}
	return false
}

func (c *Controller) sweepUntil(ctx, calls context.Context) {
	ticker := c.clock.NewTicker(sweepPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			c.releaseMissing(ctx, calls)
		case <-ctx.Done():
			return
		}
	}
}

// releaseMissing frees the blocks of nodes that are gone without an event. Such a node came and went while the watch
// was broken, or was in the list of the takeover but never in the cache. The API server is asked about each before
// that.
func (c *Controller) releaseMissing(ctx, calls context.Context) {
	known, err := c.nodes.List(labels.Everything())
	if err != nil {
		return
	}
	present := make(map[types.UID]bool, len(known))
	for _, node := range known {
		present[node.UID] = true
	}
	missing := map[types.UID]string{}
	for uid, name := range c.ledger.names() {
		if !present[uid] {
			missing[uid] = name
		}
	}
	c.mu.Lock()
	before := c.missing
	c.missing = missing
	c.mu.Unlock()
	for uid, name := range missing {
		if _, twice := before[uid]; !twice || ctx.Err() != nil {
			continue
		}
		node, err := c.client.CoreV1().Nodes().Get(calls, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && node.UID != uid {
			klog.FromContext(ctx).Info("Freed the podCIDRs of a node that went unseen", "node", name)
			c.ledger.releaseNode(uid)
		}
	}
	c.serveWaiting()
}
