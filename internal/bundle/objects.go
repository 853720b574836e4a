package bundle

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/pages"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
	"github.com/transplant-dev/transplant/internal/status"
)

// Bounds of lists: of a cluster that is larger, or that is made to look so, the rest is counted.
const (
	maxEvents  = 2000
	maxPods    = 200
	maxLeases  = 500
	maxNodes   = 10_000
	maxMessage = 4 << 10
)

// Pods are those pods of a namespace that run kube-apiserver or a manager, by name.
func Pods(ctx context.Context, kube kubernetes.Interface, namespace string) (pods []corev1.Pod, left int, err error) {
	list := func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
		return kube.CoreV1().Pods(namespace).List(ctx, o)
	}
	err = pages.Each(ctx, list, func(o kruntime.Object) error {
		p, ok := o.(*corev1.Pod)
		if !ok || componentOf(p) == "" {
			return nil
		}
		if len(pods) == maxPods {
			left++
			return nil
		}
		pods = append(pods, *p)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, left, nil
}

// componentOf is which of the components a pod runs; empty for none.
func componentOf(p *corev1.Pod) string {
	for i := range p.Spec.Containers {
		if name := workloads.SeedComponent(&p.Spec.Containers[i]); slices.Contains(components, name) {
			return name
		}
	}
	return ""
}

// DescribePods are the statuses of pods.
func DescribePods(pods []corev1.Pod, left int) v1.BundlePods {
	out := v1.BundlePods{TypeMeta: v1.Type(v1.KindBundlePods), Left: left, Pods: []v1.BundlePod{}}
	for i := range pods {
		out.Pods = append(out.Pods, describePod(&pods[i]))
	}
	slices.SortStableFunc(out.Pods, func(a, b v1.BundlePod) int { return strings.Compare(a.Component, b.Component) })
	return out
}

func describePod(p *corev1.Pod) v1.BundlePod {
	out := v1.BundlePod{
		Component: componentOf(p),
		Namespace: p.Namespace,
		Name:      p.Name,
		Node:      p.Spec.NodeName,
		Phase:     string(p.Status.Phase),
		Reason:    p.Status.Reason,
		Message:   mask.Cut(p.Status.Message, maxMessage),
		Started:   timeOf(p.Status.StartTime),
		Deleted:   timeOf(p.DeletionTimestamp),
	}
	for _, address := range []string{p.Status.PodIP, p.Status.HostIP} {
		if address != "" {
			out.Addresses = append(out.Addresses, address)
		}
	}
	for _, c := range p.Status.Conditions {
		out.Conditions = append(out.Conditions, sentence(string(c.Type)+"="+string(c.Status), c.Reason, c.Message))
	}
	for _, s := range p.Status.ContainerStatuses {
		out.Containers = append(out.Containers, v1.BundleContainer{
			Name:     s.Name,
			Image:    s.Image,
			ImageID:  s.ImageID,
			Ready:    s.Ready,
			Restarts: s.RestartCount,
			State:    stateOf(s.State),
			Before:   stateOf(s.LastTerminationState),
		})
	}
	return out
}

// stateOf is the state of a container in words; empty where none is known.
func stateOf(s corev1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		return sentence("waiting", s.Waiting.Reason, s.Waiting.Message)
	case s.Running != nil:
		return "running since " + s.Running.StartedAt.UTC().Format(time.RFC3339)
	case s.Terminated != nil:
		ended := fmt.Sprintf(
			"ended with %d at %s",
			s.Terminated.ExitCode,
			s.Terminated.FinishedAt.UTC().Format(time.RFC3339),
		)
		return sentence(ended, s.Terminated.Reason, s.Terminated.Message)
	}
	return ""
}

// sentence joins what is known of a state.
func sentence(parts ...string) string {
	kept := slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return mask.Cut(strings.Join(kept, ": "), maxMessage)
}

func timeOf(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return ptr.To(t.UTC())
}

