package snapshot

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pods lists those of kube-system: the mirror pods, whose hosts are found when the manifests have been read, and on which nodes each workload runs.
// Pods elsewhere are not listed; there may be tens of thousands, and nothing here needs them.
func (g *gatherer) pods(ctx context.Context) {
	if g.Kube == nil {
		g.unknown("pods", noAPI)
		return
	}
	items, ok := listed(ctx, g, "pods", "pods in "+namespace, g.Kube.CoreV1().Pods(namespace).List, func(l *corev1.PodList) []corev1.Pod { return l.Items })
	if !ok {
		return
	}
	g.runsOn = map[string][]string{}
	g.managerPods = SeedPods(items, kcm, ccm)
	for i := range items {
		p := &items[i]
		if _, ok := p.Annotations[corev1.MirrorPodAnnotationKey]; ok {
			g.mirrors = append(g.mirrors, *p)
		} else if owner := workloadOf(p); owner != "" && p.Spec.NodeName != "" {
			g.runsOn[owner] = append(g.runsOn[owner], p.Spec.NodeName)
		}
	}
	slices.SortFunc(g.mirrors, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	g.count("pods in "+namespace, len(items))
}

// workloadOf is the Ref of the workload that a pod is of. A Deployment's pod belongs to a ReplicaSet, which has the Deployment's name and a hash.
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
