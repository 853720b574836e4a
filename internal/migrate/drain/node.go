package drain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// ReadyStatus is the status of a node's condition Ready, and when its kubelet last said so.
func ReadyStatus(n *corev1.Node) (corev1.ConditionStatus, metav1.Time) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status, c.LastHeartbeatTime
		}
	}
	return corev1.ConditionUnknown, metav1.Time{}
}

// Cordon makes a node unschedulable, or schedulable again, which one that is gone needs not to be.
func Cordon(ctx context.Context, e *step.Env, node string, unschedulable bool) error {
	err := ChangeNode(ctx, e, node, "", func(n *corev1.Node) bool {
		changed := n.Spec.Unschedulable != unschedulable
		n.Spec.Unschedulable = unschedulable
		return changed
	})
	if !unschedulable && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ChangeNode changes a node under the version that was read, as often as another client is faster. A node of another
// uid is not the one that was meant; an empty uid means any.
func ChangeNode(ctx context.Context, e *step.Env, name string, uid types.UID, change func(*corev1.Node) bool) error {
	return retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		for {
			n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("reading node %s: %w", name, err)
			}
			if uid != "" && n.UID != uid {
				return step.NewStale("node %s was recreated: its uid is %s, it was %s", name, n.UID, uid)
			}
			if !change(n) {
				return nil
			}
			_, err = e.Kube.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{FieldManager: "transplant"})
			if apierrors.IsConflict(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("changing node %s: %w", name, err)
			}
			return nil
		}
	})
}

// PodsOn returns the pods that a node runs.
func PodsOn(ctx context.Context, e *step.Env, node string) ([]corev1.Pod, error) {
	pods, err := e.Kube.CoreV1().
		Pods(metav1.NamespaceAll).
		List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != node }), nil
}

// IsOurs reports whether a pod is one through which this tool looks at hosts.
func IsOurs(p *corev1.Pod) bool {
	return p.Labels["app.kubernetes.io/managed-by"] == "transplant" && p.Labels["transplant.dev/host-access"] != ""
}
