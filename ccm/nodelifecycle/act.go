package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// The reasons of events on nodes.
const (
	// DeletingNode is upstream's: the node is deleted because its instance is gone.
	DeletingNode = "DeletingNode"
	// DeletingNodeFailed is upstream's: the API server has refused the deletion, which will be repeated.
	DeletingNodeFailed = "DeletingNodeFailed"
	// NodeDeletionDelayed is that the node would be deleted if it had not been without an instance before the takeover. It
	// says when it will be.
	NodeDeletionDelayed = "NodeDeletionDelayed"
	// NodeDeletionHeld is that the cloud has no instance for the node, and the node is kept. It is deleted when an
	// administrator says so, or when the answer is more plausible. It says why, and what to do.
	NodeDeletionHeld = "NodeDeletionHeld"
	// ReadingInstanceFailed is that the provider returned errors or panicked when it was asked for the node several times.
	ReadingInstanceFailed = "ReadingInstanceFailed"
)

const (
	// conflicts is how often a node is read again in one attempt because another client has written it.
	conflicts = 5
	// warnAfter is after how many failed answers in a row the user is told.
	warnAfter = 3
)

// applyAnswer does what follows from an answer about a node that was not Ready when it was asked for. It is not deleted
// here.
func (c *Controller) applyAnswer(calls context.Context, node *corev1.Node, state cloud.InstanceState) error {
	c.mu.Lock()
	w := c.watched[node.Name]
	c.mu.Unlock() // the node is busy: no other worker changes it
	switch answerOf(state) {
	case gone:
		c.delay(calls, node, w)
	case shutdown:
		return c.setTaint(calls, node, true)
	case unknown:
		if term.IsFinal(calls, state.Err) {
			return nil
		}
		c.warn(node, w, state.Err)
		return fmt.Errorf("reading the instance of node %q: %w", node.Name, state.Err)
	case running, foreign:
	}
	return nil
}

func (c *Controller) warn(node *corev1.Node, w *watched, err error) {
	if !w.warned && w.times >= warnAfter && c.warnings.Allow() {
		w.warned = true
		c.recorder.Eventf(reference(node), corev1.EventTypeWarning, ReadingInstanceFailed,
			"Cannot find out whether the instance of node %s exists: %v", node.Name, err)
	}
}

// graceEnd returns until when a node without instance is kept because this manager has taken over.
func (c *Controller) graceEnd(node *corev1.Node) time.Time {
	return graceEnd(node, c.fence.TakeoverAt(), c.options.TakeoverGrace)
}

// delay keeps a node whose instance is gone until the grace after the takeover is over.
func (c *Controller) delay(calls context.Context, node *corev1.Node, w *watched) {
	until := c.graceEnd(node)
	c.mu.Lock()
	w.due = c.clock.Now().Add(max(c.options.BackoffLimit, c.period))
	if until.Before(w.due) {
		w.due = until
	}
	told := w.delayed
	w.delayed = true
	c.mu.Unlock()
	if told {
		return
	}
	klog.FromContext(calls).
		Info("Keeping node without instance until the grace after the takeover is over", "node", node.Name, "until", until)
	c.recorder.Eventf(
		reference(node),
		corev1.EventTypeWarning,
		NodeDeletionDelayed,
		"The cloud provider has no instance for node %s, which was not Ready before this manager took over at %s. It will be deleted after %s, unless "+
			"it is Ready or has an instance by then (--node-deletion-grace-after-takeover)",
		node.Name,
		c.fence.TakeoverAt().UTC().Format(time.RFC3339),
		until.UTC().Format(time.RFC3339),
	)
}

