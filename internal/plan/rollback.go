package plan

import (
	"fmt"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Phases of a rollback, in order.
const (
	PhaseReenable  = "rollback-leader-migration"
	PhaseKubeletsR = "rollback-kubelets"
	PhaseInTree    = "rollback-in-tree"
	PhaseHandback  = "rollback-handover"
	PhaseOriginal  = "rollback-original"
	PhaseCleanup   = "rollback-cleanup"
)

// MakeRollback plans the way back from wherever a migration stands. It takes what the journal says was started, because only that can have
// changed; each step looks at the live cluster before it acts, so that what was started and never done costs nothing.
//
// The order is not the mirror image of the way there: the kube-controller-managers become in-tree again before the last
// cloud-controller-manager goes, and a kube-apiserver is restored only after its host's managers own nothing.
func MakeRollback(j *v1.Journal, snap *v1.Snapshot, now time.Time) (*v1.Plan, error) {
	if j.Plan.Cluster.UID != snap.Cluster.UID {
		return nil, fmt.Errorf("the journal belongs to the cluster with uid %s, this one has %s", j.Plan.Cluster.UID, snap.Cluster.UID)
	}
	r := &rollback{journal: j, records: map[string]v1.StepRecord{}, builder: builder{snap: snap, opts: j.Plan.Options, facts: map[string]v1.Fact{}}}
	for _, rec := range j.Records {
		r.records[rec.ID] = rec
	}
	r.fact("cluster:uid", snap.Cluster.UID, "")
	r.reenable()
	r.restoreEach(PhaseKubeletsR, r.started(func(s v1.Step) bool { return s.Kind == v1.StepKubelet }))
	r.restoreEach(PhaseInTree, r.ownerLast(KCM, r.started(byID("external/"+KCM+"@"))))
	r.removeCCM()
	r.original()
	r.verify(PhaseOriginal, "verify/rolled-back", owners(KCM)) // before the account goes that may read the gauges
	r.cleanup()
	p := &v1.Plan{
		TypeMeta: v1.Type(v1.KindPlan), Created: now.UTC(), ToolVersion: snap.ToolVersion, Cluster: snap.Cluster, Strategy: j.Plan.Strategy,
		Direction: Rollback, Options: r.opts, Facts: r.sortedFacts(), Steps: r.steps, Effects: append(effects(Rollback, snap, r.steps, r.opts), leftovers...),
	}
	return p, unique(p.Steps)
}

// leftovers is what a rollback leaves behind on purpose.
var leftovers = []string{
	"left behind: the journal (ConfigMaps kube-system/transplant-journal and -before), the backups under " + Dir + " on each host, Events, and higher counts of lease transitions",
}

type rollback struct {
	builder
	journal *v1.Journal
	records map[string]v1.StepRecord
}

func byID(prefix string) func(v1.Step) bool {
	return func(s v1.Step) bool { return strings.HasPrefix(s.ID, prefix) }
}

// started returns the steps of the migration that were begun and match.
func (r *rollback) started(match func(v1.Step) bool) []v1.Step {
	var out []v1.Step
	for _, s := range r.journal.Plan.Steps {
		if _, ok := r.records[s.ID]; ok && match(s) {
			out = append(out, s)
		}
	}
	return out
}

// ownerLast puts the step on the host that owns the component's main lease behind the others.
func (r *rollback) ownerLast(comp string, steps []v1.Step) []v1.Step {
	owner := OwnerHost(r.snap, comp)
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].Host != owner && steps[j].Host == owner })
	return steps
}

// reenable switches leader migration on again in the cloud-controller-managers, days later if need be.
func (r *rollback) reenable() {
	finished := r.ownerLast(CCM, r.started(byID("finish/"+CCM+"@")))
	if len(finished) == 0 && len(r.started(byID("delete/"))) == 0 && len(r.started(byID("remove/"))) == 0 {
		return
	}
	for _, s := range r.journal.Plan.Steps {
		again := s.Kind == v1.StepEnsureObject && contains(migrationObjects(r.opts.LeaseName), s.Ref) || s.Kind == v1.StepWriteFile && (s.Path == KCMMigration || s.Path == CCMMigration)
		if _, done := r.records[s.ID]; !again || !done {
			continue
		}
		s.ID, s.Phase, s.Requires = "again/"+s.ID, PhaseReenable, []string{"cluster:uid"}
		r.add(s)
	}
	r.restoreEach(PhaseReenable, finished)
}

func contains(objects []object, ref string) bool {
	for _, o := range objects {
		if Ref(o) == ref {
			return true
		}
	}
	return false
}

