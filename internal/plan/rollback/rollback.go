// Package rollback plans the way back from wherever a migration stands.
package rollback

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/outline"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Make plans the way back from wherever a migration stands. It takes what the journal says was started, because only
// that can have changed. Each step looks at the live cluster before it acts, so that what was started and never done
// costs nothing.
//
// The order is not the mirror image of the way there. The kube-controller-managers become in-tree again before the last
// cloud-controller-manager goes. A kube-apiserver is restored only after its host's managers own nothing.
func Make(j *v1.Journal, snap *v1.Snapshot, now time.Time) (*v1.Plan, error) {
	if j.Plan.Cluster.UID != snap.Cluster.UID {
		return nil, fmt.Errorf(
			"the journal belongs to the cluster with uid %s, this one has %s",
			j.Plan.Cluster.UID,
			snap.Cluster.UID,
		)
	}
	r := &rollback{journal: j, records: map[string]v1.StepRecord{}, draft: draft.New(snap, j.Plan.Options)}
	for _, rec := range j.Records {
		r.records[rec.ID] = rec
	}
	r.draft.AddFact("cluster:uid", snap.Cluster.UID, "")
	switch {
	case j.Plan.Cluster.Seed != "":
		r.planHosted()
	case j.Plan.Options.ReplaceHosts:
		if err := r.planReplaced(); err != nil {
			return nil, err
		}
	case j.Plan.Strategy == planstep.Downtime:
		r.restoreMoved()
		r.planDowntime()
	default:
		r.restoreMoved()
		r.planLeaderMigration()
	}
	p := &v1.Plan{
		TypeMeta: v1.Type(
			v1.KindPlan,
		),
		Created:     now.UTC(),
		ToolVersion: snap.ToolVersion,
		Cluster:     clusterOf(j, snap),
		Strategy:    j.Plan.Strategy,
		Direction:   planstep.Rollback,
		Options:     r.draft.Options,
		Facts:       r.draft.SortedFacts(),
		Steps:       r.draft.Steps,
		Effects:     append(effect.Describe(planstep.Rollback, snap, r.draft.Steps, r.draft.Options), leftovers...),
	}
	if gap := outline.GapBack(p.Steps); gap > 0 {
		p.Effects = append(
			p.Effects,
			fmt.Sprintf(
				"gap: for about %d s no manager runs the cloud loops; load balancers, routes and nodes stay as they are",
				gap,
			),
		)
	}
	if n := len(r.startedSteps(func(s v1.Step) bool { return s.Kind == v1.StepInitializeNode })); n > 0 {
		p.Effects = append(
			p.Effects,
			fmt.Sprintf(
				"left behind: the provider ids that %s got; the API server lets no client change one, and the in-tree manager works with them",
				english.Count(n, "node"),
			),
		)
	}
	p.Effects = append(p.Effects, r.describeDowngrade()...)
	if err := planstep.CheckUniqueIDs(p.Steps); err != nil {
		return nil, err
	}
	return p, invariant.VerifyRollback(p, snap)
}

// clusterOf is the cluster with the provider that the migration knew. After it no flag on a host need say which one it
// is: a DaemonSet has no file there.
func clusterOf(j *v1.Journal, snap *v1.Snapshot) v1.Cluster {
	out := snap.Cluster
	out.Provider = cmp.Or(j.Plan.Cluster.Provider, out.Provider)
	return out
}

// restoreMoved puts back managers that were stopped to hand over before the API server of their host was restarted, and
// never started again. That is a part of the API server's step: the plan has no step of its own that would put them
// back.
func (r *rollback) restoreMoved() {
	for _, rec := range r.journal.Records {
		id, component, moving := strings.Cut(rec.ID, planstep.MovingInfix)
		if !moving || rec.Result != v1.StepResultStarted {
			continue
		}
		for _, s := range r.journal.Plan.Steps {
			if s.ID != id || len(r.startedSteps(func(o v1.Step) bool { return o.Host == s.Host && o.Path == rec.Path })) > 0 {
				continue // what changed the manager itself puts it back
			}
			back := v1.Step{
				ID:              "undo/" + id + "/moved-" + component,
				Phase:           planstep.PhaseReenable,
				Kind:            v1.StepRestoreManifest,
				Title:           "start " + component + " on " + s.Host + ", which was stopped to hand over",
				Host:            s.Host,
				Component:       component,
				Path:            rec.Path,
				Restore:         rec.ID,
				Requires:        []string{"cluster:uid"},
				EstimateSeconds: 25,
				Undo:            "transplant apply",
				Changes:         []v1.Change{{Field: component, Before: "stopped", After: "as it was"}},
			}
			if !strings.HasPrefix(rec.Path, controlplane.ManifestDir+"/") {
				back.Kind, back.Unit, back.Restore = v1.StepStartUnit, component+".service", ""
			}
			r.draft.Add(back)
		}
	}
}

