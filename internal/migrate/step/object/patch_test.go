package object

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Who wrote a field that the patch leaves alone is not named.
func TestWhoChangedTheFieldsOfAPatch(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	wrote := func(manager string, after time.Duration, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(started.Add(after))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{
		wrote("argocd", time.Minute, `{"f:spec":{"f:featureGates":{"f:CSIMigration":{}}}}`),
		wrote("kubectl-label", time.Hour, `{"f:metadata":{"f:labels":{"f:a":{}}}}`),
	})
	patch := map[string]any{"spec": map[string]any{"featureGates": map[string]any{"CSIMigration": true}, "empty": map[string]any{}}}
	s := v1.Step{ID: "volumes/gates", Ref: "Cluster/x/y"}
	const says = "the plan is stale: Cluster/x/y was changed outside this migration since step volumes/gates was started"
	if err := changedSince(o, s, started, patch, "since step volumes/gates was started"); err.Error() != says+", last written by argocd at 2026-11-30 12:01 UTC" {
		t.Error(err)
	}
	if err := changedSince(o, s, started.Add(2*time.Minute), patch, "since step volumes/gates was started"); err.Error() != says {
		t.Error(err)
	}
}
