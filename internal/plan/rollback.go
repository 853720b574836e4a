package plan

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
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
	switch {
	case j.Plan.Cluster.Seed != "":
		r.seedBack()
	case j.Plan.Options.ReplaceHosts:
		if err := r.replaced(); err != nil {
			return nil, err
		}
	case j.Plan.Strategy == Downtime:
		r.movedBack()
		r.downtime()
	default:
		r.movedBack()
		r.leaderMigration()
	}
	p := &v1.Plan{
		TypeMeta: v1.Type(v1.KindPlan), Created: now.UTC(), ToolVersion: snap.ToolVersion, Cluster: snap.Cluster, Strategy: j.Plan.Strategy,
		Direction: Rollback, Options: r.opts, Facts: r.sortedFacts(), Steps: r.steps, Effects: append(effects(Rollback, snap, r.steps, r.opts), leftovers...),
	}
	if n := len(r.started(func(s v1.Step) bool { return s.Kind == v1.StepInitializeNode })); n > 0 {
		p.Effects = append(p.Effects, fmt.Sprintf("left behind: the provider ids that %s got; the API server lets nobody change one, and the in-tree manager works with them", count(n, "node")))
	}
	p.Effects = append(p.Effects, r.downgradeEffects()...)
	if err := unique(p.Steps); err != nil {
		return nil, err
	}
	return p, VerifyRollback(p, snap)
}

// MovingInfix stands in the ID of a record between a step and the manager that hands over before it.
const MovingInfix = "/moving-"

// movedBack puts managers back that had been stopped to hand over before the API server of their host was restarted, and were never started again: that is a
// part of the API server's step, and no step of the plan of its own would put them back.
func (r *rollback) movedBack() {
	for _, rec := range r.journal.Records {
		id, component, moving := strings.Cut(rec.ID, MovingInfix)
		if !moving || rec.Result != "started" {
			continue
		}
		for _, s := range r.journal.Plan.Steps {
			if s.ID != id || len(r.started(func(o v1.Step) bool { return o.Host == s.Host && o.Path == rec.Path })) > 0 {
				continue // what changed the manager itself puts it back
			}
			back := v1.Step{
				ID: "undo/" + id + "/moved-" + component, Phase: PhaseReenable, Kind: v1.StepRestoreManifest, Title: "start " + component + " on " + s.Host + ", which was stopped to hand over",
				Host: s.Host, Component: component, Path: rec.Path, Restore: rec.ID, Requires: []string{"cluster:uid"}, EstimateSeconds: 25, Undo: "transplant apply",
				Changes: []v1.Change{{Field: component, Before: "stopped", After: "as it was"}},
			}
			if !strings.HasPrefix(rec.Path, controlplane.ManifestDir+"/") {
				back.Kind, back.Unit, back.Restore = v1.StepStartUnit, component+".service", ""
			}
			r.add(back)
		}
	}
}

// leaderMigration is the way back under the lease that both managers respect, without a moment in which nobody may run the loops.
func (r *rollback) leaderMigration() {
	r.reenable()
	r.kubeletsBack()
	r.restoreEach(PhaseInTree, r.ownerLast(KCM, r.started(byID("external/"+KCM+"@"))))
	r.removeCCM()
	r.schedulersBack()
	r.original()
	r.patchesBack()
	r.verifyBack()
	r.cleanup()
}

// verifyBack looks before the account goes that may read the gauges.
func (r *rollback) verifyBack() {
	r.add(v1.Step{
		ID: "verify/rolled-back", Phase: PhaseOriginal, Kind: v1.StepVerify, Title: "each loop has one owner, nodes and load balancers are as before",
		Expect: r.expectBack(true), EstimateSeconds: 2,
	})
}