// planLeaderMigration is the rollback under the lease that both managers respect, without a moment in which no manager
// may run the loops.
func (r *rollback) planLeaderMigration() {
	r.reenableMigration()
	r.restoreKubelets()
	r.restoreEach(
		planstep.PhaseInTree,
		r.ownerLast(component.KCM, r.startedSteps(matchesID("external/"+component.KCM+"@"))),
	)
	r.removeCCM()
	r.restoreSchedulers()
	r.restoreOriginals()
	r.revertPatches()
	r.verifyOwners()
	r.cleanUp()
}

// verifyOwners looks before the account goes that may read the gauges.
func (r *rollback) verifyOwners() {
	r.draft.Add(v1.Step{
		ID:              "verify/rolled-back",
		Phase:           planstep.PhaseOriginal,
		Kind:            v1.StepVerify,
		Title:           "each loop has one owner, nodes and load balancers are as before",
		Expect:          r.expectedOwners(true),
		EstimateSeconds: 2,
	})
}

// expectedOwners gives every loop that the migration looked at to the kube-controller-manager. Which loops there are is
// asked of the plan: the flags that say so may be among those that it changed. Node IPAM is looked at in the end only:
// v1.26 sleeps for 10 s before it runs it.
func (r *rollback) expectedOwners(ipam bool) map[string]string {
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
				out[loop] = component.KCM
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
	"left behind: the journal (ConfigMaps kube-system/transplant-journal and -before), the backups under " + layout.Dir + " on each host, Events, and higher counts of lease transitions",
}

type rollback struct {
	draft   *draft.Draft
	journal *v1.Journal
	records map[string]v1.StepRecord
}

func matchesID(prefix string) func(v1.Step) bool {
	return func(s v1.Step) bool { return strings.HasPrefix(s.ID, prefix) }
}

func isStep(id string) func(v1.Step) bool { return func(s v1.Step) bool { return s.ID == id } }

// startedSteps returns the steps of the migration that were begun and match.
func (r *rollback) startedSteps(match func(v1.Step) bool) []v1.Step {
	return r.allSteps(func(s v1.Step) bool {
		_, ok := r.records[s.ID]
		return ok && match(s)
	})
}

// allSteps returns the steps of the migration that match, begun or not.
func (r *rollback) allSteps(match func(v1.Step) bool) []v1.Step {
	var out []v1.Step
	for _, s := range r.journal.Plan.Steps {
		if match(s) {
			out = append(out, s)
		}
	}
	return out
}

// ownerLast puts the step on the host that owns the component's main lease behind the others.
func (r *rollback) ownerLast(comp string, steps []v1.Step) []v1.Step {
	owner := clusterview.OwnerHost(r.draft.Snapshot, comp)
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].Host != owner && steps[j].Host == owner })
	return steps
}

// reenableMigration switches leader migration on again in the cloud-controller-managers, days later if need be. It also
// takes back what was changed in a kube-controller-manager after it had become external. A kubelet that goes back to
// the in-tree plugins needs a manager that still has them.
func (r *rollback) reenableMigration() {
	r.removeTaints()
	r.restoreEach(planstep.PhaseReenable, r.ownerLast(component.KCM, r.laterManagerSteps()))
	templates := r.startedSteps(isStep("finish/" + component.CCM))
	finished := r.startedSteps(matchesID("finish/" + component.CCM + "@"))
	if len(templates) > 0 { // a pod of the new template may be on any host: its kubelet may have evicted the old one
		finished = r.replacements()
	}
	finished = r.ownerLast(component.CCM, finished)
	if len(templates) == 0 && len(finished) == 0 && len(r.startedSteps(matchesID("delete/"))) == 0 &&
		len(r.startedSteps(matchesID("remove/"))) == 0 {
		return
	}
	for _, s := range r.journal.Plan.Steps {
		again := s.Kind == v1.StepEnsureObject &&
			layout.ContainsRef(layout.MigrationObjects(r.draft.Options.LeaseName), s.Ref) ||
			s.Kind == v1.StepWriteFile && (s.Path == layout.KCMMigration || s.Path == layout.CCMMigration)
		if _, done := r.records[s.ID]; !again || !done {
			continue
		}
		s.ID, s.Phase, s.Requires = "again/"+s.ID, planstep.PhaseReenable, []string{"cluster:uid"}
		r.draft.Add(s)
	}
	for _, s := range templates { // before the pods of a DaemonSet, which start from it
		r.draft.Add(r.restoreLeaderless(s, planstep.PhaseReenable))
	}
	r.restoreEach(planstep.PhaseReenable, finished)
}

