package workloads

import (
	"cmp"
	"net"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// TrialPod is the pod that tries a manager before the one that it follows is stopped. It runs no loop: its program ends
// when it has said its version.
const TrialPod = "transplant-trial-" + component.CCM

// SeedPods finds the pods that run one of the components, sorted by component and name. It leaves out those that
// HasEnded, mirror pods, and the one that tries a manager.
func SeedPods(pods []corev1.Pod, components ...string) []collect.SeedPod {
	var out []collect.SeedPod
	for i := range pods {
		p := &pods[i]
		if p.Name == TrialPod || HasEnded(p) || IsMirror(p) {
			continue
		}
		for at := range p.Spec.Containers {
			c := &p.Spec.Containers[at]
			if name := SeedComponent(c); slices.Contains(components, name) {
				out = append(out, seedPod(p, c, name))
				break
			}
		}
	}
	slices.SortFunc(
		out,
		func(a, b collect.SeedPod) int { return strings.Compare(a.Component+"@"+a.Name, b.Component+"@"+b.Name) },
	)
	return out
}

// IsMirror reports whether a kubelet has made a pod, of its own node and with whatever labels and command. No workload
// has such pods.
func IsMirror(p *corev1.Pod) bool {
	_, is := p.Annotations[corev1.MirrorPodAnnotationKey]
	return is
}

// HasEnded reports whether a pod has succeeded or failed, and no container of it runs as far as its kubelet has said. A
// control plane that has lost a node calls the pods there failed while they may run.
func HasEnded(p *corev1.Pod) bool {
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return over &&
		!slices.ContainsFunc(
			p.Status.ContainerStatuses,
			func(s corev1.ContainerStatus) bool { return s.State.Running != nil },
		)
}

// SeedComponent is the component of the control plane that a container runs, whatever starts it; empty for another
// program. A provider's own manager is a cloud-controller-manager.
func SeedComponent(c *corev1.Container) string {
	command := commandline.Unwrapped(slices.Concat(c.Command, c.Args))
	for _, word := range command {
		if strings.HasPrefix(word, "-") {
			break
		}
		if name := componentNamed(path.Base(word)); name != "" {
			return name
		}
	}
	if len(c.Command) == 0 {
		return componentNamed(path.Base(repositoryOf(c.Image)))
	}
	return ""
}

func componentNamed(program string) string {
	if strings.HasSuffix(program, "-"+component.CCM) {
		return component.CCM
	}
	if slices.Contains(collect.ComponentNames, program) {
		return program
	}
	return ""
}

// FlagsOf returns the flags of a container's program.
func FlagsOf(c *corev1.Container) map[string]string {
	return commandline.FlagsOf(commandline.Unwrapped(slices.Concat(c.Command, c.Args)))
}

func seedPod(p *corev1.Pod, c *corev1.Container, name string) collect.SeedPod {
	out := collect.SeedPod{
		Component: name, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Image: c.Image,
		Workload: workloadOf(p), HostNetwork: p.Spec.HostNetwork,
	}
	out.Flags = FlagsOf(c)
	port := cmp.Or(out.Flags["secure-port"], component.DefaultPorts[name])
	if p.Status.PodIP != "" {
		out.Address = net.JoinHostPort(p.Status.PodIP, port)
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Name != c.Name {
			continue
		}
		out.Container, out.Restarts, out.Running = s.ContainerID, s.RestartCount, s.State.Running != nil
		if t := s.State.Terminated; t != nil {
			out.Container = t.ContainerID
			out.Ended = p.DeletionTimestamp != nil || p.Spec.RestartPolicy == corev1.RestartPolicyNever
		}
	}
	return out
}

// workloadOf is the Ref of the workload that a pod is of. A Deployment's pod belongs to a ReplicaSet, which has the
// Deployment's name and a hash.
func workloadOf(p *corev1.Pod) string {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return ""
	}
	if hash := p.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return "Deployment/" + p.Namespace + "/" + name
		}
	}
	return owner.Kind + "/" + p.Namespace + "/" + owner.Name
}

// HostPaths maps the mount paths of a container to paths of its host.
func HostPaths(spec *corev1.PodSpec, container int) map[string]string {
	volumes := map[string]string{}
	for _, v := range spec.Volumes {
		if v.HostPath != nil {
			volumes[v.Name] = v.HostPath.Path
		}
	}
	var out map[string]string
	for _, m := range spec.Containers[container].VolumeMounts {
		if path, ok := volumes[m.Name]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[m.MountPath] = path
		}
	}
	return out
}
