package gce

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	upstream "k8s.io/cloud-provider-gcp/providers/gce"

	"github.com/transplant-dev/transplant/provider/transport"
)

func TestTheClustersIDIsMadeOnce(t *testing.T) {
	made := map[string]string{upstream.UIDCluster: "new", upstream.UIDProvider: "new"}
	old := map[string]string{upstream.UIDCluster: "old", upstream.UIDProvider: "old"}
	for name, tt := range map[string]struct {
		have, want map[string]string
		isThere    bool
	}{
		"there is none":                    {nil, made, false},
		"it was installed without an ID":   {nil, made, true},
		"another key is in it":             {map[string]string{"other": "x"}, map[string]string{"other": "x", upstream.UIDCluster: "new", upstream.UIDProvider: "new"}, true},
		"the in-tree manager has made one": {old, old, true},
	} {
		t.Run(name, func(t *testing.T) {
			var before []runtime.Object
			if tt.isThere {
				before = append(before, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: upstream.UIDNamespace, Name: upstream.UIDConfigMapName}, Data: maps.Clone(tt.have),
				})
			}
			kube := fake.NewClientset(before...)
			ids := &configMaps{kube.CoreV1().ConfigMaps(upstream.UIDNamespace), &lane{bound: &transport.Binding{}}}
			wanted := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: upstream.UIDNamespace, Name: upstream.UIDConfigMapName}, Data: maps.Clone(made),
			}
			if _, err := ids.Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			kept, err := kube.CoreV1().ConfigMaps(upstream.UIDNamespace).Get(t.Context(), upstream.UIDConfigMapName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(kept.Data, tt.want) || !maps.Equal(wanted.Data, tt.want) {
				t.Errorf("the ConfigMap has %v and upstream goes on with %v, want %v", kept.Data, wanted.Data, tt.want)
			}
		})
	}
}
