package migrate

import (
	"context"
	"errors"
	"fmt"
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
)

// drainBudget is for how long pods are asked to leave a node: a budget that allows one disruption at a time takes as long as its pods take to start
// elsewhere, one by one.
const drainBudget = 15 * time.Minute

// Values of StepRecord.Before of a step that drains.
const (
	wasSchedulable = `{"unschedulable":false}`
	wasCordoned    = `{"unschedulable":true}`
)

// drained empties a node, does what is to be done there, and makes it schedulable again, unless it was not before. The record says which; after a
// crash the node is emptied again, because pods may have come back with the kubelet.
func (e *Engine) drained(ctx context.Context, s v1.Step, rec *v1.StepRecord, do func() error) error {
	name := e.NodeNames[s.Host]
	if rec.Before == "" {
		n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading node %s of host %s: %w", name, s.Host, err)
		}
		rec.Before = wasSchedulable
		if n.Spec.Unschedulable {
			rec.Before = wasCordoned
		}
		if err := e.journal.Save(ctx, *rec); err != nil {
			return err
		}
	}
	if err := e.cordon(ctx, name, true); err != nil {
		return err
	}
	if err := e.evictAll(ctx, s, name); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if rec.Before == wasCordoned {
		return nil
	}
	return e.cordon(ctx, name, false)
}

func (e *Engine) cordon(ctx context.Context, node string, unschedulable bool) error {
	return e.changeNode(ctx, node, "", func(n *corev1.Node) bool {
		changed := n.Spec.Unschedulable != unschedulable
		n.Spec.Unschedulable = unschedulable
		return changed
	})
}

// evictAll asks every pod of a node to leave through the Eviction API, which respects PodDisruptionBudgets, and waits until they are gone. What the
// node's kubelet or a DaemonSet puts there is left alone: it would come back.
func (e *Engine) evictAll(ctx context.Context, s v1.Step, node string) error {
	refused := map[string]string{}
	told := ""
	err := e.poll(ctx, drainBudget, evictInterval, func(ctx context.Context) (bool, error) {
		pods, err := e.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if Transient(err) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("listing the pods of node %s: %w", node, err)
		}
		clear(refused)
		left := 0
		for _, p := range pods.Items {
			if p.Spec.NodeName != node || !mustLeave(p) {
				continue
			}
			left++
			if p.DeletionTimestamp != nil {
				continue // it leaves
			}
			why, err := e.evict(ctx, p)
			if err != nil {
				return false, err
			}
			if why != "" {
				refused[p.Namespace+"/"+p.Name] = why
			}
		}
		if progress := fmt.Sprintf("node %s: %d pods still to leave%s", node, left, because(refused)); left > 0 && progress != told {
			told = progress
			e.tell(s, "progress", progress)
		}
		return left == 0, nil
	})
	if errors.Is(err, errWaited) {
		return &VerifyError{Waited: drainBudget, Reason: fmt.Sprintf("node %s was not drained%s: it stays unschedulable; make room for these pods or raise the budget, then run the same command again", node, because(refused))}
	}
	return err
}

// evictInterval is how often a pod that a budget keeps is asked again.
const evictInterval = 5 * time.Second

// mustLeave tells whether a pod has to leave a node that is drained.
func mustLeave(p corev1.Pod) bool {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller && (o.Kind == "DaemonSet" || o.Kind == "Node") {
			return false
		}
	}
	return true
}

// evict says why a pod may not leave now; empty when it goes.
func (e *Engine) evict(ctx context.Context, p corev1.Pod) (string, error) {
	uid := p.UID
	err := e.Kube.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: (*types.UID)(&uid)}},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another one by that name
		return "", nil
	case apierrors.IsTooManyRequests(err):
		return e.budgetOf(ctx, p, err), nil
	case Transient(err):
		return err.Error(), nil
	}
	return "", fmt.Errorf("evicting pod %s/%s: %w", p.Namespace, p.Name, err)
}

// budgetOf names the PodDisruptionBudgets that keep a pod.
func (e *Engine) budgetOf(ctx context.Context, p corev1.Pod, refusal error) string {
	var names []string
	budgets, err := e.Kube.PolicyV1().PodDisruptionBudgets(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return refusal.Error()
	}
	for _, b := range budgets.Items {
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && b.Status.DisruptionsAllowed == 0 && selector.Matches(labels.Set(p.Labels)) {
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