// Events are the newest events of a namespace, the oldest first; of objects of one kind if a kind is named.
func (b *Bundle) Events(
	ctx context.Context,
	kube kubernetes.Interface,
	namespace, kind string,
) (v1.BundleEvents, error) {
	out := v1.BundleEvents{TypeMeta: v1.Type(v1.KindBundleEvents), Events: []v1.BundleEvent{}}
	list := func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
		if kind != "" {
			o.FieldSelector = "involvedObject.kind=" + kind
		}
		return kube.CoreV1().Events(namespace).List(ctx, o)
	}
	err := pages.Each(ctx, list, func(o kruntime.Object) error {
		e, ok := o.(*corev1.Event)
		if !ok || kind != "" && e.InvolvedObject.Kind != kind || status.EventTime(e).Before(b.options.Since) {
			return nil
		}
		out.Events = append(out.Events, v1.BundleEvent{
			Time:    status.EventTime(e).UTC(),
			Count:   e.Count,
			Type:    e.Type,
			Reason:  e.Reason,
			Object:  status.ObjectName(e),
			From:    cmp.Or(e.ReportingController, e.Source.Component),
			Message: mask.Cut(e.Message, maxMessage),
		})
		if len(out.Events) == 2*maxEvents {
			keepNewest(&out)
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("listing the events of namespace %s: %w", namespace, err)
	}
	keepNewest(&out)
	return out, nil
}

// keepNewest sorts events by time, and leaves out the oldest beyond the bound.
func keepNewest(of *v1.BundleEvents) {
	slices.SortStableFunc(of.Events, func(a, b v1.BundleEvent) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Object, b.Object))
	})
	if over := len(of.Events) - maxEvents; over > 0 {
		of.Events, of.Left = slices.Clone(of.Events[over:]), of.Left+over
	}
}

// Leases are the Leases of a namespace, by name.
func Leases(ctx context.Context, kube kubernetes.Interface, namespace string) (v1.BundleLeases, error) {
	out := v1.BundleLeases{TypeMeta: v1.Type(v1.KindBundleLeases), Leases: []v1.BundleLease{}}
	list := func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
		return kube.CoordinationV1().Leases(namespace).List(ctx, o)
	}
	err := pages.Each(ctx, list, func(o kruntime.Object) error {
		l, ok := o.(*coordinationv1.Lease)
		if !ok || len(out.Leases) == maxLeases {
			return nil
		}
		out.Leases = append(out.Leases, v1.BundleLease{
			Name:            l.Name,
			Holder:          mask.Cut(ptr.Deref(l.Spec.HolderIdentity, ""), maxMessage),
			Acquired:        microTimeOf(l.Spec.AcquireTime),
			Renewed:         microTimeOf(l.Spec.RenewTime),
			DurationSeconds: ptr.Deref(l.Spec.LeaseDurationSeconds, 0),
			Transitions:     ptr.Deref(l.Spec.LeaseTransitions, 0),
		})
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("listing the Leases of namespace %s: %w", namespace, err)
	}
	slices.SortFunc(out.Leases, func(a, b v1.BundleLease) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func microTimeOf(t *metav1.MicroTime) *time.Time {
	if t == nil {
		return nil
	}
	return ptr.To(t.UTC())
}

// Versions are those of this program, of the API servers and of the nodes. A seed is nil where there is none.
func Versions(ctx context.Context, tool string, kube, seed kubernetes.Interface) (v1.BundleVersions, error) {
	out := v1.BundleVersions{
		TypeMeta:   v1.Type(v1.KindBundleVersions),
		Transplant: tool,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version(),
	}
	server, err := kube.Discovery().ServerVersion()
	if err != nil {
		return out, fmt.Errorf("asking the API server for its version: %w", err)
	}
	out.Server = server.GitVersion
	if seed != nil {
		if server, err = seed.Discovery().ServerVersion(); err != nil {
			return out, fmt.Errorf("asking the seed's API server for its version: %w", err)
		}
		out.Seed = server.GitVersion
	}
	list := func(ctx context.Context, o metav1.ListOptions) (kruntime.Object, error) {
		return kube.CoreV1().Nodes().List(ctx, o)
	}
	err = pages.Each(ctx, list, func(o kruntime.Object) error {
		n, ok := o.(*corev1.Node)
		if !ok {
			return nil
		}
		if len(out.Nodes) == maxNodes {
			out.Left++
			return nil
		}
		about := n.Status.NodeInfo
		kept := v1.BundleNode{
			Name: n.Name, Kubelet: about.KubeletVersion, Runtime: about.ContainerRuntimeVersion, OS: about.OSImage,
			Kernel: about.KernelVersion,
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				kept.Ready = string(c.Status)
			}
		}
		out.Nodes = append(out.Nodes, kept)
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("listing the Nodes: %w", err)
	}
	slices.SortFunc(out.Nodes, func(a, b v1.BundleNode) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
