package object

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/drain"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/nodemanager"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/podreason"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// PodSpec returns the spec of the pods that a workload makes.
func PodSpec(o *unstructured.Unstructured) (map[string]any, error) {
	spec, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec")
	m, ok := spec.(map[string]any)
	if err != nil || !found || !ok {
		return nil, fmt.Errorf("%s %s/%s has no pod template", o.GetKind(), o.GetNamespace(), o.GetName())
	}
	return m, nil
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// Strings returns a list of strings in a container.
func Strings(c map[string]any, name string) []string {
	items, _ := c[name].([]any)
	var out []string
	for _, i := range items {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

// ReplicasOf returns how many pods a workload shall have.
func ReplicasOf(o *unstructured.Unstructured) int64 {
	n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil || !found {
		return 1 // the API's default
	}
	return n
}

// UnseenChange says that a workload's controller has not seen its last change; empty when it has.
func UnseenChange(o *unstructured.Unstructured) string {
	if o.GetGeneration() > statusCount(o, "observedGeneration") {
		return refOf(o) + ": its controller has not seen the change yet"
	}
	return ""
}

func refOf(o *unstructured.Unstructured) string {
	return o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
}

// statusCount is a number in a workload's status; -1 where it is none.
func statusCount(o *unstructured.Unstructured, name string) int64 {
	n, _, err := unstructured.NestedInt64(o.Object, "status", name)
	if err != nil {
		return -1
	}
	return n
}

// RolloutProblem says why a workload is not what its template says; empty when it is. Pods that are ending count: a
// manager that still ends may still write to the cloud.
func RolloutProblem(ctx context.Context, e *step.Env, o *unstructured.Unstructured) (string, error) {
	status := func(name string) int64 { return statusCount(o, name) }
	if why := UnseenChange(o); why != "" {
		return why, nil
	}
	ref := refOf(o)
	want, updated, ready := ReplicasOf(o), status("updatedReplicas"), status("readyReplicas")
	if o.GetKind() == "DaemonSet" {
		want, updated, ready = status("desiredNumberScheduled"), status("updatedNumberScheduled"), status("numberReady")
		switch {
		case o.GetName() == layout.NodeManager: // before the first machine joins, it has nothing to do
			if updated == want && ready < want {
				return nodeManagerProblem(ctx, e, o, ref)
			}
		case want == 0:
			return ref + " has no node to run on", nil
		}
	}
	if updated != want || ready != want {
		return fmt.Sprintf("%s: %d of %d pods are updated, %d ready", ref, updated, want, ready), nil
	}
	pods, err := PodsOf(ctx, e, o)
	if err != nil {
		return "", err
	}
	if int64(len(pods)) > want {
		return fmt.Sprintf("%s: %d of its pods still end", ref, int64(len(pods))-want), nil
	}
	return "", nil
}

// nodeManagerProblem says on which nodes a cloud-node-manager still has to come up. Nodes that are not Ready are left
// out: a machine that is switched off would hold up the whole migration. So are those that it does not serve, such as
// virtual ones and machines elsewhere, on which it may never become ready.
func nodeManagerProblem(ctx context.Context, e *step.Env, o *unstructured.Unstructured, ref string) (string, error) {
	pods, err := PodsOf(ctx, e, o)
	if err != nil {
		return "", err
	}
	nodes, err := e.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return "", fmt.Errorf("listing the nodes that %s runs on: %w", ref, err)
	}
	provider := ""
	if e.Plan != nil {
		provider = e.Plan.Cluster.Provider
	}
	isAwaited := map[string]bool{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		ready, _ := drain.ReadyStatus(n)
		isAwaited[n.Name] = ready == corev1.ConditionTrue && isServed(n, provider)
	}
	var missing []string
	for i := range pods {
		switch node := podreason.NodeOf(&pods[i]); {
		case IsReady(&pods[i]):
		case node == "":
			missing = append(missing, "a node that its pod was not bound to")
		case isAwaited[node]:
			missing = append(missing, node)
		}
	}
	if len(missing) == 0 {
		return "", nil
	}
	slices.Sort(missing)
	return fmt.Sprintf("%s: not ready on %s", ref, english.FirstOf(3, missing)), nil
}

// isServed reports whether a node is one that the provider's manager initialises. One without a providerID is still to
// be initialised.
func isServed(n *corev1.Node, provider string) bool {
	id := n.Spec.ProviderID
	isOfCloud := id == "" || provider == "" || strings.HasPrefix(id, provider+"://")
	return isOfCloud && !nodemanager.IsVirtual(n.Labels)
}

// WhyPods says why a pod of a workload does not run or is not Ready. Of several it is the first by name. It is empty
// where all are Ready or cannot be read.
func WhyPods(ctx context.Context, e *step.Env, o *unstructured.Unstructured) string {
	pods, err := PodsOf(ctx, e, o)
	if err != nil {
		return ""
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(waitRank(&a), waitRank(&b)), strings.Compare(a.Name, b.Name))
	})
	for i := range pods {
		if why := step.WhyPod(ctx, e, &pods[i]); why != "" {
			return why
		}
	}
	return ""
}

