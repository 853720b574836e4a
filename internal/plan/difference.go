package plan

import (
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// FindDifferences makes a plan again, of the cluster as it is now and with the options of the plan. It says in which
// steps and fields the plan differs from what is made: nil when it does not. Plans are deterministic, so whatever
// differs was changed in the plan, or has changed in the cluster. An error says that no plan can be made.
//
// Two things may have changed since without making another plan of it. One is which host owns the loops, since the
// engine asks that again. The other is which nodes have volumes of the in-tree plugins mounted, as long as the plan
// drains all of them.
func FindDifferences(p *v1.Plan, snap *v1.Snapshot) (made *v1.Plan, differences []string, err error) {
	drained := withDrains(p, snap)
	if made, err = Make(drained, p.Options, nil, time.Time{}); err != nil {
		return nil, nil, err
	}
	if differences = compare.DescribeDifferences(p, made); len(differences) == 0 {
		return made, nil, nil
	}
	for _, h := range snap.Hosts {
		if clusterview.FindComponent(h, component.KCM) == nil {
			continue
		}
		if other, err := Make(
			ownedBy(drained, h.Name),
			p.Options,
			nil,
			time.Time{},
		); err == nil &&
			len(compare.DescribeDifferences(p, other)) == 0 {
			return other, nil, nil
		}
	}
	return made, differences, nil
}

// FindRollbackDifferences makes the rollback that stands in a journal again, of the plan and the records in it. It says
// in which steps and fields the stored one differs from what is made. Words for readers may differ.
func FindRollbackDifferences(doc *v1.Journal, snap *v1.Snapshot) ([]string, error) {
	stored := *doc.Rollback
	made, err := rollbackAgain(doc, snap)
	if err != nil {
		return nil, err
	}
	stored.Steps, made.Steps = compare.WithoutWords(stored.Steps), compare.WithoutWords(made.Steps)
	return compare.DescribeDifferences(&stored, made), nil
}

// rollbackAgain makes the rollback that stands in a journal again.
func rollbackAgain(doc *v1.Journal, snap *v1.Snapshot) (*v1.Plan, error) {
	before := *doc
	before.Rollback = nil
	back := map[string]bool{}
	for _, s := range doc.Rollback.Steps {
		back[s.ID] = true
	}
	before.Records = slices.DeleteFunc(slices.Clone(doc.Records), func(r v1.StepRecord) bool { return back[r.ID] })
	return rollback.Make(&before, snap, time.Time{})
}

// Reworded returns the plan of a journal with the words of the plan that is made again of the snapshot from before the
// migration. Words are in no digest, and who may write the journal writes them. A step that is not made again is shown
// by its kind and what it is about.
func Reworded(p *v1.Plan, before *v1.Snapshot) *v1.Plan {
	if before == nil {
		return reworded(p, nil)
	}
	made, _, err := FindDifferences(p, before)
	if err != nil {
		made = nil
	}
	return reworded(p, made)
}

// RewordedRollback is Reworded for the rollback that stands in a journal.
func RewordedRollback(doc *v1.Journal, snap *v1.Snapshot) *v1.Plan {
	made, err := rollbackAgain(doc, snap)
	if err != nil {
		made = nil
	}
	return reworded(doc.Rollback, made)
}

// Retitled returns a journal with the titles of the plans that are made again, of the snapshots from before the
// migration and from now.
func Retitled(doc v1.Journal, before, now *v1.Snapshot) v1.Journal {
	if doc.Rollback != nil {
		back := *doc.Rollback
		back.Steps = retitled(back.Steps, RewordedRollback(&doc, now).Steps)
		doc.Rollback = &back
	}
	doc.Plan.Steps = retitled(doc.Plan.Steps, Reworded(&doc.Plan, before).Steps)
	return doc
}

func retitled(steps, words []v1.Step) []v1.Step {
	out := slices.Clone(steps)
	for i := range out {
		out[i].Title = words[i].Title
	}
	return out
}

func reworded(p, made *v1.Plan) *v1.Plan {
	out, steps, details := *p, map[string]v1.Step{}, map[string]string{}
	out.Effects = nil
	if made != nil {
		out.Effects = made.Effects
		for _, s := range made.Steps {
			steps[s.ID] = s
		}
		for _, f := range made.Facts {
			details[f.ID] = f.Detail
		}
	}
	out.Facts = slices.Clone(p.Facts)
	for i := range out.Facts {
		out.Facts[i].Detail = details[out.Facts[i].ID]
	}
	out.Steps = compare.WithoutWords(p.Steps)
	for i, s := range out.Steps {
		words, is := steps[s.ID]
		if is && compare.Sum([]v1.Step{words}) == compare.Sum([]v1.Step{s}) {
			out.Steps[i] = words
			continue
		}
		out.Steps[i].Title = planstep.Words(s) + " (not made again by this version: shown without its title)"
	}
	return &out
}

// ownedBy is a snapshot in which the manager on a host leads.
func ownedBy(snap *v1.Snapshot, host string) *v1.Snapshot {
	out := *snap
	out.Managers = slices.Clone(snap.Managers)
	found := false
	for i := range out.Managers {
		m := &out.Managers[i]
		if m.Component != component.KCM {
			continue
		}
		m.Leads = slices.DeleteFunc(slices.Clone(m.Leads), func(l string) bool { return l == component.KCM })
		if m.Host == host {
			m.Leads, m.Error, found = append(m.Leads, component.KCM), "", true
		}
	}
	if !found {
		out.Managers = append(out.Managers, v1.Manager{Component: component.KCM, Host: host, Leads: []string{component.KCM}})
	}
	return &out
}

// withDrains is a snapshot in which the nodes that a plan drains have a volume of an in-tree plugin mounted. They had
// one when the plan was made.
func withDrains(p *v1.Plan, snap *v1.Snapshot) *v1.Snapshot {
	known, err := clusterview.LookupSupported(p.Cluster.Provider)
	if err != nil || len(known.Plugins) == 0 {
		return snap
	}
	drains := map[string]bool{}
	for _, s := range p.Steps {
		if s.Kind == v1.StepKubelet && s.Drain {
			drains[s.Host] = true
		}
	}
	out := *snap
	out.Nodes = slices.Clone(snap.Nodes)
	for _, h := range snap.Hosts {
		for i := range out.Nodes {
			n := &out.Nodes[i]
			if !drains[h.Name] || n.Name != h.NodeName {
				continue
			}
			n.VolumesInUse = slices.Clone(n.VolumesInUse)
			for _, plugin := range known.Plugins {
				n.VolumesInUse = append(n.VolumesInUse, plugin.Name+"/mounted-when-planned")
			}
		}
	}
	return &out
}
