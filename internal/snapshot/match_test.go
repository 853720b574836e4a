package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWhichComponentAMirrorPodIsOf(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"by its name":                         {mirrorPod(kcm, "a"), kcm},
		"a cloud's name before the manager's": {mirrorPod("aws-cloud-controller-manager", "a"), ccm},
		"by its program, whatever its name":   {mirrorPod("cm", "a", "/usr/local/bin/kube-controller-manager", "--v=2"), kcm},
		"by the program that a shell starts":  {mirrorPod("cm", "a", "/bin/sh", "-c", "exec kube-apiserver --v=2"), kas},
		"something else":                      {mirrorPod("kube-apiserver-healthcheck", "a", "/healthcheck"), ""},
		"a watcher of the control plane":      {mirrorPod("watch", "a", "/watch", "kube-apiserver"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, c := range components {
				if isPodOf(tc.pod, c) {
					got += c
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