// replacements are the steps that replace the pods of the manager's DaemonSet. Plans of earlier versions have none.
func (r *rollback) replacements() []v1.Step {
	d := draft.New(r.draft.Snapshot, r.draft.Options)
	for _, s := range r.allSteps(matchesID("external/" + component.KCM + "@")) {
		d.Hosts = append(d.Hosts, v1.Host{Name: s.Host})
	}
	ccm.ReplacePods(d)
	return d.Steps
}

// laterManagerSteps are the changes of kube-controller-managers that were external already, each place once: the first
// of them goes back furthest.
func (r *rollback) laterManagerSteps() []v1.Step {
	external := map[string]bool{}
	return planstep.FirstPerPlace(r.startedSteps(func(s v1.Step) bool {
		if s.Component != component.KCM || !planstep.ChangesComponent(s) {
			return false
		}
		if strings.HasPrefix(s.ID, "external/"+component.KCM+"@") {
			external[planstep.ChangedPlace(s)] = true
			return false
		}
		return external[planstep.ChangedPlace(s)]
	}))
}

// removeTaints takes taints back that no cloud-controller-manager has acted upon.
func (r *rollback) removeTaints() {
	for _, s := range r.startedSteps(func(s v1.Step) bool { return s.Kind == v1.StepInitializeNode }) {
		if r.records[s.ID].Result == v1.StepResultDone || r.records[s.ID].Result == v1.StepResultAlreadyDone {
			continue // it has its provider id, which stays
		}
		r.draft.Add(v1.Step{
			ID:              "undo/" + s.ID,
			Phase:           planstep.PhaseReenable,
			Kind:            v1.StepInitializeNode,
			Title:           "take the taint from " + s.Ref + " that waits for the cloud-controller-manager",
			Ref:             s.Ref,
			Restore:         s.ID,
			Requires:        []string{"cluster:uid"},
			EstimateSeconds: 0.1,
			Undo:            "transplant apply",
			Changes: []v1.Change{
				{Field: "taint node.cloudprovider.kubernetes.io/uninitialized", Before: "true:NoSchedule"},
			},
		})
	}
}

// restoreKubelets puts the kubelets back, each file once and as it was before the first change of it. A node that was
// drained on the way there is drained on the way back: its pods' volumes change hands again.
func (r *rollback) restoreKubelets() {
	all := r.startedSteps(func(s v1.Step) bool { return s.Kind == v1.StepKubelet })
	drain := map[string]bool{}
	for _, s := range all {
		drain[s.Host] = drain[s.Host] || s.Drain
	}
	for _, s := range planstep.FirstPerPlace(all) {
		s.Drain = drain[s.Host]
		r.draft.Add(r.restore(planstep.PhaseKubeletsBack, s))
	}
}

// revertPatches puts back the fields of objects, the last one changed first.
func (r *rollback) revertPatches() {
	patched := r.startedSteps(func(s v1.Step) bool { return s.Kind == v1.StepPatchObject })
	for i := len(patched) - 1; i >= 0; i-- {
		s := patched[i]
		out := v1.Step{
			ID:              "undo/" + s.ID,
			Phase:           planstep.PhaseOriginal,
			Kind:            v1.StepUnpatchObject,
			Title:           "put back what " + s.Ref + " had before phase " + s.Phase,
			Ref:             s.Ref,
			Component:       s.Component,
			Derive:          s.Derive,
			Restore:         s.ID,
			Requires:        []string{"cluster:uid"},
			EstimateSeconds: 0.1,
			Undo:            "transplant apply",
		}
		for _, c := range s.Changes {
			out.Changes = append(out.Changes, v1.Change{Field: c.Field, Before: c.After, After: c.Before})
		}
		r.draft.Add(out)
	}
}

