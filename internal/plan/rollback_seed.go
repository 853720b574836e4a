package plan

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// seedBack is the way back of a hosted control plane, the same for both strategies: the cloud-controller-manager goes, nobody is left who holds its leases, and
// then the kube-controller-manager gets its loops again.
func (r *rollback) seedBack() {
	cluster := r.journal.Plan.Cluster
	r.fact("seed:uid", cluster.SeedUID, "")
	r.removeCCM()
	for _, s := range r.started(ccmWorkload) {
		r.add(v1.Step{
			ID: "verify/" + CCM + "-gone", Phase: PhaseHandback, Kind: v1.StepVerify, Title: "no pod of " + s.Ref + " is left, and nobody holds its leases", Ref: s.Ref, Component: CCM,
			Leases: []string{CCM}, EstimateSeconds: 15,
		})
	}
	for _, s := range distinct(r.started(func(s v1.Step) bool { return edits(s) && s.Component != CCM })) {
		back := r.unled(s, PhaseOriginal)
		back.Leases = nil
		if s.Component == KCM {
			back.Leases = []string{KCM}
		}
		back.Requires = append(back.Requires, "seed:uid")
		r.add(back)
	}
	r.verifyBack()
	r.cleanup()
}
