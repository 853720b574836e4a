package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// markAnnotation is what a new leader changes on the nodes that have no podCIDR. It goes away with the PATCH that sets
// them.
const markAnnotation = "node-ipam.transplant.dev/seen-by-new-leader"

// conflictRetries is how often a PATCH is sent again at once because the node has changed. Half a dozen components
// write to a new node.
const conflictRetries = 5

// sync gives a node its podCIDRs if it has none.
func (c *Controller) sync(calls context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !node.DeletionTimestamp.IsZero() {
		c.served(name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %q: %w", name, err)
	}
	if len(node.Spec.PodCIDRs) > 0 {
		c.hold(node)
		c.served(name)
		return nil
	}
	cidrs, wanted, err := c.ledger.reserve(node.UID, name)
	if errors.Is(err, errExhausted) {
		c.wait(node, err)
		return nil // until a block is free
	}
	c.served(name)
	if err != nil || !wanted {
		return err
	}
	if err := c.assign(calls, node, cidrs); err != nil {
		if !term.IsFinal(calls, err) {
			c.status(node, "CIDRAssignmentFailed")
		}
		return err
	}
	return nil
}

// assign writes podCIDRs to a node that has none. The node that was read is what it is for: one that has changed since
// is read again.
func (c *Controller) assign(calls context.Context, node *corev1.Node, cidrs []string) error {
	for range conflictRetries {
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{
				"uid": node.UID, "resourceVersion": node.ResourceVersion, "annotations": map[string]any{markAnnotation: nil},
			},
			"spec": map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs},
		})
		if err != nil {
			return fmt.Errorf("encoding podCIDRs of node %q: %w", node.Name, err)
		}
		updated, err := c.client.CoreV1().
			Nodes().
			Patch(calls, node.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
		if err == nil {
			klog.FromContext(calls).Info("Set podCIDRs", "node", node.Name, "podCIDRs", cidrs)
			c.hold(updated)
			return nil
		}
		failure := fmt.Errorf("patching podCIDRs %v of node %q: %w", cidrs, node.Name, err)
		if term.IsFinal(calls, err) {
			return failure
		}
		// Perhaps it was executed. What was chosen stays the node's in any case.
		current, err := c.client.CoreV1().Nodes().Get(calls, node.Name, metav1.GetOptions{}) // from etcd, not from a cache
		switch {
		case apierrors.IsNotFound(err), err == nil && current.UID != node.UID:
			return nil // the event of its removal frees the blocks
		case err != nil:
			return errors.Join(failure, fmt.Errorf("reading node %q: %w", node.Name, err))
		case len(current.Spec.PodCIDRs) > 0:
			c.hold(current)
			return nil
		case !apierrors.IsConflict(failure):
			return failure
		}
		node = current
	}
	return fmt.Errorf("node %q has changed %d times while it was given podCIDRs", node.Name, conflictRetries)
}

// wait notes that there is no block for a node, and tells so, though not each time.
func (c *Controller) wait(node *corev1.Node, err error) {
	c.mu.Lock()
	told, waits := c.waiting[node.Name]
	now := c.clock.Now()
	tell := !waits || now.Sub(told) >= sweepPeriod
	if tell {
		c.waiting[node.Name] = now
	}
	waitingNodes.Set(float64(len(c.waiting)))
	c.mu.Unlock()
	if tell {
		klog.ErrorS(err, "A node has to wait for its podCIDRs until another is deleted", "node", node.Name)
		c.status(node, "CIDRNotAvailable")
	}
}

// served notes that a node does not wait for a block.
func (c *Controller) served(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, name)
	waitingNodes.Set(float64(len(c.waiting)))
}

// status tells of a node in upstream's words.
func (c *Controller) status(node *corev1.Node, status string) {
	c.recorder.Eventf(reference(node), corev1.EventTypeNormal, status, "Node %s status is now: %s", node.Name, status)
}
