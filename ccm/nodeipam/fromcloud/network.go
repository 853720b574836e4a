package fromcloud

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionHolds is how long a condition that was written is left alone, whatever others write. Two writers that
// correct each other must not do so all the time.
const conditionHolds = 10 * time.Second

// lacksNetwork reports whether a node's condition does not say yet that pods on it can be reached. The cloud sends them
// what comes for a range of the instance, without a route.
func (c *Controller) lacksNetwork(node *corev1.Node) bool {
	return !c.hasRoutes && !slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse
	})
}

// conditionDelay is how long a node whose condition was written is left alone.
func (c *Controller) conditionDelay(node *corev1.Node) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, isWritten := c.written[node.UID]
	if !isWritten || len(node.Spec.PodCIDRs) == 0 {
		return 0
	}
	return max(at.Add(conditionHolds).Sub(c.clock.Now()), 0)
}

// setNetworkAvailable writes the condition in upstream's words. It is for the node that was read: one that was created
// again under the same name has a UID of its own.
func (c *Controller) setNetworkAvailable(calls context.Context, node *corev1.Node) error {
	now := metav1.NewTime(c.clock.Now())
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status": map[string]any{"conditions": []corev1.NodeCondition{{
			Type:               corev1.NodeNetworkUnavailable,
			Status:             corev1.ConditionFalse,
			Reason:             "RouteCreated",
			Message:            "NodeController create implicit route",
			LastHeartbeatTime:  now,
			LastTransitionTime: now,
		}}},
	})
	if err != nil {
		return fmt.Errorf("encoding the condition NetworkUnavailable of node %q: %w", node.Name, err)
	}
	if _, err := c.client.CoreV1().Nodes().PatchStatus(calls, node.Name, body); err != nil {
		return fmt.Errorf("patching the condition NetworkUnavailable of node %q: %w", node.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[node.UID] = now.Time
	return nil
}
