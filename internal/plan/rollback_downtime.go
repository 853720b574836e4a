package plan

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// PhaseStopped is the phase of a rollback in which nobody runs the loops.
const PhaseStopped = "rollback-stop"

// PhaseServersBack is the phase in which API servers that are Deployments are restored, while the cloud loops still run.
const PhaseServersBack = "rollback-api-servers"

// downtime is the way back for a strategy under which nobody ran the loops for a while: every cloud-controller-manager is stopped before the first
// in-tree manager comes back, since no lease keeps the two apart. A kube-apiserver is restored while its host's manager is stopped;
// one that is a Deployment before that, while the cloud-controller-manager runs, because no manager depends on a single one of its pods.
func (r *rollback) downtime() {
	r.nodesBack()
	r.kubeletsBack()
	for _, s := range distinct(r.started(func(s v1.Step) bool { return edits(s) && s.Component == KAS && s.Ref != "" })) {
		r.add(r.unled(s, PhaseServersBack))
	}
	r.removeCCM()
	managers := distinct(r.started(func(s v1.Step) bool { return s.Component == KCM && (stops(s) || edits(s)) }))
	for _, s := range managers {
		if s.Ref == "" { // one that is the controller of its own Deployment is never stopped
			r.add(r.stopAgain(s))
		}
	}
	r.schedulersBack()
	for _, s := range r.notYet(distinct(r.started(func(s v1.Step) bool { return edits(s) && s.Component != KCM && s.Component != CCM }))) {
		r.add(r.unled(s, PhaseOriginal))
	}
	r.patchesBack()
	for _, s := range r.ownerLast(KCM, managers) {
		if s.Ref != "" {
			back := r.unled(s, PhaseOriginal)
			back.Leases = s.Leases
			r.add(back)
			continue
		}
		r.add(r.startAsItWas(s))
	}
	r.verifyBack()
	r.cleanup()
}

func stops(s v1.Step) bool {
	return s.Kind == v1.StepRemoveManifest || s.Kind == v1.StepStopUnit
}

// stopAgain stops a kube-controller-manager that the migration started without its provider; one that was never started again is stopped already.
func (r *rollback) stopAgain(s v1.Step) v1.Step {
	out := v1.Step{
		ID: "undo/stop/" + s.ID, Phase: PhaseStopped, Title: "stop " + s.Component + at(s), Host: s.Host, Component: s.Component, Path: s.Path, Unit: s.Unit,
		Leases: []string{KCM}, Successors: []string{KCM}, Group: PhaseStopped + at(s), Requires: []string{"cluster:uid"}, EstimateSeconds: 10, Undo: "transplant apply",
		Changes: []v1.Change{{Field: KCM, Before: "external", After: "stopped"}},
	}
	out.Kind = v1.StepRemoveManifest
	if s.Unit != "" {
		out.Kind = v1.StepStopUnit
	}
	return out
}

func at(s v1.Step) string {
	if s.Host == "" {
		return ""
	}
	return " on " + s.Host
}

// startAsItWas starts a kube-controller-manager with what it had before the migration: the oldest backup of its file, or the oldest record of its pod
// template.
func (r *rollback) startAsItWas(s v1.Step) v1.Step {
	out := v1.Step{
		ID: "undo/start/" + s.ID, Phase: PhaseOriginal, Title: "start " + s.Component + at(s) + " as it was before the migration", Host: s.Host, Component: s.Component,
		Path: s.Path, Unit: s.Unit, Requires: []string{"cluster:uid"}, EstimateSeconds: 25, Undo: "transplant apply",
		Changes: append([]v1.Change{{Field: KCM, Before: "stopped", After: "as it was"}}, r.imageBack(s)...),
	}
	keeps := s // the first step that changed the place is the one that has the backup
	if len(s.Edits) == 0 && s.Unit != "" {
		for _, e := range r.started(func(o v1.Step) bool { return edits(o) && place(o) == place(s) }) {
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
