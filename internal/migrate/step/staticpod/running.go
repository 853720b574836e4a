package staticpod

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
)

// IsRunning reports whether what the manifest says is what runs. There must be exactly one process with its flags, and
// a mirror pod that shows this command and is Ready. The mirror pod alone would be wrong. A kubelet was measured to
// show the old pod as Running and Ready for 10 to 12 s after an edit. The process alone would too: one that starts and
// dies of an unknown flag runs for a second.
func IsRunning(ctx context.Context, e *step.Env, s v1.Step, manifest []byte) (bool, error) {
	m, err := controlplane.Parse(manifest)
	if err != nil {
		return false, fmt.Errorf("manifest %s on host %s: %w", s.Path, s.Host, err)
	}
	h, err := e.Host(s.Host)
	if err != nil {
		return false, err
	}
	procs, err := h.Processes(ctx, s.Component)
	if err != nil {
		return false, err
	}
	if len(procs) != 1 || !SameFlags(m.Flags(), commandline.FlagsOf(procs[0].Args)) {
		return false, notPulled(ctx, e, s, m)
	}
	pod, err := MirrorPod(ctx, e, s, m)
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading mirror pod %s-%s: %w", m.Name(), e.NodeNames[s.Host], err)
	}
	if err := ofVersion(ctx, e, s, m, pod); err != nil {
		return false, err
	}
	return HasCommand(pod, m.Command()) && object.IsReady(pod), nil
}

// MirrorPod reads the mirror pod of a manifest on a step's host. One that the kubelet of another node has made under
// its name counts as not found.
func MirrorPod(ctx context.Context, e *step.Env, s v1.Step, m *controlplane.Manifest) (*corev1.Pod, error) {
	node := e.NodeNames[s.Host]
	name := m.Name() + "-" + node
	pod, err := e.Kube.CoreV1().Pods(m.Namespace()).Get(ctx, name, metav1.GetOptions{})
	if err == nil && pod.Spec.NodeName != node {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	return pod, err
}

// SameFlags compares what a manifest says with a command line. A runner that maps a container's mounts to other places
// on the host shows longer paths. They end in what the manifest says.
func SameFlags(want, have map[string]string) bool {
	if len(want) != len(have) {
		return false
	}
	for k, v := range want {
		h, ok := have[k]
		if !ok || h != v && !SamePaths(v, h) {
			return false
		}
	}
	return true
}

// SamePaths reports whether two values name the same paths.
func SamePaths(want, have string) bool {
	if !strings.HasPrefix(want, "/") {
		return false
	}
	w, h := strings.Split(want, ","), strings.Split(have, ",")
	if len(w) != len(h) {
		return false
	}
	for i := range w {
		if !strings.HasSuffix(h[i], w[i]) {
			return false
		}
	}
	return true
}

// HasCommand reports whether a mirror pod shows a command line.
func HasCommand(pod *corev1.Pod, command []string) bool {
	for _, c := range pod.Spec.Containers {
		if strings.Join(append(append([]string(nil), c.Command...), c.Args...), "\n") == strings.Join(command, "\n") {
			return true
		}
	}
	return false
}
