package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// A control plane that has lost a node calls the pods there failed, and does not touch what the kubelet has said of their containers.
func TestAPodThatWasCalledFailedMayRun(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	terminated := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "c"}}
	for name, c := range map[string]struct {
		phase  corev1.PodPhase
		states []corev1.ContainerState
		ended  bool
	}{
		"it runs":                                      {corev1.PodRunning, []corev1.ContainerState{running}, false},
		"it runs no container at the moment":           {corev1.PodRunning, []corev1.ContainerState{terminated}, false},
		"it failed, as its kubelet says":               {corev1.PodFailed, []corev1.ContainerState{terminated}, true},
		"it succeeded, as its kubelet says":            {corev1.PodSucceeded, []corev1.ContainerState{terminated}, true},
		"it failed before a container was started":     {corev1.PodFailed, nil, true},
		"it is called failed, and its kubelet is away": {corev1.PodFailed, []corev1.ContainerState{running}, false},
	} {
		p := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "m", Command: []string{component.KCM}}}}, Status: corev1.PodStatus{Phase: c.phase}}
		for _, s := range c.states {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "m", ContainerID: "c", State: s})
		}
		if workloads.HasEnded(&p) != c.ended || (len(workloads.SeedPods([]corev1.Pod{p}, component.KCM)) == 0) != c.ended {
			t.Errorf("%s: HasEnded says %v", name, workloads.HasEnded(&p))
		}
	}
}
