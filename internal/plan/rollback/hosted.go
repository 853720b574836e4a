package rollback

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// planHosted is the rollback of a hosted control plane, the same for both strategies. The cloud-controller-manager
// ends, its leases have no holder, and then the kube-controller-manager gets its loops again.
func (r *rollback) planHosted() {
	cluster := r.journal.Plan.Cluster
	r.draft.AddFact("seed:uid", cluster.SeedUID, "")
	r.removeCCM()
	for _, s := range r.startedSteps(planstep.IsManagerWorkload) {
		if s.Component != component.CCM {
			continue // on the nodes it holds no lease
		}
		r.draft.Add(v1.Step{
			ID:              "verify/" + component.CCM + "-gone",
			Phase:           planstep.PhaseHandback,
			Kind:            v1.StepVerify,
			Title:           "no pod of " + s.Ref + " is left, and its leases have no holder",
			Ref:             s.Ref,
			Component:       component.CCM,
			Leases:          []string{component.CCM},
			EstimateSeconds: 15,
		})
	}
	for _, s := range planstep.FirstPerPlace(
		r.startedSteps(func(s v1.Step) bool { return planstep.ChangesComponent(s) && s.Component != component.CCM }),
	) {
		back := r.restoreLeaderless(s, planstep.PhaseOriginal)
		back.Leases = nil
		if s.Component == component.KCM {
			back.Leases = []string{component.KCM}
		}
		back.Requires = append(back.Requires, "seed:uid")
		r.draft.Add(back)
	}
	r.verifyOwners()
	r.cleanUp()
}
