package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// A DaemonSet of managers mounts the leader migration config of its hosts. The file goes in the end, and no new pod would start with it.
func TestWhatAWorkloadMountsIsTakenAwayByTheNameOfItsVolume(t *testing.T) {
	const name = "transplant-leader-migration"
	for _, op := range []v1.EditOp{v1.EditRemoveHostPath, v1.EditUnmount} {
		container := map[string]any{"volumeMounts": []any{map[string]any{"name": name, "mountPath": "/x"}, map[string]any{"name": "kept", "mountPath": "/y"}}}
		o := &unstructured.Unstructured{Object: map[string]any{
			"kind": "DaemonSet",
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"containers": []any{container},
				"volumes":    []any{map[string]any{"name": name, "hostPath": map[string]any{"path": "/x"}}, map[string]any{"name": "kept"}},
			}}},
		}}
		edits := []v1.Edit{{Op: v1.EditUnsetFlag, Name: "enable-leader-migration"}, {Op: op, Name: name, Value: "/x"}}
		if flags := flagEdits(edits); len(flags) != 1 || flags[0].Name != "enable-leader-migration" {
			t.Errorf("%s: of flags, the edits are %v", op, flags)
		}
		if err := applyMounts(o, container, edits); err != nil {
			t.Fatal(err)
		}
		volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
		if diff := cmp.Diff([]any{map[string]any{"name": "kept"}}, volumes); diff != "" {
			t.Errorf("%s: volumes (-want +have):\n%s", op, diff)
		}
		if diff := cmp.Diff([]any{map[string]any{"name": "kept", "mountPath": "/y"}}, container["volumeMounts"]); diff != "" {
			t.Errorf("%s: mounts (-want +have):\n%s", op, diff)
		}
	}
}
