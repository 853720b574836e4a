package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// conflicts is how often a node is read again in one attempt because another client has written it.
const conflicts = 5

// initialise does what is judged for a node with the taint: two writes at most. A node that is no longer the one that
// was read gets nothing.
func (c *Controller) initialise(calls context.Context, node *corev1.Node, state cloud.InstanceState) error {
	var err error
	for range conflicts {
		var does initialisation
		if does, err = judgeInitialisation(node, state, c.idsOptional); err != nil {
			return err
		}
		var written *corev1.Node
		if written, err = c.writeNode(calls, node, does); err == nil {
			c.recordInitialised(calls, written, does)
			return nil
		}
		if node, err = c.fresh(calls, node, err); err != nil || node == nil || !hasCloudTaint(node) {
			return err
		}
	}
	return passing(
		UpdatingNodeFailed,
		fmt.Errorf("patching node %q: other clients have written it %d times in the meantime", node.Name, conflicts),
	)
}

// writeNode writes the addresses first: when the taint goes, pods come that may need them. The status needs no resource
// version: the kubelet writes it all the time, and addresses are replaced as a whole. Taints are written as a whole
// too, and have other owners.
func (c *Controller) writeNode(calls context.Context, node *corev1.Node, does initialisation) (*corev1.Node, error) {
	if does.addresses != nil && !hasSameAddresses(node.Status.Addresses, does.addresses) {
		var err error
		if node, err = c.patchAddresses(calls, node, does.addresses); err != nil {
			return nil, err
		}
	}
	meta := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	if len(does.labels) > 0 {
		meta["labels"] = does.labels
	}
	spec := map[string]any{"taints": does.taints}
	if len(does.taints) == 0 {
		spec["taints"] = nil
	}
	if does.providerID != "" {
		spec["providerID"] = does.providerID
	}
	return c.patch(calls, node, map[string]any{"metadata": meta, "spec": spec})
}

// recordInitialised counts a node that was initialised, and tells its events.
func (c *Controller) recordInitialised(calls context.Context, node *corev1.Node, does initialisation) {
	age := c.clock.Since(node.CreationTimestamp.Time).Seconds()
	taintRemovalDelay.Observe(age)
	c.rememberWrite(node)
	if len(does.invalid) > 0 {
		left := strings.Join(does.invalid, "; ")
		c.recorder.Eventf(
			node,
			corev1.EventTypeWarning,
			InvalidLabel,
			"Left out labels from the cloud provider that are not valid: %s",
			left,
		)
		failures.WithLabelValues(InvalidLabel).Inc()
	}
	c.recorder.Event(node, corev1.EventTypeNormal, Synced, "Node synced successfully")
	initialSyncDelay.Observe(age)
	klog.FromContext(calls).Info("Initialised node", "node", node.Name, "providerID", node.Spec.ProviderID)
}

// keepLabels makes a node's stable labels follow their beta pairs.
func (c *Controller) keepLabels(calls context.Context, node *corev1.Node) error {
	set := unequalLabels(node.Labels)
	if len(set) == 0 {
		return nil
	}
	_, err := c.patch(calls, node, map[string]any{"metadata": map[string]any{"uid": node.UID, "labels": set}})
	return c.unlessOther(calls, node, err)
}

// keepAddresses writes the addresses of an initialised node if they are others than those of its instance.
func (c *Controller) keepAddresses(calls context.Context, node *corev1.Node, state cloud.InstanceState) error {
	if state.Err == nil && state.Metadata == nil {
		return nil // nothing is known of it: whether it is gone is not this controller's business
	}
	metadata, err := metadataOf(node, state)
	if err != nil {
		return err
	}
	addresses, err := addressesOf(node, metadata.NodeAddresses)
	if err != nil {
		return lasting(ProvidedIPMismatch, "finding the addresses of node %q: %w", node.Name, err)
	}
	if addresses == nil || hasSameAddresses(node.Status.Addresses, addresses) {
		return nil
	}
	if _, err = c.patchAddresses(calls, node, addresses); err == nil {
		klog.FromContext(calls).Info("Wrote addresses of node", "node", node.Name, "addresses", addresses)
	}
	return c.unlessOther(calls, node, err)
}

func (c *Controller) patchAddresses(
	calls context.Context,
	node *corev1.Node,
	addresses []corev1.NodeAddress,
) (*corev1.Node, error) {
	return c.patch(calls, node, map[string]any{
		"metadata": map[string]any{"uid": node.UID}, "status": map[string]any{"addresses": addresses},
	}, "status")
}

// patch sends a JSON merge patch, which replaces lists: a strategic one merges addresses by their type, of which
// dual-stack nodes have several.
func (c *Controller) patch(
	calls context.Context,
	node *corev1.Node,
	patch map[string]any,
	subresources ...string,
) (*corev1.Node, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding patch of node %q: %w", node.Name, err)
	}
	written, err := c.client.CoreV1().
		Nodes().
		Patch(calls, node.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return nil, fmt.Errorf("patching node %q: %w", node.Name, err)
	}
	return written, nil
}

// fresh reads a node again that another client has written, from the API server: the cache may lag behind the write
// that was refused. It is nil if the node is gone, also when another has taken its name. A patch with a wrong UID may
// be refused as invalid: the field cannot be changed.
func (c *Controller) fresh(calls context.Context, node *corev1.Node, refusal error) (*corev1.Node, error) {
	if apierrors.IsNotFound(refusal) {
		return nil, nil
	}
	if !apierrors.IsConflict(refusal) && !apierrors.IsInvalid(refusal) {
		return nil, passing(UpdatingNodeFailed, refusal)
	}
	current, err := c.client.CoreV1().Nodes().Get(calls, node.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && current.UID != node.UID:
		return nil, nil
	case err != nil:
		return nil, passing(UpdatingNodeFailed, fmt.Errorf("reading node %q: %w", node.Name, err))
	case apierrors.IsInvalid(refusal):
		return nil, passing(UpdatingNodeFailed, refusal)
	}
	return current, nil
}

// unlessOther returns the error of a patch, unless it was refused because the node is gone or another.
func (c *Controller) unlessOther(calls context.Context, node *corev1.Node, err error) error {
	if err == nil {
		return nil
	}
	current, failed := c.fresh(calls, node, err)
	if failed == nil && current != nil {
		failed = passing(UpdatingNodeFailed, err)
	}
	return failed
}