// restoreEach puts back, for each step, what was there before it.
func (r *rollback) restoreEach(phase string, steps []v1.Step) {
	for _, s := range steps {
		r.draft.Add(r.restore(phase, s))
	}
}

func (r *rollback) restore(phase string, s v1.Step) v1.Step {
	out := v1.Step{
		ID:              "undo/" + s.ID,
		Phase:           phase,
		Kind:            v1.StepRestoreManifest,
		Title:           "put " + s.Component + " on " + s.Host + " back as it was before phase " + s.Phase,
		Host:            s.Host,
		Component:       s.Component,
		Path:            s.Path,
		Restore:         s.ID,
		Leases:          s.Leases,
		Group:           phase + "@" + s.Host,
		Requires:        []string{"cluster:uid"},
		EstimateSeconds: s.EstimateSeconds,
		Undo:            "transplant apply",
	}
	for _, c := range s.Changes {
		out.Changes = append(out.Changes, v1.Change{Field: c.Field, Before: c.After, After: c.Before})
	}
	switch s.Kind {
	case v1.StepEditUnit, v1.StepStartUnit:
		out.Kind, out.Unit = v1.StepEditUnit, s.Unit
	case v1.StepEditWorkload, v1.StepScale:
		out.Kind, out.Ref, out.Title, out.Group = v1.StepEditWorkload, s.Ref, "put "+s.Ref+" back as it was before phase "+s.Phase, ""
	case v1.StepReplacePod:
		out.Kind, out.Ref, out.Title, out.Restore = v1.StepReplacePod, s.Ref, "replace the pod of "+s.Ref+" on "+s.Host, ""
	case v1.StepKubelet:
		out.Kind, out.Title, out.Drain = v1.StepKubelet, "put back the flags of the kubelet on "+s.Host, s.Drain
		out.Files, out.Batch = s.Files, s.Batch
	default:
	}
	if s.Component == component.CCM || s.Component == component.KCM {
		out.Successors = []string{s.Component}
	}
	return out
}

// removeCCM takes the cloud-controller-managers off the hosts; with the last one the loops go back to the in-tree
// manager.
func (r *rollback) removeCCM() {
	for _, s := range r.ownerLast(
		component.CCM,
		r.startedSteps(func(s v1.Step) bool { return s.Kind == v1.StepAddManifest && s.Component == component.CCM }),
	) {
		r.draft.Add(v1.Step{
			ID:              "undo/" + s.ID,
			Phase:           planstep.PhaseHandback,
			Kind:            v1.StepRemoveManifest,
			Title:           "stop " + component.CCM + " on " + s.Host,
			Why:             "the owner's comes last, when only the in-tree managers are left to take the migration lease",
			Host:            s.Host,
			Component:       component.CCM,
			Path:            s.Path,
			Restore:         s.ID,
			Leases:          []string{component.CCM, r.draft.Options.LeaseName},
			Successors:      []string{component.CCM, component.KCM},
			Group:           planstep.PhaseHandback + "@" + s.Host,
			Requires:        []string{"cluster:uid"},
			EstimateSeconds: 10,
			Undo:            "transplant apply",
			Changes:         []v1.Change{{Field: s.Path, Before: "started by this migration"}},
		})
	}
	for _, s := range r.startedSteps(planstep.IsManagerWorkload) {
		back := v1.Step{
			ID:              "undo/" + s.ID,
			Phase:           planstep.PhaseHandback,
			Kind:            v1.StepDeleteObject,
			Title:           "delete " + s.Ref + ", if this migration made it, and wait until its pods are gone",
			Ref:             s.Ref,
			Component:       s.Component,
			Restore:         s.ID,
			Requires:        []string{"cluster:uid"},
			EstimateSeconds: 30,
			Undo:            "transplant apply",
			Changes:         []v1.Change{{Field: s.Ref, Before: "created"}},
		}
		if s.Ref == layout.CCMDaemonSet && r.journal.Plan.Strategy == planstep.LeaderMigration {
			back.Leases, back.Successors = []string{r.draft.Options.LeaseName}, []string{component.KCM}
		}
		r.draft.Add(back)
	}
}

