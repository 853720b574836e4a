// Package external decides how a kube-controller-manager and a kube-apiserver lose their in-tree provider, and where
// node IPAM runs afterwards.
package external

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/upgrade"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

// EnableLeaderMigration adds the step that switches leader migration on in the kube-controller-manager of a host.
func EnableLeaderMigration(d *draft.Draft, h v1.Host) {
	m := d.ComponentAfter(h, component.KCM)
	edits := []v1.Edit{
		{Op: v1.EditSetFlag, Name: "enable-leader-migration", Value: "true"},
		{Op: v1.EditSetFlag, Name: "leader-migration-config", Value: layout.KCMMigration},
		{Op: v1.EditSetFlag, Name: "leader-elect-retry-period", Value: d.Options.RetryPeriod},
		{Op: v1.EditSetFlag, Name: "leader-elect-renew-deadline", Value: d.Options.RenewDeadline},
		{Op: v1.EditAddHostPath, Name: "transplant-leader-migration", Value: layout.KCMMigration, PathType: "File"},
	}
	n, _ := d.MinorOf(m) // aim has asked
	edits = append(
		edits,
		flagvalue.EditGates(
			m.Flags[flagvalue.FlagFeatureGates],
			component.KCM,
			n,
			append(volume.CSIGates(d), flagvalue.GateChange{Name: flagvalue.GateLeaderMigration, To: flagvalue.GateOn}),
		)...)
	d.Add(d.EditComponent(h, m, v1.Step{
		ID:    "leader-migration/" + component.KCM + "@" + h.Name,
		Phase: planstep.PhaseMigration,
		Title: "switch leader migration on in " + component.KCM + " on " + h.Name,
		Why:   "from here on the loops run only under the lease that both managers respect; shorter elections close the gap of each restart",
		Leases: []string{
			component.KCM,
			d.Options.LeaseName,
		},
		Successors: []string{component.KCM},
		Group:      planstep.PhaseMigration + "@" + h.Name,
		Edits:      edits,
		Expect:     d.ExpectRunning(draft.OwnedBy(component.KCM)),
	}))
}

// MakeManagerExternal makes the kube-controller-manager of a host external.
func MakeManagerExternal(d *draft.Draft, h v1.Host, why string, leases, successors []string) {
	m := d.ComponentAfter(h, component.KCM)
	edits := upgrade.AddEdits(d, m, ManagerEditsSince(d, m, clusterview.FindComponent(h, component.KCM)))
	s := v1.Step{
		ID:         "external/" + component.KCM + "@" + h.Name,
		Phase:      planstep.PhaseHandover,
		Title:      upgrade.StepTitle(d.Upgrade, component.KCM, h.Name, edits),
		Why:        why,
		Leases:     leases,
		Successors: successors,
		Group:      planstep.PhaseHandover + "@" + h.Name,
		Edits:      edits,
	}
	if d.Options.Strategy == planstep.LeaderMigration {
		s.Expect = d.ExpectRunning(draft.OwnedBy(""))
	}
	d.Add(d.EditComponent(h, m, s))
}

// ManagerEdits are the edits of a kube-controller-manager that nothing was changed of.
func ManagerEdits(d *draft.Draft, m *v1.Component) []v1.Edit { return ManagerEditsSince(d, m, m) }

// ManagerEditsSince remove the in-tree provider and leader migration from m, with the gates and node IPAM where they
// move. The provider stays as volume plugin where volumes need it. They also put back the election periods of was,
// which is m as it was before.
func ManagerEditsSince(d *draft.Draft, m, was *v1.Component) []v1.Edit {
	edits := []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}
	if d.Volumes.KeepProvider() {
		edits = append(edits, v1.Edit{Op: v1.EditSetFlag, Name: flagvalue.FlagVolumePlugin, Value: d.Provider.Name})
	} else if _, set := m.Flags[flagvalue.FlagCloudConfig]; set {
		edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: flagvalue.FlagCloudConfig})
	}
	if d.Options.Strategy == planstep.LeaderMigration {
		edits = append(
			edits,
			v1.Edit{Op: v1.EditUnsetFlag, Name: "enable-leader-migration"},
			v1.Edit{Op: v1.EditUnsetFlag, Name: "leader-migration-config"},
		)
		for _, f := range []string{"leader-elect-retry-period", "leader-elect-renew-deadline"} {
			if v, ok := was.Flags[f]; ok {
				edits = append(edits, v1.Edit{Op: v1.EditSetFlag, Name: f, Value: v})
			} else {
				edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: f})
			}
		}
		edits = append(edits, v1.Edit{Op: v1.EditRemoveHostPath, Name: "transplant-leader-migration", Value: layout.KCMMigration})
	}
	n, _ := d.MinorAfterUpgrade(m) // aim has asked
	edits = append(
		edits,
		flagvalue.EditGates(m.Flags[flagvalue.FlagFeatureGates], component.KCM, n, managerGateChanges(d, m, was))...)
	return append(edits, NodeIPAMEdits(d, m, n)...)
}

// managerGateChanges are the gates of a kube-controller-manager that becomes external.
func managerGateChanges(d *draft.Draft, m, was *v1.Component) []flagvalue.GateChange {
	var out []flagvalue.GateChange
	if d.Options.Strategy == planstep.Downtime {
		out = volume.CSIGates(d)
	}
	if !d.Volumes.KeepProvider() {
		out = append(out, flagvalue.DropInTreeGates(
			m.Flags[flagvalue.FlagFeatureGates], d.Options.DisableInTree, catalogue.DisableCloudProviders,
		)...)
	}
	set, had := flagvalue.ParseGates(
		m.Flags[flagvalue.FlagFeatureGates],
	), flagvalue.ParseGates(
		was.Flags[flagvalue.FlagFeatureGates],
	)
	_, now := set[flagvalue.GateLeaderMigration]
	if _, before := had[flagvalue.GateLeaderMigration]; now && !before {
		out = append(out, flagvalue.GateChange{Name: flagvalue.GateLeaderMigration, To: flagvalue.GateRemoved})
	}
	return out
}
