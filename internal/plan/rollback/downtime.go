package rollback

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// planDowntime is the rollback for a strategy under which no manager ran the loops for a while. Every
// cloud-controller-manager is stopped before the first in-tree manager comes back, since no lease keeps the two apart.
// A kube-apiserver is restored while its host's manager is stopped. One that is a Deployment is restored before that,
// while the cloud-controller-manager runs: no manager depends on a single one of its pods. A kubelet that goes back to
// the in-tree plugins needs a manager that has them: those get them back first.
func (r *rollback) planDowntime() {
	r.removeTaints()
	r.restoreEach(planstep.PhaseReenable, r.ownerLast(component.KCM, r.laterManagerSteps()))
	r.restoreKubelets()
	for _, s := range planstep.FirstPerPlace(r.startedSteps(func(s v1.Step) bool {
		return planstep.ChangesComponent(s) && s.Component == component.KAS && s.Ref != ""
	})) {
		r.draft.Add(r.restoreLeaderless(s, planstep.PhaseServersBack))
	}
	r.removeCCM()
	managers := planstep.FirstPerPlace(r.startedSteps(func(s v1.Step) bool {
		return s.Component == component.KCM && (planstep.StopsComponent(s) || planstep.ChangesComponent(s))
	}))
	for _, s := range managers {
		if s.Ref == "" { // one that is the controller of its own Deployment is never stopped
			r.draft.Add(r.stopAgain(s))
		}
	}
	r.restoreSchedulers()
	for _, s := range r.withoutRestored(planstep.FirstPerPlace(r.startedSteps(func(s v1.Step) bool {
		return planstep.ChangesComponent(s) && s.Component != component.KCM && s.Component != component.CCM
	}))) {
		r.draft.Add(r.restoreLeaderless(s, planstep.PhaseOriginal))
	}
	r.revertPatches()
	for _, s := range r.ownerLast(component.KCM, managers) {
		if s.Ref != "" {
			back := r.restoreLeaderless(s, planstep.PhaseOriginal)
			back.Leases = s.Leases
			r.draft.Add(back)
			continue
		}
		r.draft.Add(r.startAsItWas(s))
	}
	r.verifyOwners()
	r.cleanUp()
}

// stopAgain stops a kube-controller-manager that the migration started without its provider; one that was never started
// again is stopped already.
func (r *rollback) stopAgain(s v1.Step) v1.Step {
	out := v1.Step{
		ID:        "undo/stop/" + s.ID,
		Phase:     planstep.PhaseStopped,
		Title:     "stop " + s.Component + onHostText(s),
		Host:      s.Host,
		Component: s.Component,
		Path:      s.Path,
		Unit:      s.Unit,
		Leases: []string{
			component.KCM,
		},
		Successors:      []string{component.KCM},
		Group:           planstep.PhaseStopped + onHostText(s),
		Requires:        []string{"cluster:uid"},
		EstimateSeconds: 10,
		Undo:            "transplant apply",
		Changes:         []v1.Change{{Field: component.KCM, Before: "external", After: "stopped"}},
	}
	out.Kind = v1.StepRemoveManifest
	if s.Unit != "" {
		out.Kind = v1.StepStopUnit
	}
	return out
}

func onHostText(s v1.Step) string {
	if s.Host == "" {
		return ""
	}
	return " on " + s.Host
}

// startAsItWas starts a kube-controller-manager with what it had before the migration: the oldest backup of its file,
// or the oldest record of its pod template.
func (r *rollback) startAsItWas(s v1.Step) v1.Step {
	out := v1.Step{
		ID:              "undo/start/" + s.ID,
		Phase:           planstep.PhaseOriginal,
		Title:           "start " + s.Component + onHostText(s) + " as it was before the migration",
		Host:            s.Host,
		Component:       s.Component,
		Path:            s.Path,
		Unit:            s.Unit,
		Requires:        []string{"cluster:uid"},
		EstimateSeconds: 25,
		Undo:            "transplant apply",
		Changes: append(
			[]v1.Change{{Field: component.KCM, Before: "stopped", After: "as it was"}},
			r.describeImage(s)...),
	}
	keeps := s // the first step that changed the place is the one that has the backup
	if len(s.Edits) == 0 && s.Unit != "" {
		for _, e := range r.startedSteps(func(o v1.Step) bool {
			return planstep.ChangesComponent(o) && planstep.ChangedPlace(o) == planstep.ChangedPlace(s)
		}) {
			keeps = e
			break
		}
	}
	out.Restore = keeps.ID
	out.Kind = v1.StepRestoreManifest
	if s.Unit != "" {
		out.Kind = v1.StepStartUnit
	}
	return out
}
