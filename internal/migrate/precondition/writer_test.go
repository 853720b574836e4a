package precondition

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/fieldowner"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// A stale plan says who changed what it relies on, and when, as far as the API server or the host says so.
func TestAStalePlanNamesWhoChangedIt(t *testing.T) {
	t.Parallel()
	planned := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	wrote := func(manager string, after time.Duration, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(planned.Add(after))
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const providerID, template = `{"f:spec":{"f:providerID":{}}}`, `{"f:spec":{"f:template":{"f:spec":{"f:hostNetwork":{}}}}}`
	at := func(after time.Duration) *time.Time { return ptr.To(planned.Add(after)) }
	node := func(managed ...metav1.ManagedFieldsEntry) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ManagedFields: managed}, Spec: corev1.NodeSpec{ProviderID: "aws:///i-2"}}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "etc", "cloud.conf")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, planned, planned.Add(5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	hosts, err := local.Open("local:cp-1=" + dir)
	if err != nil {
		t.Fatal(err)
	}
	const ofNode = `node worker-1 has provider id "aws:///i-2" by now, it had "aws:///i-1"`
	kcm := "Deployment/kube-system/" + component.KCM
	for _, tc := range []struct {
		name string
		node *corev1.Node
		of   *appsv1.Deployment
		fact v1.Fact
		want v1.ChangedFact
		text string
	}{
		{
			name: "the field's last writer since the plan was made",
			node: node(wrote("kubelet", -time.Hour, providerID), wrote("kubectl-edit", 3*time.Minute, providerID), wrote("kubectl-label", time.Hour, `{"f:metadata":{}}`)),
			fact: v1.Fact{ID: planstep.NodeFact("worker-1"), Value: "aws:///i-1"},
			want: v1.ChangedFact{Message: ofNode, Object: "Node/worker-1", ChangedBy: "kubectl-edit", ChangedAt: at(3 * time.Minute)},
			text: "the plan is stale: " + ofNode + ", last written by kubectl-edit at 2026-11-30 12:03 UTC",
		},
		{
			name: "no writer since then, but for this program",
			node: node(wrote("kubelet", -time.Hour, providerID), wrote(fieldowner.Ours, time.Minute, providerID)),
			fact: v1.Fact{ID: planstep.NodeFact("worker-1"), Value: "aws:///i-1"},
			want: v1.ChangedFact{Message: ofNode, Object: "Node/worker-1"},
			text: "the plan is stale: " + ofNode,
		},
		{
			name: "a name that would write into a terminal",
			node: node(wrote("x\x1b[2J", 3*time.Minute, providerID)),
			fact: v1.Fact{ID: planstep.NodeFact("worker-1"), Value: "aws:///i-1"},
			want: v1.ChangedFact{Message: ofNode, Object: "Node/worker-1", ChangedBy: `x\x1b[2J`, ChangedAt: at(3 * time.Minute)},
			text: "the plan is stale: " + ofNode + `, last written by x\x1b[2J at 2026-11-30 12:03 UTC`,
		},
		{
			name: "a pod template",
			of: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: component.Namespace, Name: component.KCM, ManagedFields: []metav1.ManagedFieldsEntry{wrote("helm", time.Minute, template)},
			}},
			fact: v1.Fact{ID: planstep.WorkloadFact(kcm), Value: "before"},
			want: v1.ChangedFact{
				Message: "the pod template of " + kcm + " was changed outside this migration", Object: kcm, ChangedBy: "helm", ChangedAt: at(time.Minute),
			},
			text: "the plan is stale: the pod template of " + kcm + " was changed outside this migration, last written by helm at 2026-11-30 12:01 UTC",
		},
		{
			name: "an object that is gone",
			fact: v1.Fact{ID: planstep.WorkloadFact(kcm), Value: "before"},
			want: v1.ChangedFact{Message: kcm + " is gone", Object: kcm},
			text: "the plan is stale: " + kcm + " is gone",
		},
		{
			name: "a file of a host",
			fact: v1.Fact{ID: "file:cp-1:/etc/cloud.conf", Value: step.Absent},
			want: v1.ChangedFact{
				Message: "/etc/cloud.conf on host cp-1 was changed outside this migration: its SHA-256 is 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, the plan saw no file",
				Host:    "cp-1", Path: "/etc/cloud.conf", ChangedAt: at(5 * time.Minute),
			},
			text: "the plan is stale: /etc/cloud.conf on host cp-1 was changed outside this migration: its SHA-256 is " +
				"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, the plan saw no file, last modified at 2026-11-30 12:05 UTC",
		},
		{
			name: "a file that is gone",
			fact: v1.Fact{ID: "file:cp-1:/etc/other.conf", Value: "before"},
			want: v1.ChangedFact{
				Message: "/etc/other.conf on host cp-1 was changed outside this migration: it is gone", Host: "cp-1", Path: "/etc/other.conf",
			},
			text: "the plan is stale: /etc/other.conf on host cp-1 was changed outside this migration: it is gone",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := apitest.New(t)
			if tc.node != nil {
				server.Put(t, tc.node)
			}
			if tc.of != nil {
				server.Put(t, tc.of)
			}
			kube, dynamic := server.Clients(t)
			p := &v1.Plan{Created: planned, Facts: []v1.Fact{tc.fact}}
			err := Preflight(t.Context(), step.Options{Kube: kube, Dynamic: dynamic, Hosts: hosts}, p)
			stale, is := errors.AsType[*step.StaleError](err)
			if !is {
				t.Fatalf("it is not stale: %v", err)
			}
			tc.want.Fact = tc.fact.ID
			if diff := cmp.Diff([]v1.ChangedFact{tc.want}, stale.Changed); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if stale.Error() != tc.text {
				t.Errorf("it says:\n%s\nwant:\n%s", stale, tc.text)
			}
		})
	}
}

// Another field of the same container may have been written by another client.
func TestWhoWroteTheCommandOfAContainer(t *testing.T) {
	t.Parallel()
	fields := commandFields("controller-manager")
	now := metav1.Now()
	entry := func(manager, field string) []metav1.ManagedFieldsEntry {
		raw := `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"controller-manager\"}":{".":{},"` + field + `":{}}}}}}}`
		return []metav1.ManagedFieldsEntry{{Manager: manager, Time: &now, FieldsV1: metav1.NewFieldsV1(raw)}}
	}
	for field, known := range map[string]bool{"f:command": true, "f:args": true, "f:image": false} {
		if last, is := fieldowner.LastWrite(entry("helm", field), time.Time{}, fields...); is != known || is && last.Manager != "helm" {
			t.Errorf("%s: %+v, %v", field, last, is)
		}
	}
}
