package snapshot

import (
	"context"
	"net"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
)

// SeedPod is a pod of a seed in which a component of a hosted control plane runs.
type SeedPod struct {
	Component string
	Name, UID string
	// Address is IP:port where the component serves /metrics; empty while the pod has no address.
	Address string
	// Node of the seed on which it runs.
	Node string
	// Image and Flags of the component's container.
	Image string
	Flags map[string]string
	// Container is the id of the container's present or last life; empty before the first.
	Container string
	// Restarts of the container.
	Restarts int32
	// Running tells that the kubelet says that the container runs; Ended that it has terminated and is not started again.
	Running, Ended bool
	// Workload is the Ref of what the pod is of, as far as its owner says; HostNetwork says that it has no network of its own.
	Workload    string
	HostNetwork bool
}

// defaultPorts are where the components serve unless --secure-port says otherwise.
var defaultPorts = map[string]string{kas: "6443", kcm: "10257", ccm: "10258"}

// TrialPod is the pod that tries a manager before the one that it follows is stopped. It runs no loop: its program ends when it has said its version.
const TrialPod = "transplant-trial-" + ccm

// SeedPods finds the pods that run one of the components, sorted by component and name, without those that HasEnded and the one that tries a manager.
func SeedPods(pods []corev1.Pod, components ...string) []SeedPod {
	var out []SeedPod
	for i := range pods {
		p := &pods[i]
		if p.Name == TrialPod || HasEnded(p) {
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
	slices.SortFunc(out, func(a, b SeedPod) int { return strings.Compare(a.Component+"@"+a.Name, b.Component+"@"+b.Name) })
	return out
}

// HasEnded reports whether a pod has succeeded or failed, and no container of it runs as far as its kubelet has said. A control plane that has lost a
// node calls the pods there failed while they may run.
func HasEnded(p *corev1.Pod) bool {
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return over && !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

// PodCloudConfig describes the cloud config of a provider with which a component runs in a pod of a seed, from the ConfigMap or Secret that is mounted there; nil
// when it has none.
func PodCloudConfig(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, component, provider string) (*v1.CloudConfig, error) {
	for at := range pod.Spec.Containers {
		c := &pod.Spec.Containers[at]
		if SeedComponent(c) != component {
			continue
		}
		out := &v1.CloudConfig{Path: flagsOf(c)["cloud-config"], Provider: provider, UsedBy: []string{component}}
		if out.Path == "" {
			return nil, nil
		}
		data, err := Mounted(ctx, kube, pod.Namespace, &pod.Spec, c, out.Path)
		if err != nil {
			return nil, err
		}
		return out, describeConfig(out, data, false)
	}
	return nil, nil
}

// SeedComponent is the component of the control plane that a container runs, whatever starts it; empty for another program. A provider's own manager is a
// cloud-controller-manager.
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
	if strings.HasSuffix(program, "-"+ccm) {
		return ccm
	}
	if slices.Contains(components, program) {
		return program
	}
	return ""
}

func flagsOf(c *corev1.Container) map[string]string {
	return commandline.FlagsOf(commandline.Unwrapped(slices.Concat(c.Command, c.Args)))
}

func seedPod(p *corev1.Pod, c *corev1.Container, component string) SeedPod {
	out := SeedPod{
		Component: component, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Image: c.Image,
		Workload: workloadOf(p), HostNetwork: p.Spec.HostNetwork,
	}
	out.Flags = flagsOf(c)
	port := out.Flags["secure-port"]
	if port == "" {
		port = defaultPorts[component]
	}
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