// waitRank puts pods that do not come up before those that end, which is what they shall do.
func waitRank(p *corev1.Pod) int {
	if p.DeletionTimestamp != nil {
		return 1
	}
	return 0
}

// PodsOf returns the pods of a workload.
func PodsOf(ctx context.Context, e *step.Env, o *unstructured.Unstructured) ([]corev1.Pod, error) {
	match, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	if err != nil || len(match) == 0 {
		return nil, fmt.Errorf("%s %s/%s has no selector by labels", o.GetKind(), o.GetNamespace(), o.GetName())
	}
	pods, err := e.KubeOf(o.GetNamespace()).
		CoreV1().
		Pods(o.GetNamespace()).
		List(ctx, metav1.ListOptions{LabelSelector: labels.Set(match).String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { // a server may hand out more than it was asked for
		return !labels.SelectorFromSet(match).Matches(labels.Set(p.Labels)) || workloads.HasEnded(&p) ||
			workloads.IsMirror(&p)
	}), nil
}

// LeaderProblem says why none of a workload's pods holds a lease and renews it; empty when one does.
func LeaderProblem(ctx context.Context, e *step.Env, o *unstructured.Unstructured, lease string) (string, error) {
	l, err := e.Kube.CoordinationV1().Leases(component.Namespace).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading Lease %s/%s: %w", component.Namespace, lease, err)
	}
	pods, err := PodsOf(ctx, e, o)
	if err != nil {
		return "", err
	}
	holder := ""
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	fresh := l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil &&
		e.Clock.Now().Before(l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second))
	for _, p := range pods {
		if !fresh {
			break
		}
		if names, err := hostNamesOf(ctx, e, p); err != nil {
			return "", err
		} else if isNamed(holder, names) {
			return "", nil
		}
	}
	return fmt.Sprintf(
		"lease %s is held by %q, which is none of the pods of %s/%s",
		lease,
		holder,
		o.GetNamespace(),
		o.GetName(),
	), nil
}

// hostNamesOf are the names that a manager in a pod may give itself by its host name. That is the pod's, or the
// machine's when it has its network. A machine may have another name than its Node, whose name is the cloud's with some
// providers. Its kubelet puts its own name on the Node.
func hostNamesOf(ctx context.Context, e *step.Env, p corev1.Pod) ([]string, error) {
	if !p.Spec.HostNetwork {
		return []string{p.Name}, nil
	}
	names := []string{p.Spec.NodeName}
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, p.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return names, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Node %s of pod %s/%s: %w", p.Spec.NodeName, p.Namespace, p.Name, err)
	}
	return append(names, n.Labels[corev1.LabelHostname]), nil
}

// isNamed reports whether the holder of a lease, a host name and something random, has one of these names: with its
// domain or without.
func isNamed(holder string, names []string) bool {
	i := strings.LastIndex(holder, "_")
	if i < 0 {
		return false
	}
	short, _, _ := strings.Cut(holder[:i], ".")
	return slices.ContainsFunc(names, func(name string) bool {
		name, _, _ = strings.Cut(name, ".")
		return name != "" && strings.EqualFold(name, short)
	})
}
