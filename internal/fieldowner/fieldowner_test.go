package fieldowner

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheLastWriteOfAField(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	entry := func(manager string, after time.Duration, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(made.Add(after))
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const command, label = `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:command":{}}}}}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	path := []string{"f:spec", "f:containers", `k:{"name":"a"}`, "f:command"}
	noTime := entry("undated", time.Hour, command)
	noTime.Time = nil
	for _, tc := range []struct {
		name    string
		managed []metav1.ManagedFieldsEntry
		want    string
	}{
		{"none", nil, ""},
		{"the newest of two", []metav1.ManagedFieldsEntry{entry("kubectl-edit", 3*time.Minute, command), entry("helm", time.Minute, command)}, "kubectl-edit"},
		{"a newer write of another field", []metav1.ManagedFieldsEntry{entry("helm", time.Minute, command), entry("kubectl-label", time.Hour, label)}, "helm"},
		{"only writes from before", []metav1.ManagedFieldsEntry{entry("kubeadm", -time.Hour, command), entry("helm", 0, command)}, ""},
		{"our own write", []metav1.ManagedFieldsEntry{entry(Ours, time.Hour, command), entry("helm", time.Minute, command)}, "helm"},
		{"one without a time", []metav1.ManagedFieldsEntry{noTime}, ""},
		{"one without fields", []metav1.ManagedFieldsEntry{{Manager: "x", Time: entry("x", time.Hour, "").Time}}, ""},
		{"what is no JSON", []metav1.ManagedFieldsEntry{entry("x", time.Hour, `{"f:spec":[`)}, ""},
	} {
		got, known := LastWrite(WithoutOurs(tc.managed), made, []string{"f:other"}, path)
		if got.Manager != tc.want || known != (tc.want != "") {
			t.Errorf("%s: %+v, %v; want %q", tc.name, got, known, tc.want)
		}
	}
}
