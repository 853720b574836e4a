// Package drain decides whether a node may be changed now, and which pods leave it first.
package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/podreason"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// Values of StepRecord.Before of a step that drains.
const (
	WasSchedulable = `{"unschedulable":false}`
	WasCordoned    = `{"unschedulable":true}`
)

// Node makes a node unschedulable and its pods leave, if the plan says so or a volume of an in-tree plugin has come
// since. When they do not leave, and nothing was changed on its host, it is made schedulable again. A node whose
// kubelet was changed and is not there any longer is not drained once more: no kubelet would end its pods. The caller
// says whether it was changed: a record alone is no proof.
func Node(ctx context.Context, e *step.Env, s v1.Step, rec v1.StepRecord, name string, touched bool) error {
	if touched {
		n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // a kubelet makes its Node when it starts
		}
		if err != nil {
			return fmt.Errorf("reading node %s of host %s: %w", name, s.Host, err)
		}
		if status, _ := ReadyStatus(n); status != corev1.ConditionTrue || rec.Undo != nil {
			return nil
		}
	}
	if s.Drain && !touched {
		if err := drainable(ctx, e, name); err != nil {
			return err
		}
	}
	if err := Cordon(ctx, e, name, true); err != nil {
		return err
	}
	err := emptied(ctx, e, s, name, touched)
	if err == nil || touched || rec.Before == WasCordoned || ctx.Err() != nil {
		return err
	}
	if back := Cordon(ctx, e, name, false); back != nil {
		return errors.Join(err, fmt.Errorf("making node %s schedulable again: %w", name, back))
	}
	return err
}

// drainable returns why a node cannot be drained without loss, or at all.
func drainable(ctx context.Context, e *step.Env, node string) error {
	return errors.Join(Unmanaged(ctx, e, node), CheckInTreeVolumes(ctx, e, node))
}

// emptied makes the pods of a cordoned node leave. A node that the plan does not drain keeps them, unless a pod of
// another drained node has brought a volume of an in-tree plugin.
func emptied(ctx context.Context, e *step.Env, s v1.Step, node string, touched bool) error {
	if s.Drain {
		return evictAll(ctx, e, s, node, mustLeave)
	}
	volume, err := mountedInTree(ctx, e, node)
	if err != nil {
		return err
	}
	if volume == "" { // one that a pod had which is gone may be attached yet
		return evictAll(ctx, e, s, node, func(*corev1.Pod) bool { return false })
	}
	if !touched {
		if err := drainable(ctx, e, node); err != nil {
			return err
		}
	}
	e.Report(s, step.EventProgress, fmt.Sprintf("node %s is drained, which the plan did not foresee: %s", node, volume))
	return evictAll(ctx, e, s, node, mustLeave)
}

