package hosted

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/external"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// finishLeaderMigration switches leader migration off in the cloud-controller-manager, when no in-tree manager is left
// that wants the lease.
func finishLeaderMigration(d *draft.Draft) {
	ref := seedRef(d, "Deployment", layout.SeedDeploymentName(d.Provider.Name))
	d.Add(v1.Step{
		ID:         "finish/" + component.CCM,
		Phase:      planstep.PhaseFinish,
		Kind:       v1.StepEditWorkload,
		Component:  component.CCM,
		Ref:        ref,
		Title:      "switch leader migration off in " + ref,
		Why:        "no in-tree manager is left that could want the migration lease",
		Leases:     []string{component.CCM, d.Options.LeaseName},
		Successors: []string{component.CCM},
		Requires:   []string{"cluster:uid", "seed:uid"},
		Edits: []v1.Edit{
			{Op: v1.EditUnsetFlag, Name: "enable-leader-migration"},
			{Op: v1.EditUnsetFlag, Name: "leader-migration-config"},
			{Op: v1.EditUnmount, Name: layout.MigrationVolume},
		},
		Changes: []v1.Change{
			{Field: "--enable-leader-migration", Before: "true"},
			{Field: "--leader-migration-config", Before: layout.SeedMigrationDir + "/" + layout.SeedMigrationCCM},
		},
		Undo:            "put the arguments back as the record has them",
		EstimateSeconds: 30,
		Expect:          expectOwners(d, draft.OwnedBy(component.CCM)),
	})
	d.DeleteObject(
		planstep.PhaseFinish,
		"delete/",
		seedRef(d, "ConfigMap", layout.SeedMigration),
		"no manager reads it any longer",
	)
	d.DeleteObject(
		planstep.PhaseFinish,
		"delete/",
		"Lease/"+component.Namespace+"/"+d.Options.LeaseName,
		"no manager uses it any longer",
	)
	for _, o := range layout.MigrationObjects(d.Options.LeaseName) {
		d.DeleteObject(planstep.PhaseFinish, "delete/", layout.Ref(o), "the lease that it grants is gone")
	}
	verifyOwners(d, planstep.PhaseFinish, "verify/finished", draft.OwnedBy(component.CCM))
}

// removeProvider removes the in-tree provider from the control plane.
func removeProvider(d *draft.Draft, m *v1.Component) {
	d.Add(v1.Step{
		ID:              "verify/owner",
		Phase:           planstep.PhaseVerify,
		Kind:            v1.StepVerify,
		Title:           "the " + component.CCM + " runs every cloud loop",
		Ref:             managerRef(d),
		Component:       component.CCM,
		Leases:          []string{component.CCM},
		Successors:      []string{component.CCM},
		Expect:          expectOwners(d, draft.OwnedBy(component.CCM)),
		EstimateSeconds: 1,
	})
	if m.Flags["cloud-provider"] == d.Provider.Name {
		edits := externalEdits(m)
		edits = append(
			edits,
			flagvalue.EditGates(m.Flags[flagvalue.FlagFeatureGates], component.KCM, d.KCMMinor, unregisterGates(d, m))...)
		if a := m.Flags["cidr-allocator-type"]; a != "" && a != component.RangeAllocator { // its node IPAM has moved
			edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: "cidr-allocator-type"})
		}
		now := *m
		editWorkload(d, &now, v1.Step{
			ID:     "external/" + component.KCM + "@" + m.Manifest,
			Phase:  planstep.PhaseFinish,
			Title:  "make " + m.Manifest + " external",
			Why:    "no machine is left whose volumes the in-tree plugins attach",
			Leases: []string{component.KCM},
			Edits:  edits,
			Expect: expectOwners(d, draft.OwnedBy(component.CCM)),
		})
	}
	if c := clusterview.FindHosted(d.Snapshot, component.KAS); c != nil {
		if edits := external.APIServerEdits(d, c); len(edits) > 0 {
			now := *c
			editWorkload(d, &now, v1.Step{
				ID:    "external/" + component.KAS + "@" + c.Manifest,
				Phase: planstep.PhaseFinish,
				Title: "make " + c.Manifest + " external",
				Why:   "removes the provider from the API server (labels of persistent volumes)",
				Edits: edits,
			})
			if c.Replicas == nil || *c.Replicas < 2 {
				d.Notes = append(
					d.Notes,
					c.Manifest+" has one replica; unless its new pod is ready before the old one ends, the managers lose their leases while it is away; the loops start again when it is back; "+
						"no other manager can act meanwhile",
				)
			}
		}
	}
	verifyOwners(d, planstep.PhaseFinish, "verify/finished", draft.OwnedBy(component.CCM))
}

// unregisterGates removes the in-tree volume plugins, where the version has gates for that.
func unregisterGates(d *draft.Draft, m *v1.Component) []flagvalue.GateChange {
	set := flagvalue.ParseGates(m.Flags[flagvalue.FlagFeatureGates])
	var out []flagvalue.GateChange
	for _, p := range d.Provider.Plugins {
		if g := catalogue.GateFor(
			component.KCM,
			p.UnregisterGate,
			d.KCMMinor,
		); g.Known && !g.Default &&
			!set[p.UnregisterGate] {
			out = append(out, flagvalue.GateChange{Name: p.UnregisterGate, To: flagvalue.GateOn})
		}
	}
	return append(out, flagvalue.DropInTreeGates(
		m.Flags[flagvalue.FlagFeatureGates], d.Options.DisableInTree, catalogue.DisableCloudProviders,
	)...)
}
