package machines

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Whatever the admins of a user cluster write into a machine, its set, its deployment and its node: nothing panics, the count stays whole, nothing is done
// that has not begun, and what may be restarted is there.
func FuzzAnyObjectsOfAUserClusterAreJudged(f *testing.F) {
	f.Add(
		`{"metadata":{"name":"m","uid":"m"},"status":{"nodeRef":{"name":"n","uid":"n"}}}`,
		`{"metadata":{"uid":"s"}}`,
		`{"metadata":{"name":"d","uid":"d"},"spec":{"replicas":1}}`,
		`{"f:spec":{"f:providerID":{}}}`,
		"kubelet",
		"kubernetes.io/aws-ebs",
		"1",
	)
	f.Add(
		`{"spec":{"providerID":7},"metadata":{"ownerReferences":[{"kind":"MachineSet","apiVersion":"cluster.k8s.io/v1alpha1","uid":"s"}]}}`,
		`{"spec":{"replicas":"many"},"metadata":{"annotations":{"x":"y"}}}`,
		`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"900%","maxUnavailable":-1}},"replicas":9223372036854775807}}`,
		`{"f:spec":[]}`,
		"aws-cloud-controller-manager",
		",,",
		"0%",
	)
	f.Add(`null`, `{}`, `{"metadata":{"creationTimestamp":"not a time"}}`, `{`, "", "", "%")
	f.Fuzz(func(t *testing.T, machine, set, deployment, fields, manager, plugins, budget string) {
		object := func(text string) *unstructured.Unstructured {
			var o map[string]any
			if json.Unmarshal([]byte(text), &o) != nil || o == nil {
				o = map[string]any{}
			}
			return &unstructured.Unstructured{Object: normal(o)}
		}
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:              "n",
				UID:               types.UID("n"),
				Labels:            map[string]string{ownedBy: "m"},
				CreationTimestamp: metav1.NewTime(now),
				ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}},
			},
		}
		node := NodeOf(n)
		csi := csiNodeOf(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{migratedPlugins: plugins}}})
		node.Drivers, node.Plugins = csi.drivers, csi.plugins
		since := now.Add(-time.Hour)
		facts := Facts{
			Time:        now,
			Machines:    []Machine{machineOf(object(machine))},
			Sets:        []MachineSet{setOf(object(set))},
			Deployments: []Deployment{DeploymentOf(object(deployment))},
			Nodes:       []Node{node},
			CCMReady:    true,
			Record:      Record{ExternalSince: &since},
		}
		o := Observe(facts)
		if o.Total != o.Done+o.Waiting || o.Total != len(o.Machines) || o.Complete && o.Waiting > 0 {
			t.Fatalf("%d machines, %d done, %d waiting, complete %t: %+v", o.Total, o.Done, o.Waiting, o.Complete, o.Machines)
		}
		if len(o.Message()) > 1<<16 {
			t.Errorf("a message of %d bytes", len(o.Message()))
		}
		s := Next(facts, o, Policy{Wanted: true, MaxUnavailable: budget})
		if s.Restart != nil && (s.Value == "" || s.Restart.Deleting) {
			t.Errorf("the restart of %+v by %q", s.Restart, s.Value)
		}
	})
}

// normal gives numbers the type that they have in what an API server sends.
func normal(in map[string]any) map[string]any {
	for k, v := range in {
		in[k] = number64(v)
	}
	return in
}

func number64(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		return normal(v)
	case []any:
		for i := range v {
			v[i] = number64(v[i])
		}
	}
	return v
}