// Unmanaged refuses a node with pods that no controller brings back, unless that was asked for.
func Unmanaged(ctx context.Context, e *step.Env, node string) error {
	if e.Plan.Options.ForceUnmanaged {
		return nil
	}
	pods, err := PodsOn(ctx, e, node)
	if err != nil {
		return err
	}
	var alone []string
	for i := range pods {
		if mustLeave(&pods[i]) && pods[i].DeletionTimestamp == nil && metav1.GetControllerOf(&pods[i]) == nil {
			alone = append(alone, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	if len(alone) == 0 {
		return nil
	}
	sort.Strings(alone)
	return fmt.Errorf(
		"node %s has to be drained, and no controller would bring back %s: delete or move %s yourself, or allow it with --force-unmanaged; nothing was changed there",
		node,
		english.FirstOf(5, alone),
		english.Word(len(alone), "it", "them"),
	)
}

// evictAll asks every pod of a node to leave through the Eviction API, which respects PodDisruptionBudgets. It waits
// until they are gone and no volume that changes its mounter is in use or attached there. What the node's kubelet or a
// DaemonSet puts there is left alone: it would come back. So are the pods through which this tool looks at the host.
func evictAll(ctx context.Context, e *step.Env, s v1.Step, node string, leaves func(*corev1.Pod) bool) error {
	refused := map[string]string{}
	told, scratch := "", false
	limit := options.DrainTimeout(e.Plan.Options)
	err := e.Poll(ctx, limit, evictInterval, func(ctx context.Context) (bool, error) {
		select {
		case <-e.Stopping:
			return false, step.ErrInterrupted
		default:
		}
		pods, err := PodsOn(ctx, e, node)
		if retry.IsTransient(err) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if !scratch {
			scratch = true
			tellScratch(e, s, node, pods)
		}
		clear(refused)
		var leaving []string
		for i := range pods {
			p := &pods[i]
			if !leaves(p) {
				continue
			}
			leaving = append(leaving, p.Namespace+"/"+p.Name)
			why, err := evict(ctx, e, p)
			if err != nil {
				return false, err
			}
			if why != "" {
				refused[p.Namespace+"/"+p.Name] = why
			}
		}
		progress := fmt.Sprintf("node %s: %s still to leave%s", node, english.Count(len(leaving), "pod"), because(refused))
		if len(refused) == 0 {
			progress += " (" + english.FirstOf(3, leaving) + ")"
		}
		if len(leaving) == 0 {
			volumes, err := attachedVolumes(ctx, e, s, node)
			if err != nil || volumes == "" {
				return err == nil, nil //nolint:nilerr // it is asked again
			}
			refused["volumes"] = "still attached is " + volumes
			progress = fmt.Sprintf("node %s: waiting until %s is unmounted and detached", node, volumes)
		}
		if progress != told {
			told = progress
			e.Report(s, step.EventProgress, progress)
		}
		return false, nil
	})
	if errors.Is(err, step.ErrTimedOut) {
		return &step.WaitError{
			Waited: limit,
			Reason: fmt.Sprintf(
				"node %s was not drained%s. Some of its pods may have been evicted. Add capacity, or let the PodDisruptionBudget allow more "+
					"(lower minAvailable, or raise maxUnavailable), or give more time with --drain-timeout. Then run the same command again",
				node,
				because(refused),
			),
		}
	}
	return err
}

// evict asks a pod to go; it says why one does not, and until when one that is on its way may take.
func evict(ctx context.Context, e *step.Env, p *corev1.Pod) (string, error) {
	if p.DeletionTimestamp == nil {
		return tryEviction(ctx, e, *p)
	}
	if until := p.DeletionTimestamp.Time; until.After(e.Clock.Now().Add(longGrace)) ||
		e.Clock.Now().After(until.Add(longGrace)) {
		return "ends by " + until.UTC().Format(time.RFC3339) + finalizers(p) + whyStays(ctx, e, p, until), nil
	}
	return "", nil
}

// whyStays is why a pod is there whose time to end is over.
func whyStays(ctx context.Context, e *step.Env, p *corev1.Pod, until time.Time) string {
	if !e.Clock.Now().After(until) {
		return ""
	}
	if state := podreason.NodeState(e.Pods.Node(ctx, e.Kube, p.Spec.NodeName)); state != "" {
		return "; " + state
	}
	return ""
}

func finalizers(p *corev1.Pod) string {
	if len(p.Finalizers) == 0 {
		return ""
	}
	return ", and keeps the finalizers " + strings.Join(p.Finalizers, ", ")
}

// longGrace is from when on a pod that ends is worth a word.
const longGrace = time.Minute

// tellScratch names the pods that lose what they keep in an emptyDir.
func tellScratch(e *step.Env, s v1.Step, node string, pods []corev1.Pod) {
	var names []string
	for i := range pods {
		scratch := slices.ContainsFunc(pods[i].Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
		if scratch && mustLeave(&pods[i]) {
			names = append(names, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	if len(names) > 0 {
		sort.Strings(names)
		e.Report(
			s,
			step.EventProgress,
			fmt.Sprintf(
				"node %s: %s with an emptyDir, whose content ends with the pod (%s)",
				node,
				english.Count(len(names), "pod"),
				english.FirstOf(5, names),
			),
		)
	}
}

// inTreePlugins are the beginnings of the names of volumes that an in-tree plugin of a cloud has mounted.
var inTreePlugins = []string{
	"kubernetes.io/aws-ebs/",
	"kubernetes.io/azure-disk/",
	"kubernetes.io/cinder/",
	"kubernetes.io/gce-pd/",
	"kubernetes.io/vsphere-volume/",
}

// inTreeVolumes names the volumes of in-tree plugins that are in use on a node; CSI could not unmount them (KEP-625).
func inTreeVolumes(ctx context.Context, e *step.Env, node string) (string, error) {
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading node %s: %w", node, err)
	}
	return english.FirstOf(5, ofInTreePlugins(n.Status.VolumesInUse)), nil
}

func ofInTreePlugins(volumes []corev1.UniqueVolumeName) (out []string) {
	for _, v := range volumes {
		if slices.ContainsFunc(inTreePlugins, func(p string) bool { return strings.HasPrefix(string(v), p) }) {
			out = append(out, string(v))
		}
	}
	return out
}

// attachedVolumes names what a node has attached, or in use, by the mounter that its kubelet has before a step. The
// attach-detach controller knows a volume by another name for each mounter. Under the mount of a pod that came back too
// early, it would detach the volume by its old name.
func attachedVolumes(ctx context.Context, e *step.Env, s v1.Step, node string) (string, error) {
	n, err := e.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading node %s: %w", node, err)
	}
	all := slices.Clone(n.Status.VolumesInUse)
	if s.Restore != "" {
		byDriver, err := migratedAttachments(ctx, e, node)
		return english.FirstOf(5, append(ofInTreePlugins(all), byDriver...)), err
	}
	for _, v := range n.Status.VolumesAttached {
		if !slices.Contains(all, v.Name) {
			all = append(all, v.Name)
		}
	}
	return english.FirstOf(5, ofInTreePlugins(all)), nil
}

// evictInterval is how often a pod that a budget keeps is asked again.
const evictInterval = 5 * time.Second

// mustLeave reports whether a pod has to leave a node that is drained.
func mustLeave(p *corev1.Pod) bool {
	if workloads.IsMirror(p) || IsOurs(p) {
		return false
	}
	if IsTerminal(p) {
		return false
	}
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller && (o.Kind == "DaemonSet" || o.Kind == "Node") {
			return false
		}
	}
	return true
}

// IsTerminal reports whether a pod has ended for good: it uses nothing, and nothing has to be done about it.
func IsTerminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// tryEviction says why a pod may not leave now; empty when it goes.
func tryEviction(ctx context.Context, e *step.Env, p corev1.Pod) (string, error) {
	uid := p.UID
	err := e.Kube.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: (*types.UID)(&uid)}},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another one by that name
		return "", nil
	case apierrors.IsTooManyRequests(err):
		return budgetOf(ctx, e, p, err), nil
	case retry.IsTransient(err):
		return err.Error(), nil
	}
	return "", fmt.Errorf("evicting pod %s/%s: %w", p.Namespace, p.Name, err)
}

// budgetOf names the PodDisruptionBudgets that keep a pod.
func budgetOf(ctx context.Context, e *step.Env, p corev1.Pod, refusal error) string {
	var names []string
	budgets, err := e.Kube.PolicyV1().PodDisruptionBudgets(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return refusal.Error()
	}
	for _, b := range budgets.Items {
		if selector, err := metav1.LabelSelectorAsSelector(
			b.Spec.Selector,
		); err == nil && b.Status.DisruptionsAllowed == 0 &&
			selector.Matches(labels.Set(p.Labels)) {
			names = append(names, b.Namespace+"/"+b.Name)
		}
	}
	if len(names) == 0 {
		return refusal.Error()
	}
	sort.Strings(names)
	return "kept by PodDisruptionBudget " + strings.Join(names, ", ")
}

func because(refused map[string]string) string {
	if len(refused) == 0 {
		return ""
	}
	var out []string
	for pod, why := range refused {
		out = append(out, pod+" ("+why+")")
	}
	sort.Strings(out)
	const most = 3
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("and %d more", len(out)-most))
	}
	return ": " + strings.Join(out, ", ")
}
