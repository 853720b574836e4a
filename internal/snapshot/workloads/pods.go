package workloads

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/podreason"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherPods lists those of kube-system: the mirror pods, whose hosts are found when the manifests have been read, and
// on which nodes each workload runs. Pods elsewhere are not listed; there may be tens of thousands, and nothing here
// needs them.
func GatherPods(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("pods", collect.NoAPI)
		return
	}
	items, ok := collect.List(
		ctx,
		g,
		"pods",
		"pods in "+component.Namespace,
		g.Kube.CoreV1().Pods(component.Namespace).List,
		func(l *corev1.PodList) []corev1.Pod { return l.Items },
	)
	if !ok {
		return
	}
	g.RunsOn = map[string][]string{}
	g.ManagerPods = SeedPods(items, component.KCM, component.CCM)
	for i := range items {
		p := &items[i]
		if IsMirror(p) {
			g.Mirrors = append(g.Mirrors, *p)
		} else if owner, node := workloadOf(p), podreason.NodeOf(p); owner != "" && node != "" {
			g.RunsOn[owner] = append(g.RunsOn[owner], node)
		}
	}
	slices.SortFunc(g.Mirrors, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	g.Count("pods in "+component.Namespace, len(items))
}
