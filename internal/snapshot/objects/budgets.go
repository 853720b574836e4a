package objects

import (
	"context"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherBudgets lists PodDisruptionBudgets in the version that is served: v1 since 1.21, v1beta1 until 1.24. Those that
// would stop a drain are kept.
func GatherBudgets(ctx context.Context, g *collect.Collector) {
	const fact, what = "budgets", "poddisruptionbudgets"
	var items []policyv1.PodDisruptionBudget
	var ok bool
	switch {
	case g.Kube == nil:
		g.Unknown(fact, collect.NoAPI)
		return
	case Serves(g, "policy/v1"):
		items, ok = collect.List(ctx, g, fact, what, g.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List,
			func(l *policyv1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget { return l.Items })
	case Serves(g, "policy/v1beta1"):
		items, ok = collect.List(
			ctx,
			g,
			fact,
			what,
			g.Kube.PolicyV1beta1().PodDisruptionBudgets(metav1.NamespaceAll).List,
			oldBudgets,
		)
	default:
		g.Unknown(fact, "listing "+what+": the API server has neither policy/v1 nor policy/v1beta1")
		return
	}
	if !ok {
		return
	}
	g.Count(what, len(items))
	for i := range items {
		if b := &items[i]; b.Status.DisruptionsAllowed == 0 || b.Status.ObservedGeneration < b.Generation {
			g.Snap.Budgets = append(g.Snap.Budgets, v1.DisruptionBudget{
				Namespace: b.Namespace, Name: b.Name, Allowed: b.Status.DisruptionsAllowed, Expected: b.Status.ExpectedPods,
				Healthy: b.Status.CurrentHealthy, Desired: b.Status.DesiredHealthy,
			})
		}
	}
	slices.SortFunc(g.Snap.Budgets, func(a, b v1.DisruptionBudget) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
}

// oldBudgets are those of v1beta1, whose status is the same.
func oldBudgets(l *policyv1beta1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget {
	out := make([]policyv1.PodDisruptionBudget, len(l.Items))
	for i := range l.Items {
		s := &l.Items[i].Status
		out[i] = policyv1.PodDisruptionBudget{ObjectMeta: l.Items[i].ObjectMeta, Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: s.ObservedGeneration, DisruptionsAllowed: s.DisruptionsAllowed, CurrentHealthy: s.CurrentHealthy,
			DesiredHealthy: s.DesiredHealthy, ExpectedPods: s.ExpectedPods,
		}}
	}
	return out
}