// remove deletes a node. If it has changed since it was judged, it is read again, and deleted if it is the same one and
// still not Ready. With another provider ID it is of an instance that was not asked for. The next tick judges it again.
func (c *Controller) remove(calls context.Context, node *corev1.Node) error {
	c.mu.Lock()
	w := c.watched[node.Name]
	c.mu.Unlock() // the node is busy: no other worker changes it
	if !w.announced {
		w.announced = true
		c.recorder.Eventf(
			reference(node),
			corev1.EventTypeNormal,
			DeletingNode,
			"Deleting node %s because it does not exist in the cloud provider",
			node.Name,
		)
	}
	err := c.delete(calls, node)
	if apierrors.IsConflict(err) {
		current, failed := c.client.CoreV1().Nodes().Get(calls, node.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(failed) || failed == nil && isSpared(current, node):
			deletions.WithLabelValues("other").Inc()
			c.mu.Lock()
			w.forgetAnswer() // other answers of the pass would have it deleted again
			c.mu.Unlock()
			return nil
		case failed != nil:
			err = fmt.Errorf("reading node %q: %w", node.Name, failed)
		default:
			err = c.delete(calls, current)
		}
	}
	switch {
	case err == nil || apierrors.IsNotFound(err):
		deletions.WithLabelValues("success").Inc()
		c.mu.Lock()
		w.removed = true
		switch {
		case w.counted && w.terminated:
			c.recentTerminated[node.Name] = c.clock.Now()
		case w.counted:
			c.recent[node.Name] = c.clock.Now()
		}
		c.mu.Unlock()
		klog.FromContext(calls).
			Info("Deleted node whose instance is gone", "node", node.Name, "providerID", node.Spec.ProviderID)
		return nil
	case term.IsFinal(calls, err):
		return err
	}
	deletions.WithLabelValues("error").Inc()
	if w.refused != err.Error() {
		w.refused = err.Error()
		c.recorder.Eventf(
			reference(node),
			corev1.EventTypeWarning,
			DeletingNodeFailed,
			"Failed deleting node %s: %v",
			node.Name,
			err,
		)
	}
	return err
}

// isSpared reports whether a node is not to be deleted by what was judged of it before it changed.
func isSpared(current, judged *corev1.Node) bool {
	return current.UID != judged.UID || current.Spec.ProviderID != judged.Spec.ProviderID || isNodeReady(current)
}

func (c *Controller) delete(calls context.Context, node *corev1.Node) error {
	err := c.client.CoreV1().Nodes().Delete(calls, node.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("deleting node %q: %w", node.Name, err)
	}
	return nil
}

func (c *Controller) untaint(calls context.Context, node *corev1.Node) error {
	return c.setTaint(calls, node, false)
}

// setTaint adds the shutdown taint to a node or takes it away. Taints are written as a whole and have other owners:
// only with the resource version they were read with. A node that was read again and whose readiness has changed by
// then is judged again at the next tick.
func (c *Controller) setTaint(calls context.Context, node *corev1.Node, want bool) error {
	var err error
	for range conflicts {
		if hasShutdownTaint(node) == want || isNodeReady(node) == want {
			return nil
		}
		if err = c.patchTaints(calls, node, taintsWith(node, want)); err == nil {
			klog.FromContext(calls).Info("Wrote the shutdown taint of node", "node", node.Name, "tainted", want)
			return nil
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		// a wrong UID may be refused as invalid: the field cannot be changed
		if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			return err
		}
		current, failed := c.client.CoreV1().Nodes().Get(calls, node.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(failed) || failed == nil && current.UID != node.UID {
			return nil
		}
		if failed != nil {
			return fmt.Errorf("reading node %q: %w", node.Name, failed)
		}
		node = current
	}
	return err
}

func (c *Controller) patchTaints(calls context.Context, node *corev1.Node, taints []corev1.Taint) error {
	spec := map[string]any{"taints": taints}
	if len(taints) == 0 {
		spec["taints"] = nil
	}
	body, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}, "spec": spec},
	)
	if err != nil {
		return fmt.Errorf("encoding patch of node %q: %w", node.Name, err)
	}
	if _, err := c.client.CoreV1().
		Nodes().
		Patch(calls, node.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patching node %q: %w", node.Name, err)
	}
	return nil
}

// reference names a node in an event; it may be gone when the event is written.
func reference(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1",
		Kind:       "Node",
		Name:       node.Name,
		UID:        node.UID,
	}
}
