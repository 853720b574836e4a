package manager

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/snapshot/workloads"
)

// ReachesNone reports whether the plan has hosts replaced and the operator opened none. Managers listen on their hosts
// alone, so that no owner is known then. The steps that wait have compared the flags of every pod.
func ReachesNone(e *step.Env) bool { return replacesHosts(e) && len(e.Hosts) == 0 }

func replacesHosts(e *step.Env) bool { return e.Plan != nil && e.Plan.Options.ReplaceHosts }

// isTakenDown reports whether a step of the plan has seen a host go, and its Node is still gone. That step ends when
// no manager holds a lease in the host's name.
func isTakenDown(ctx context.Context, e *step.Env, host string) (bool, error) {
	if !replacesHosts(e) {
		return false, nil
	}
	node := e.NodeOf(host)
	for _, s := range e.Plan.Steps {
		if s.Await == nil || s.Await.NodeGone != node || !e.Journal.Record(s.ID).IsEnded() {
			continue
		}
		_, err := e.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("reading node %s: %w", node, err)
		}
	}
	return false, nil
}

// unopenedManagers are the managers on control-plane nodes that joined after this command had opened its hosts. They
// listen on their hosts alone, so that this command cannot ask them.
func unopenedManagers(ctx context.Context, e *step.Env, components []string) ([]v1.Manager, error) {
	if !replacesHosts(e) || len(e.Hosts) == 0 {
		return nil, nil
	}
	pods, err := e.Kube.CoreV1().Pods(component.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", component.Namespace, err)
	}
	whyNot, err := e.ControlPlaneNodes(ctx)
	if err != nil {
		return nil, err
	}
	opened := map[string]bool{}
	for _, h := range e.Hosts {
		opened[e.NodeOf(h.Name())] = true
	}
	var out []v1.Manager
	for i := range pods.Items {
		p := &pods.Items[i]
		name := staticManager(p, components)
		if name == "" || opened[p.Spec.NodeName] || whyNot(p.Spec.NodeName) != "" {
			continue
		}
		out = append(out, v1.Manager{
			Component: name,
			Host:      p.Spec.NodeName,
			Error: fmt.Sprintf(
				"node %s joined after this command had opened its hosts: run the same command again, which opens it, too",
				p.Spec.NodeName,
			),
		})
	}
	return out, nil
}

// staticManager is which of the components runs in a static pod; empty for none.
func staticManager(p *corev1.Pod, components []string) string {
	if !workloads.IsMirror(p) || workloads.HasEnded(p) {
		return ""
	}
	for i := range p.Spec.Containers {
		if name := workloads.SeedComponent(&p.Spec.Containers[i]); slices.Contains(components, name) {
			return name
		}
	}
	return ""
}
