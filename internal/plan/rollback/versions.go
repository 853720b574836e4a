package rollback

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// imageStep returns the step of a migration that gave a component another version.
func imageStep(component string) func(v1.Step) bool {
	return func(s v1.Step) bool { return s.Component == component && planstep.ChangesImage(s) }
}

// restoreSchedulers takes the schedulers back to their version before the first API server: no scheduler may be newer
// than an API server.
func (r *rollback) restoreSchedulers() {
	for _, s := range planstep.FirstPerPlace(r.startedSteps(imageStep(component.Scheduler))) {
		r.draft.Add(r.restoreLeaderless(s, planstep.PhaseDowngrade))
	}
}

// withoutRestored leaves out the components that an earlier part of this rollback has put back.
func (r *rollback) withoutRestored(steps []v1.Step) []v1.Step {
	return slices.DeleteFunc(steps, func(s v1.Step) bool { return r.hasStep("undo/" + s.ID) })
}

// describeImage is what a reader sees of the image that a component has again.
func (r *rollback) describeImage(s v1.Step) []v1.Change {
	for _, o := range r.journal.Plan.Steps {
		if o.Host != s.Host || o.Component != s.Component {
			continue
		}
		for _, c := range o.Changes {
			if c.Field == planstep.FieldImage && planstep.ChangesImage(o) {
				return []v1.Change{{Field: c.Field, Before: c.After, After: c.Before}}
			}
		}
	}
	return nil
}

// describeDowngrade says what a rollback of an upgrade does and what is not promised of it.
func (r *rollback) describeDowngrade() []string {
	u := draft.UpgradeOf(r.draft.Options)
	if !u.IsWanted() || len(r.startedSteps(planstep.ChangesImage)) == 0 {
		return nil
	}
	out := []string{
		fmt.Sprintf(
			"versions: what got %s goes back to the version before it, managers and schedulers before the first API server",
			u.Version,
		),
		fmt.Sprintf(
			"not promised: objects that API servers of %s wrote stay in etcd as they were written. API servers of the minor version before can read what a version stores by default, as upstream's tests prove; "+
				"fields and resources that are new in %s are lost or cannot be reached; so is what was stored with feature gates that the version before does not have",
			u.Version,
			u.Version,
		),
	}
	var newer []string
	for _, n := range r.draft.Snapshot.Nodes {
		if k, err := clusterview.ParseMinor("", n.KubeletVersion); err == nil && k >= u.Minor && r.oldestMinorBefore() < k {
			newer = append(newer, n.Name+" ("+n.KubeletVersion+")")
		}
	}
	if len(newer) > 0 {
		out = append(
			out,
			fmt.Sprintf(
				"outside the version skew policy: the kubelets of %s are newer than the API servers will be; that is not tested, so revert them first",
				english.FirstOf(5, newer),
			),
		)
	}
	return out
}

// oldestMinorBefore is the oldest minor that API servers had before the migration; that of the upgrade when the plan
// does not say.
func (r *rollback) oldestMinorBefore() int {
	out := draft.UpgradeOf(r.draft.Options).Minor
	for _, s := range r.journal.Plan.Steps {
		for _, c := range s.Changes {
			if n, err := clusterview.ParseMinor(
				c.Before,
				"",
			); err == nil && s.Component == component.KAS && c.Field == planstep.FieldImage &&
				strings.Contains(c.Before, ":") {
				out = min(out, n)
			}
		}
	}
	return out
}
