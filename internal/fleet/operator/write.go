package operator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/view"
)

// fieldManager names this program in what it writes.
const fieldManager = "transplant-operator"

// write writes the conditions that changed. It tells whether there were any. What is told of a transition is bound to the version that the decision was made
// from: another operator may have written and told the same since, which the cache of one that has just begun to lead does not show yet.
func (op *Operator) write(ctx context.Context, o view.Object, d state.Decision) (bool, error) {
	change := objects.Of(o.Group, o.Cluster)
	if len(d.Events) == 0 {
		change.Unconditional() // nobody else writes these conditions
	}
	for _, t := range state.Owned() {
		was, had := o.Cluster.Status.Conditions[t]
		is, has := d.Conditions[t]
		switch {
		case has && (!had || !equality.Semantic.DeepEqual(was, is)):
			change.Condition(t, is)
		case had && !has:
			change.Status(nil, "conditions", string(t))
		}
	}
	if change.Empty() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, op.WriteTimeout)
	defer cancel()
	now, err := change.Apply(ctx, op.Dynamic, fieldManager)
	if apierrors.IsNotFound(err) {
		now, err = op.writeWhole(ctx, o, change)
	}
	if apierrors.IsNotFound(err) { // it was deleted, which the cache will tell
		return false, nil
	}
	if objects.IsStale(err) {
		return false, errBehind
	}
	if err != nil {
		return false, fmt.Errorf("writing conditions: %w", err)
	}
	op.Metrics.wrote()
	op.memory.of(o.Cluster.Name, "", func(r *dossier) { r.written.wrote(o.Group, o.Cluster.ResourceVersion, now) })
	return true, nil
}

// errBehind says that the cache is behind the object: what was decided may be old.
var errBehind = errors.New("the cluster has changed since it was read")

// writeWhole writes the conditions through the object: old CRDs of the original have no subresource for the status.
func (op *Operator) writeWhole(ctx context.Context, o view.Object, change *objects.Change) (*kubermaticv1.Cluster, error) {
	patch, err := change.StatusPatch()
	if err != nil {
		return nil, err
	}
	u, err := op.Dynamic.Resource(objects.Resource(o.Group)).Patch(ctx, o.Cluster.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, err
	}
	return objects.Decode(u)
}

// tell records events about a Cluster.
func (op *Operator) tell(o view.Object, events []state.Event) {
	for _, e := range events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		op.Recorder.Event(reference(o.Group, o.Cluster), kind, e.Reason, e.Note)
		op.Log.Info("A cluster has changed", "cluster", o.Cluster.Name, "reason", e.Reason, "note", e.Note)
	}
}

// reference names a Cluster in events: what was decoded does not know its group.
func reference(group string, c *kubermaticv1.Cluster) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: objects.Resource(group).GroupVersion().String(), Kind: "Cluster", Name: c.Name, UID: c.UID}
}