// restoreEach puts back, for each step, what was there before it.
func (r *rollback) restoreEach(phase string, steps []v1.Step) {
	for _, s := range steps {
		r.add(r.restore(phase, s))
	}
}

func (r *rollback) restore(phase string, s v1.Step) v1.Step {
	out := v1.Step{
		ID: "undo/" + s.ID, Phase: phase, Kind: v1.StepRestoreManifest, Title: "put " + s.Component + " on " + s.Host + " back as it was before phase " + s.Phase,
		Host: s.Host, Component: s.Component, Path: s.Path, Restore: s.ID, Leases: s.Leases, Group: phase + "@" + s.Host,
		Requires: []string{"cluster:uid"}, EstimateSeconds: s.EstimateSeconds, Undo: "transplant apply",
	}
	for _, c := range s.Changes {
		out.Changes = append(out.Changes, v1.Change{Field: c.Field, Before: c.After, After: c.Before})
	}
	switch {
	case s.Kind == v1.StepKubelet:
		out.Kind, out.Title = v1.StepKubelet, "put back the flags of the kubelet on "+s.Host
	case s.Component == CCM:
		out.Successors = []string{CCM}
	case s.Component == KCM:
		out.Successors = []string{KCM}
	}
	return out
}

// removeCCM takes the cloud-controller-managers off the hosts; with the last one the loops go back to the in-tree manager.
func (r *rollback) removeCCM() {
	for _, s := range r.ownerLast(CCM, r.started(byID("start/"+CCM+"@"))) {
		r.add(v1.Step{
			ID: "undo/" + s.ID, Phase: PhaseHandback, Kind: v1.StepRemoveManifest, Title: "stop " + CCM + " on " + s.Host,
			Why:  "the owner's comes last, when only the in-tree managers are left to take the migration lease",
			Host: s.Host, Component: CCM, Path: s.Path, Restore: s.ID, Leases: []string{CCM, r.opts.LeaseName}, Successors: []string{CCM, KCM},
			Group: PhaseHandback + "@" + s.Host, Requires: []string{"cluster:uid"}, EstimateSeconds: 10, Undo: "transplant apply",
			Changes: []v1.Change{{Field: s.Path, Before: "started by this migration"}},
		})
	}
}

// original puts back the manifests as they were before the migration, host by host, the owner's host last.
func (r *rollback) original() {
	for _, s := range r.ownerLast(KCM, r.started(byID("leader-migration/"+KCM+"@"))) {
		back := r.restore(PhaseOriginal, s)
		back.Expect = s.Expect
		r.add(back)
		for _, api := range r.started(byID("external/" + KAS + "@" + s.Host)) {
			if api.Host == s.Host {
				back := r.restore(PhaseOriginal, api)
				back.Leases, back.Successors = nil, nil
				r.add(back)
			}
		}
	}
}

// cleanup removes what the migration made, in the reverse order of making it.
func (r *rollback) cleanup() {
	var made []v1.Step
	for _, s := range r.started(func(s v1.Step) bool { return s.Kind == v1.StepWriteFile || s.Kind == v1.StepEnsureObject }) {
		made = append([]v1.Step{s}, made...)
	}
	for _, lease := range []string{r.opts.LeaseName, CCM} {
		r.deleteObject(PhaseCleanup, "undo/lease/", "Lease/"+Namespace+"/"+lease, "it was not there before")
	}
	if len(made) > 0 {
		r.deleteObject(PhaseCleanup, "undo/state/", "ConfigMap/"+Namespace+"/"+CCMState, "it was not there before; nobody else reads it")
	}
	for _, s := range made {
		if s.Kind == v1.StepWriteFile {
			r.add(v1.Step{
				ID: "undo/" + s.ID, Phase: PhaseCleanup, Kind: v1.StepRemoveFile, Title: "remove " + s.Path + " on " + s.Host + ", or put back what was there",
				Host: s.Host, Path: s.Path, Restore: s.ID, Requires: []string{"cluster:uid"}, EstimateSeconds: 0.1,
				Changes: []v1.Change{{Field: s.Path, Before: "written by this migration"}},
			})
			continue
		}
		r.add(v1.Step{
			ID: "undo/" + s.ID, Phase: PhaseCleanup, Kind: v1.StepDeleteObject, Title: "delete " + s.Ref + ", if this migration made it",
			Ref: s.Ref, Restore: s.ID, Requires: []string{"cluster:uid"}, EstimateSeconds: 0.1, Changes: []v1.Change{{Field: s.Ref, Before: "created"}},
		})
	}
}
