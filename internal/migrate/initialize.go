package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// initializeNode lets the cloud-controller-manager initialise a node that has no provider id: it sets that of a node with the taint only. With
// Restore it takes a taint back that nobody acted upon; a provider id cannot be taken back, the API server refuses to change one.
type initializeNode struct{ *Engine }

func (x initializeNode) done(ctx context.Context, s v1.Step) (bool, error) {
	if s.Restore != "" && !x.journal.Record(s.Restore).Created {
		return true, nil // the taint was never ours
	}
	n, err := x.node(ctx, s)
	if apierrors.IsNotFound(err) && s.Restore != "" {
		return true, nil
	} else if err != nil {
		return false, err
	}
	switch {
	case s.Restore != "":
		return !uninitialized(n), nil
	case uninitialized(n):
		return false, pendingError(fmt.Sprintf("node %s still has the taint %s: the cloud-controller-manager has not initialised it", n.Name, api.TaintExternalCloudProvider))
	case n.Spec.ProviderID == "":
		return false, pendingError(fmt.Sprintf("node %s has no provider id", n.Name))
	}
	return true, nil
}

func (x initializeNode) do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	n, err := x.node(ctx, s)
	if err != nil {
		return err
	}
	if s.Restore == "" && !rec.Created {
		rec.Created = !uninitialized(n)
		rec.Before = fmt.Sprintf(`{"uid":%q}`, n.UID)
	}
	if s.Restore == "" && n.Spec.ProviderID == "" && rec.Before != fmt.Sprintf(`{"uid":%q}`, n.UID) {
		return &StaleError{Changed: []string{fmt.Sprintf("node %s was recreated while it was being initialised", n.Name)}}
	}
	if err := x.journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.Hook("during", s.ID)
	return x.changeNode(ctx, n.Name, n.UID, func(n *corev1.Node) bool {
		if s.Restore != "" {
			before := len(n.Spec.Taints)
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isUninitialized)
			return len(n.Spec.Taints) != before
		}
		if uninitialized(n) || n.Spec.ProviderID != "" {
			return false // it was initialised since we looked, or by an earlier try
		}
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: api.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule})
		return true
	})
}

func (x initializeNode) node(ctx context.Context, s v1.Step) (*corev1.Node, error) {
	name := strings.TrimPrefix(s.Ref, "Node/")
	n, err := x.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return n, nil
}

func uninitialized(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, isUninitialized) }

func isUninitialized(t corev1.Taint) bool { return t.Key == api.TaintExternalCloudProvider }

// changeNode changes a node under the version that was read, as often as somebody else is faster. A node of another uid is not the one that was
// meant; an empty uid means any.
func (e *Engine) changeNode(ctx context.Context, name string, uid types.UID, change func(*corev1.Node) bool) error {
	return Retry(ctx, writeBudget, func(ctx context.Context) error {
		for {
			n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("reading node %s: %w", name, err)
			}
			if uid != "" && n.UID != uid {
				return &StaleError{Changed: []string{fmt.Sprintf("node %s was recreated: its uid is %s, it was %s", name, n.UID, uid)}}
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
