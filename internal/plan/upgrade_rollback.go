package plan

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// imageStep tells a step of a migration that gave a component another version.
func imageStep(component string) func(v1.Step) bool {
	return func(s v1.Step) bool { return s.Component == component && changesImage(s) }
}

// schedulersBack takes the schedulers back to their version before the first API server: no scheduler may be newer than an API server.
func (r *rollback) schedulersBack() {
	for _, s := range distinct(r.started(imageStep(Scheduler))) {
		r.add(r.unled(s, PhaseDowngrade))
	}
}

// notYet leaves out the components that an earlier part of this rollback has put back.
func (r *rollback) notYet(steps []v1.Step) []v1.Step {
	return slices.DeleteFunc(steps, func(s v1.Step) bool { return r.undone("undo/" + s.ID) })
}

// imageBack is what a reader sees of the image that a component has again.
func (r *rollback) imageBack(s v1.Step) []v1.Change {
	for _, o := range r.journal.Plan.Steps {
		if o.Host != s.Host || o.Component != s.Component {
			continue
		}
		for _, c := range o.Changes {
			if c.Field == fieldImage && changesImage(o) {
				return []v1.Change{{Field: c.Field, Before: c.After, After: c.Before}}
			}
		}
	}
	return nil
}

// downgradeEffects says what a rollback of an upgrade does and what nobody can promise of it.
func (r *rollback) downgradeEffects() []string {
	u := ofOptions(r.opts)
	if !u.wanted() || len(r.started(changesImage)) == 0 {
		return nil
	}
	out := []string{
		fmt.Sprintf("versions: what got %s goes back to the version before it, managers and schedulers before the first API server", u.version),
		fmt.Sprintf("not promised: objects that API servers of %s wrote stay in etcd as they were written. API servers of one minor version before can read what a version stores by default, which is what upstream's tests try; "+
			"fields and resources that are new in %s are lost or out of reach, and so is what somebody stored with feature gates that the version before does not have", u.version, u.version),
	}
	var newer []string
	for _, n := range r.snap.Nodes {
		if k, err := minor("", n.KubeletVersion); err == nil && k >= u.minor && r.minorBefore() < k {
			newer = append(newer, n.Name+" ("+n.KubeletVersion+")")
		}
	}
	if len(newer) > 0 {
		out = append(out, fmt.Sprintf("outside the version skew policy: the kubelets of %s are newer than the API servers will be; nobody has tried that, so take them back first", few(newer)))
	}
	return out
}

// minorBefore is the oldest minor that API servers had before the migration; that of the upgrade when the plan does not say.
func (r *rollback) minorBefore() int {
	out := ofOptions(r.opts).minor
	for _, s := range r.journal.Plan.Steps {
		for _, c := range s.Changes {
			if n, err := minor(c.Before, ""); err == nil && s.Component == KAS && c.Field == fieldImage && strings.Contains(c.Before, ":") {
				out = min(out, n)
			}
		}
	}
	return out
}

// VerifyRollback says where a rollback would leave versions that do not fit each other: the one rule that holds of the way back, too.
func VerifyRollback(p *v1.Plan, snap *v1.Snapshot) error {
	if err := skewKept(&reading{Plan: p, snap: snap}); err != nil {
		return fmt.Errorf("rule %s: %w", skewRule, err)
	}
	return nil
}

// skewRule is the ID of the rule that VerifyRollback looks at.
const skewRule = "P-36"
