package object

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/drain"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// initializeNode lets the cloud-controller-manager initialise a node that has no provider id: it sets that of a node
// with the taint only. With Restore it removes a taint that no manager acted upon; a provider id cannot be removed, the
// API server refuses to change one.
type initializeNode struct{ env *step.Env }

// taintRecord is what the record of such a step keeps in Before. A kubelet gives its new node the same taint without a
// time. So a taint is this migration's when node and time are those of the record, and never because a record says
// Created.
type taintRecord struct {
	UID        types.UID   `json:"uid"`
	TaintAdded metav1.Time `json:"taintAdded,omitzero"`
}

func readTaintRecord(rec v1.StepRecord) (out taintRecord) {
	if err := json.Unmarshal([]byte(rec.Before), &out); err != nil {
		return taintRecord{}
	}
	return out
}

// isOn reports whether a taint of a node is the one that was recorded.
func (r taintRecord) isOn(n *corev1.Node, t corev1.Taint) bool {
	return IsUninitialized(t) && r.UID == n.UID && t.TimeAdded != nil && !r.TaintAdded.IsZero() &&
		t.TimeAdded.Equal(&r.TaintAdded)
}

func (r taintRecord) isOnNode(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return r.isOn(n, t) })
}

func (x initializeNode) Done(ctx context.Context, s v1.Step) (bool, error) {
	if s.Restore != "" {
		return x.isTakenBack(ctx, s)
	}
	n, err := x.node(ctx, s)
	switch {
	case err != nil:
		return false, err
	case Uninitialized(n):
		return false, step.PendingError(
			fmt.Sprintf(
				"node %s still has the taint %s: the cloud-controller-manager has not initialised it",
				n.Name,
				api.TaintExternalCloudProvider,
			),
		)
	case n.Spec.ProviderID == "":
		return false, step.PendingError(fmt.Sprintf("node %s has no provider id", n.Name))
	}
	return true, nil
}

// isTakenBack reports whether nothing of this migration is left on the node, and the caller was told of another taint.
func (x initializeNode) isTakenBack(ctx context.Context, s v1.Step) (bool, error) {
	there := x.env.Journal.Record(s.Restore)
	if !there.Created {
		return true, nil
	}
	n, err := x.node(ctx, s)
	if apierrors.IsNotFound(err) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	if readTaintRecord(there).isOnNode(n) || Uninitialized(n) && len(x.env.Journal.Record(s.ID).Notes) == 0 {
		return false, step.Pending("node %s still has the taint %s", n.Name, api.TaintExternalCloudProvider)
	}
	return true, nil
}

func (x initializeNode) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	n, err := x.node(ctx, s)
	if err != nil {
		return err
	}
	if s.Restore != "" {
		return x.takeBack(ctx, s, rec, n)
	}
	ours := readTaintRecord(*rec)
	if rec.Created && rec.Before != "" && ours.UID != n.UID && n.Spec.ProviderID == "" {
		return step.NewStale("node %s was recreated while it was being initialised", n.Name)
	}
	if !rec.Created || ours.TaintAdded.IsZero() {
		ours = taintRecord{UID: n.UID, TaintAdded: metav1.NewTime(x.env.Clock.Now().UTC().Truncate(time.Second))}
		before, err := json.Marshal(ours)
		if err != nil {
			return fmt.Errorf("the record of node %s: %w", n.Name, err)
		}
		rec.Created, rec.Before = rec.Created || !Uninitialized(n), string(before)
	}
	if err := x.env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.env.Hook("during", s.ID)
	return drain.ChangeNode(ctx, x.env, n.Name, n.UID, func(n *corev1.Node) bool {
		if Uninitialized(n) || n.Spec.ProviderID != "" {
			return false // it was initialised since we looked, or by an earlier try
		}
		taint := corev1.Taint{
			Key:       api.TaintExternalCloudProvider,
			Value:     "true",
			Effect:    corev1.TaintEffectNoSchedule,
			TimeAdded: &ours.TaintAdded,
		}
		n.Spec.Taints = append(n.Spec.Taints, taint)
		return true
	})
}

// takeBack takes the taint that the record of the step there names. Another one may be a kubelet's, whose node nothing
// has initialised: that is for a person to decide.
func (x initializeNode) takeBack(ctx context.Context, s v1.Step, rec *v1.StepRecord, n *corev1.Node) error {
	ours := readTaintRecord(x.env.Journal.Record(s.Restore))
	if !ours.isOnNode(n) && Uninitialized(n) {
		x.env.Note(
			s,
			rec,
			fmt.Sprintf(
				"node %s keeps the taint %s: the journal does not show that this migration gave it, and a new node has it from its kubelet; "+
					"when the node is in use, take it with: kubectl taint node %s %s:%s-",
				n.Name,
				api.TaintExternalCloudProvider,
				n.Name,
				api.TaintExternalCloudProvider,
				corev1.TaintEffectNoSchedule,
			),
		)
	}
	if err := x.env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.env.Hook("during", s.ID)
	return drain.ChangeNode(ctx, x.env, n.Name, n.UID, func(n *corev1.Node) bool {
		before := len(n.Spec.Taints)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return ours.isOn(n, t) })
		return len(n.Spec.Taints) != before
	})
}

func (x initializeNode) node(ctx context.Context, s v1.Step) (*corev1.Node, error) {
	name := strings.TrimPrefix(s.Ref, "Node/")
	n, err := x.env.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return n, nil
}

// Uninitialized reports whether a node waits for a cloud-controller-manager.
func Uninitialized(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, IsUninitialized) }

// IsUninitialized reports whether a taint says that a node waits for a cloud-controller-manager.
func IsUninitialized(t corev1.Taint) bool { return t.Key == api.TaintExternalCloudProvider }