// restoreOriginals puts back every component as it was before the migration, host by host, the owner's host last. Of a
// component that was changed several times the oldest backup counts.
func (r *rollback) restoreOriginals() {
	changed := r.withoutRestored(planstep.FirstPerPlace(r.startedSteps(func(s v1.Step) bool {
		return planstep.ChangesComponent(s) && s.Component != component.CCM &&
			!strings.HasPrefix(s.ID, "external/"+component.KCM+"@")
	})))
	var managers, others []v1.Step
	for _, s := range changed {
		if s.Component == component.KCM {
			managers = append(managers, s)
			continue
		}
		others = append(others, s)
	}
	done := map[string]bool{}
	for _, s := range r.ownerLast(component.KCM, managers) {
		if r.hasStep("undo/" + s.ID) {
			continue // of afterwards, when nothing was changed before it
		}
		back := r.restore(planstep.PhaseOriginal, s)
		back.Expect = r.expectedOwners(false)
		r.draft.Add(back)
		for _, o := range others {
			if o.Host == s.Host {
				done[o.ID] = true
				r.draft.Add(r.restoreLeaderless(o, planstep.PhaseOriginal))
			}
		}
	}
	for _, o := range others {
		if !done[o.ID] {
			r.draft.Add(r.restoreLeaderless(o, planstep.PhaseOriginal))
		}
	}
}

// restoreLeaderless restores a component that holds none of the leases of a migration.
func (r *rollback) restoreLeaderless(s v1.Step, phase string) v1.Step {
	back := r.restore(phase, s)
	back.Leases, back.Successors = nil, nil
	return back
}

func (r *rollback) hasStep(id string) bool {
	for _, s := range r.draft.Steps {
		if s.ID == id {
			return true
		}
	}
	return false
}

// cleanUp removes what the migration made, in the reverse order of making it.
func (r *rollback) cleanUp() {
	var made []v1.Step
	for _, s := range r.startedSteps(func(s v1.Step) bool {
		return s.Kind == v1.StepWriteFile || s.Kind == v1.StepCopyFile ||
			s.Kind == v1.StepEnsureObject && !planstep.IsManagerWorkload(s) && s.Ref != layout.CloudIdentity
	}) {
		made = append([]v1.Step{s}, made...)
	}
	for _, lease := range []string{r.draft.Options.LeaseName, component.CCM} {
		r.draft.DeleteObject(
			planstep.PhaseCleanup,
			"undo/lease/",
			"Lease/"+component.Namespace+"/"+lease,
			"it was not there before",
		)
	}
	state := "ConfigMap/" + component.Namespace + "/" + layout.StateName(r.provider())
	// one that the manager made by itself
	if len(made) > 0 && !slices.ContainsFunc(made, func(s v1.Step) bool { return s.Ref == state }) {
		r.draft.DeleteObject(planstep.PhaseCleanup, "undo/state/", state, "it was not there before; no other component reads it")
	}
	for _, s := range made {
		if s.Kind != v1.StepEnsureObject {
			r.draft.Add(v1.Step{
				ID:              "undo/" + s.ID,
				Phase:           planstep.PhaseCleanup,
				Kind:            v1.StepRemoveFile,
				Title:           "remove " + s.Path + " on " + s.Host + ", or put back what was there",
				Host:            s.Host,
				Path:            s.Path,
				Restore:         s.ID,
				Requires:        []string{"cluster:uid"},
				EstimateSeconds: 0.1,
				Undo:            "transplant apply",
				Changes:         []v1.Change{{Field: s.Path, Before: "written by this migration"}},
			})
			continue
		}
		r.draft.Add(v1.Step{
			ID:              "undo/" + s.ID,
			Phase:           planstep.PhaseCleanup,
			Kind:            v1.StepDeleteObject,
			Title:           "delete " + s.Ref + ", if this migration made it",
			Ref:             s.Ref,
			Restore:         s.ID,
			Requires:        []string{"cluster:uid"},
			EstimateSeconds: 0.1,
			Undo:            "transplant apply",
			Changes:         []v1.Change{{Field: s.Ref, Before: "created"}},
		})
	}
}
