package workloads

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/component"
)

// TestAMirrorPodIsOfNoControlPlaneInASeed: a kubelet of the seed makes such pods in any namespace, with any command.
func TestAMirrorPodIsOfNoControlPlaneInASeed(t *testing.T) {
	pod := func(annotations map[string]string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: annotations},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: component.KCM, Command: []string{component.KCM}}}},
		}
	}
	mirror := pod(map[string]string{corev1.MirrorPodAnnotationKey: "sum"})
	if got := SeedPods([]corev1.Pod{pod(nil), mirror}, component.KCM); len(got) != 1 {
		t.Errorf("%d pods of %s", len(got), component.KCM)
	}
}
