package staticpod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// TestAMirrorPodOfAnotherNodeIsNone: the kubelet of a worker may make mirror pods of its own node under any name, and
// one that looks Ready would let a step pass whose manager does not run.
func TestAMirrorPodOfAnotherNodeIsNone(t *testing.T) {
	m, err := controlplane.Parse([]byte("apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-controller-manager\n  namespace: kube-system\n" +
		"spec:\n  containers:\n  - name: kube-controller-manager\n    image: registry.k8s.io/kube-controller-manager:v1.26.0\n    command: [kube-controller-manager]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for node, found := range map[string]bool{"node-cp-1": true, "worker-7": false, "": false} {
		e := &step.Env{Options: step.Options{
			NodeNames: map[string]string{"cp-1": "node-cp-1"},
			Kube: fake.NewClientset(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager-node-cp-1"},
				Spec:       corev1.PodSpec{NodeName: node},
			}),
		}}
		pod, err := MirrorPod(t.Context(), e, v1.Step{Host: "cp-1"}, m)
		if found != (err == nil && pod.Spec.NodeName == node) || !found && !apierrors.IsNotFound(err) {
			t.Errorf("on node %q: %v", node, err)
		}
	}
}
