package nodeipam

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/internal/term"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

// sync gives a node its podCIDRs if it has none.
func (c *Controller) sync(calls context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !node.DeletionTimestamp.IsZero() {
		c.waiting.Remove(name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %q: %w", name, err)
	}
	if len(node.Spec.PodCIDRs) > 0 {
		c.hold(node)
		c.waiting.Remove(name)
		return nil
	}
	cidrs, wanted, err := c.ledger.reserve(node.UID, name)
	if errors.Is(err, errExhausted) {
		c.wait(node, err)
		return nil // until a block is free
	}
	c.waiting.Remove(name)
	if err != nil || !wanted {
		return err
	}
	if err := c.assign(calls, node, cidrs); err != nil {
		if !term.IsFinal(calls, err) {
			podcidr.TellStatus(c.recorder, node, "CIDRAssignmentFailed")
		}
		return err
	}
	return nil
}

// assign writes podCIDRs to a node that has none, and notes what it has then.
func (c *Controller) assign(calls context.Context, node *corev1.Node, cidrs []string) error {
	current, err := podcidr.Set(calls, c.client, node, cidrs)
	if err == nil && current != nil {
		c.hold(current)
	}
	return err
}

// wait notes that there is no block for a node, and tells so, though not each time.
func (c *Controller) wait(node *corev1.Node, err error) {
	if c.waiting.Add(node.Name, c.clock.Now()) {
		klog.ErrorS(err, "A node has to wait for its podCIDRs until another is deleted", "node", node.Name)
		podcidr.TellStatus(c.recorder, node, "CIDRNotAvailable")
	}
}