// expectBack gives every loop that the migration looked at to the kube-controller-manager. Which loops there are is asked of the plan: the flags that
// say so may be among those that it changed. Node IPAM is looked at in the end only: v1.26 sleeps for 10 s before it runs it.
func (r *rollback) expectBack(ipam bool) map[string]string {
	out := map[string]string{}
	if r.journal.Plan.Options.Part == v1.PartInstall {
		return nil // there was no manager that ran a loop before
	}
	for _, s := range r.journal.Plan.Steps {
		for loop, owner := range s.Expect {
			if strings.HasPrefix(owner, v1.NotIn("")) {
				continue // it says who does not run the loop, not that there is one
			}
			if ipam || loop != string(controllernames.NodeIPAM) {
				out[loop] = KCM
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
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

// reenable switches leader migration on again in the cloud-controller-managers, days later if need be, and takes back what was changed in a
// kube-controller-manager after it had become external: a kubelet that goes back to the in-tree plugins needs a manager that still has them.
func (r *rollback) reenable() {
	r.nodesBack()
	r.restoreEach(PhaseReenable, r.ownerLast(KCM, r.afterwards()))
	finished := r.ownerLast(CCM, r.started(byID("finish/"+CCM)))
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

// afterwards are the changes of kube-controller-managers that were external already, each place once: the first of them goes back furthest.
func (r *rollback) afterwards() []v1.Step {
	external := map[string]bool{}
	return distinct(r.started(func(s v1.Step) bool {
		if s.Component != KCM || !edits(s) {
			return false
		}
		if strings.HasPrefix(s.ID, "external/"+KCM+"@") {
			external[place(s)] = true
			return false
		}
		return external[place(s)]
	}))
}

// edits tells the kinds of steps that change what a component runs with.
func edits(s v1.Step) bool {
	switch s.Kind {
	case v1.StepEditManifest, v1.StepEditUnit, v1.StepEditWorkload:
		return true
	case v1.StepRestoreManifest, v1.StepStartUnit, v1.StepScale:
		return len(s.Edits) > 0
	default:
		return false
	}
}

// place names the file or object that a step changes.
func place(s v1.Step) string {
	if s.Path == "" {
		return s.Ref
	}
	return s.Host + ":" + s.Path
}

// distinct keeps the first step for each place.
func distinct(steps []v1.Step) []v1.Step {
	seen := map[string]bool{}
	var out []v1.Step
	for _, s := range steps {
		if !seen[place(s)] {
			out = append(out, s)
		}
		seen[place(s)] = true
	}
	return out
}

// nodesBack takes taints back that no cloud-controller-manager has acted upon.
func (r *rollback) nodesBack() {
	for _, s := range r.started(func(s v1.Step) bool { return s.Kind == v1.StepInitializeNode }) {
		if r.records[s.ID].Result == "done" || r.records[s.ID].Result == "already-done" {
			continue // it has its provider id, which stays
		}
		r.add(v1.Step{
			ID: "undo/" + s.ID, Phase: PhaseReenable, Kind: v1.StepInitializeNode, Title: "take the taint from " + s.Ref + " that waits for the cloud-controller-manager",
			Ref: s.Ref, Restore: s.ID, Requires: []string{"cluster:uid"}, EstimateSeconds: 0.1, Undo: "transplant apply",
			Changes: []v1.Change{{Field: "taint node.cloudprovider.kubernetes.io/uninitialized", Before: "true:NoSchedule"}},
		})
	}
}

// kubeletsBack puts the kubelets back, each file once and as it was before the first change of it. A node that was drained on the way there is drained
// on the way back: its pods' volumes change hands again.
func (r *rollback) kubeletsBack() {
	all := r.started(func(s v1.Step) bool { return s.Kind == v1.StepKubelet })
	drain := map[string]bool{}
	for _, s := range all {
		drain[s.Host] = drain[s.Host] || s.Drain
	}
	for _, s := range distinct(all) {
		s.Drain = drain[s.Host]
		r.add(r.restore(PhaseKubeletsR, s))
	}
}

// patchesBack puts back the fields of objects, the last one changed first.
func (r *rollback) patchesBack() {
	patched := r.started(func(s v1.Step) bool { return s.Kind == v1.StepPatchObject })
	for i := len(patched) - 1; i >= 0; i-- {
		s := patched[i]
		out := v1.Step{
			ID: "undo/" + s.ID, Phase: PhaseOriginal, Kind: v1.StepUnpatchObject, Title: "put back what " + s.Ref + " had before phase " + s.Phase,
			Ref: s.Ref, Component: s.Component, Derive: s.Derive, Restore: s.ID, Requires: []string{"cluster:uid"}, EstimateSeconds: 0.1, Undo: "transplant apply",
		}
		for _, c := range s.Changes {
			out.Changes = append(out.Changes, v1.Change{Field: c.Field, Before: c.After, After: c.Before})
		}
		r.add(out)
	}
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
	switch s.Kind {
	case v1.StepEditUnit, v1.StepStartUnit:
		out.Kind, out.Unit = v1.StepEditUnit, s.Unit
	case v1.StepEditWorkload, v1.StepScale:
		out.Kind, out.Ref, out.Title, out.Group = v1.StepEditWorkload, s.Ref, "put "+s.Ref+" back as it was before phase "+s.Phase, ""
	case v1.StepKubelet:
		out.Kind, out.Title, out.Drain = v1.StepKubelet, "put back the flags of the kubelet on "+s.Host, s.Drain
		out.Files, out.Batch = s.Files, s.Batch
	default:
	}
	if s.Component == CCM || s.Component == KCM {
		out.Successors = []string{s.Component}
	}
	return out
}

// removeCCM takes the cloud-controller-managers off the hosts; with the last one the loops go back to the in-tree manager.
func (r *rollback) removeCCM() {
	for _, s := range r.ownerLast(CCM, r.started(func(s v1.Step) bool { return s.Kind == v1.StepAddManifest && s.Component == CCM })) {
		r.add(v1.Step{
			ID: "undo/" + s.ID, Phase: PhaseHandback, Kind: v1.StepRemoveManifest, Title: "stop " + CCM + " on " + s.Host,
			Why:  "the owner's comes last, when only the in-tree managers are left to take the migration lease",
			Host: s.Host, Component: CCM, Path: s.Path, Restore: s.ID, Leases: []string{CCM, r.opts.LeaseName}, Successors: []string{CCM, KCM},
			Group: PhaseHandback + "@" + s.Host, Requires: []string{"cluster:uid"}, EstimateSeconds: 10, Undo: "transplant apply",
			Changes: []v1.Change{{Field: s.Path, Before: "started by this migration"}},
		})
	}
	for _, s := range r.started(ccmWorkload) {
		r.add(v1.Step{
			ID: "undo/" + s.ID, Phase: PhaseHandback, Kind: v1.StepDeleteObject, Title: "delete " + s.Ref + ", if this migration made it, and wait until its pods are gone",
			Ref: s.Ref, Component: s.Component, Restore: s.ID, Requires: []string{"cluster:uid"}, EstimateSeconds: 30, Undo: "transplant apply",
			Changes: []v1.Change{{Field: s.Ref, Before: "created"}},
		})
	}
}

// ccmWorkload tells the object that runs the cloud-controller-manager, or another part of the cloud provider, from those that it needs.
func ccmWorkload(s v1.Step) bool {
	return s.Kind == v1.StepEnsureObject && (strings.HasPrefix(s.Ref, "DaemonSet/") || strings.HasPrefix(s.Ref, "Deployment/"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// original puts back every component as it was before the migration, host by host, the owner's host last. Of a component that was changed several
// times the oldest backup counts.
func (r *rollback) original() {
	changed := r.notYet(distinct(r.started(func(s v1.Step) bool {
		return edits(s) && s.Component != CCM && !strings.HasPrefix(s.ID, "external/"+KCM+"@")
	})))
	var managers, others []v1.Step
	for _, s := range changed {
		if s.Component == KCM {
			managers = append(managers, s)
			continue
		}
		others = append(others, s)
	}
	done := map[string]bool{}
	for _, s := range r.ownerLast(KCM, managers) {
		if r.undone("undo/" + s.ID) {
			continue // of afterwards, when nothing was changed before it
		}
		back := r.restore(PhaseOriginal, s)
		back.Expect = r.expectBack(false)
		r.add(back)
		for _, o := range others {
			if o.Host == s.Host {
				done[o.ID] = true
				r.add(r.unled(o, PhaseOriginal))
			}
		}
	}
	for _, o := range others {
		if !done[o.ID] {
			r.add(r.unled(o, PhaseOriginal))
		}
	}
}

// unled restores a component that holds none of the leases of a migration.
func (r *rollback) unled(s v1.Step, phase string) v1.Step {
	back := r.restore(phase, s)
	back.Leases, back.Successors = nil, nil
	return back
}

func (r *rollback) undone(id string) bool {
	for _, s := range r.steps {
		if s.ID == id {
			return true
		}
	}
	return false
}

// cleanup removes what the migration made, in the reverse order of making it.
func (r *rollback) cleanup() {
	var made []v1.Step
	for _, s := range r.started(func(s v1.Step) bool {
		return s.Kind == v1.StepWriteFile || s.Kind == v1.StepCopyFile || s.Kind == v1.StepEnsureObject && !ccmWorkload(s) && s.Ref != GCEIdentity
	}) {
		made = append([]v1.Step{s}, made...)
	}
	for _, lease := range []string{r.opts.LeaseName, CCM} {
		r.deleteObject(PhaseCleanup, "undo/lease/", "Lease/"+Namespace+"/"+lease, "it was not there before")
	}
	state := "ConfigMap/" + Namespace + "/" + StateName(r.provider())
	if len(made) > 0 && !slices.ContainsFunc(made, func(s v1.Step) bool { return s.Ref == state }) { // one that the manager made by itself
		r.deleteObject(PhaseCleanup, "undo/state/", state, "it was not there before; nobody else reads it")
	}
	for _, s := range made {
		if s.Kind != v1.StepEnsureObject {
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
