package staticpod

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/visible"
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
	if why := ProcessProblem(s, procs, m.Flags()); why != "" {
		return false, step.PendingError(why)
	}
	pod, err := MirrorPod(ctx, e, s, m)
	if apierrors.IsNotFound(err) {
		return false, step.Pending(
			"mirror pod %s/%s-%s is not there: its kubelet has not published it",
			m.Namespace(),
			m.Name(),
			e.NodeNames[s.Host],
		)
	} else if err != nil {
		return false, fmt.Errorf("reading mirror pod %s-%s: %w", m.Name(), e.NodeNames[s.Host], err)
	}
	if err := ofVersion(ctx, e, s, m, pod); err != nil {
		return false, err
	}
	switch {
	case !HasCommand(pod, m.Command()):
		return false, step.Pending(
			"mirror pod %s/%s shows another command than manifest %s on host %s",
			pod.Namespace,
			pod.Name,
			s.Path,
			s.Host,
		)
	case !object.IsReady(pod):
		return false, step.Pending("mirror pod %s/%s is not Ready", pod.Namespace, pod.Name)
	}
	return true, nil
}

// ProcessProblem says why the processes of a component are not the one that its manifest or its unit starts. It is
// empty when there is one, with these flags.
func ProcessProblem(s v1.Step, procs []v1.Process, want map[string]string) string {
	switch len(procs) {
	case 0:
		return fmt.Sprintf("no process of %s runs on host %s", s.Component, s.Host)
	case 1:
	default:
		return fmt.Sprintf("%d processes of %s run on host %s, not one", len(procs), s.Component, s.Host)
	}
	have := commandline.FlagsOf(procs[0].Args)
	if SameFlags(want, have) {
		return ""
	}
	return fmt.Sprintf(
		"process %d of %s on host %s runs with other flags than wanted (%s)",
		procs[0].PID,
		s.Component,
		s.Host,
		english.FirstOf(3, differing(want, have)),
	)
}

// differing are the flags that two command lines do not have in common. Their values may be secrets.
func differing(want, have map[string]string) []string {
	var out []string
	for name := range want {
		if _, there := have[name]; !there {
			out = append(out, "no --"+visible.Cut(name, maxFlag))
		} else if !SameFlags(map[string]string{name: want[name]}, map[string]string{name: have[name]}) {
			out = append(out, "another --"+visible.Cut(name, maxFlag))
		}
	}
	for name := range have {
		if _, there := want[name]; !there {
			out = append(out, "still --"+visible.Cut(name, maxFlag))
		}
	}
	slices.Sort(out)
	return out
}

// maxFlag bounds the name of a flag in a sentence, in bytes: a process of a host may have any.
const maxFlag = 64

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
