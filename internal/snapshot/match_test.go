package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

func TestWhichComponentAMirrorPodIsOf(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"by its name":                         {mirrorPod(component.KCM, "a"), component.KCM},
		"a cloud's name before the manager's": {mirrorPod("aws-cloud-controller-manager", "a"), component.CCM},
		"by its program, whatever its name":   {mirrorPod("cm", "a", "/usr/local/bin/kube-controller-manager", "--v=2"), component.KCM},
		"by the program that a shell starts":  {mirrorPod("cm", "a", "/bin/sh", "-c", "exec kube-apiserver --v=2"), component.KAS},
		"something else":                      {mirrorPod("kube-apiserver-healthcheck", "a", "/healthcheck"), ""},
		"a watcher of the control plane":      {mirrorPod("watch", "a", "/watch", "kube-apiserver"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, c := range collect.ComponentNames {
				if workloads.IsPodOf(tc.pod, c) {
					got += c
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
