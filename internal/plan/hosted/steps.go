package hosted

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// expectOwners gives the loops that this cluster has the owners that are wanted; nil where the managers do not say what
// they run.
func expectOwners(d *draft.Draft, in map[string]string) map[string]string {
	if !d.ReportsLoops() {
		return nil
	}
	return ofLoops(expectedLoops(d), in)
}

// ofLoops takes these loops of owners. Node IPAM, where it moves, has the owner of the others.
func ofLoops(loops []string, in map[string]string) map[string]string {
	out := map[string]string{}
	for _, l := range loops {
		owner, ok := in[l]
		if !ok {
			owner = in[string(controllernames.NodeLifecycle)]
		}
		out[l] = owner
	}
	return out
}

// expectNowhere are all moved loops, none of which a component may run.
func expectNowhere(d *draft.Draft, manager string) map[string]string {
	if !catalogue.ShowsLoops(component.KCM, d.KCMMinor) {
		return nil
	}
	loops := make([]string, 0, len(d.MovedLoops()))
	for _, l := range d.MovedLoops() {
		loops = append(loops, string(l))
	}
	return ofLoops(loops, draft.OwnedBy(v1.NotIn(manager)))
}

func seedRef(d *draft.Draft, kind, name string) string {
	return kind + "/" + d.Snapshot.Cluster.Seed + "/" + name
}

func seedMetadata(d *draft.Draft, name string) layout.Object {
	return layout.Metadata(name, d.Snapshot.Cluster.Seed)
}

// editWorkload completes a step that edits a Deployment in the seed.
func editWorkload(d *draft.Draft, c *v1.Component, s v1.Step) {
	s.Kind, s.Component, s.Ref = v1.StepEditWorkload, c.Name, c.Manifest
	s.Requires = append(
		s.Requires,
		"cluster:uid",
		"seed:uid",
		d.AddFact(planstep.SeedFact(c), c.SHA256, strings.Join(c.Command, "\n")),
	)
	s.Changes = planstep.DescribeFlagEdits(s.Edits, c.Flags)
	for _, e := range s.Edits {
		switch e.Op {
		case v1.EditMountConfigMap:
			s.Changes = append(s.Changes, v1.Change{Field: "mount " + e.Path, After: "ConfigMap " + e.Value})
		case v1.EditUnmount:
			s.Changes = append(s.Changes, v1.Change{Field: "mount of volume " + e.Name, Before: "mounted"})
		default: // no other edit is about this
		}
	}
	s.Undo, s.EstimateSeconds = "put the arguments back as the record has them", 45
	d.Add(s)
	for _, e := range s.Edits {
		switch e.Op {
		case v1.EditSetFlag:
			c.Flags = flagvalue.MergeFlags(c.Flags, map[string]string{e.Name: e.Value})
		case v1.EditUnsetFlag:
			c.Flags = flagvalue.MergeFlags(c.Flags, nil)
			delete(c.Flags, e.Name)
		default: // no other edit is about this
		}
	}
}

func verifyOwners(d *draft.Draft, phase, id string, expect map[string]string) {
	d.Add(v1.Step{
		ID:              id,
		Phase:           phase,
		Kind:            v1.StepVerify,
		Title:           "each loop has one owner, nodes and load balancers are as before",
		Ref:             managerRef(d),
		Component:       component.CCM,
		Leases:          []string{component.CCM},
		Successors:      []string{component.CCM},
		Expect:          expectOwners(d, expect),
		EstimateSeconds: 2,
	})
}
