package ccm

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// FinishDaemonSet removes leader migration from the DaemonSet, and has its pods replaced, the owner's last. A rollout
// by its controller would take them in any order, and the loops would change hands several times.
func FinishDaemonSet(d *draft.Draft) {
	edits, was := finishEdits(d)
	d.Add(v1.Step{
		ID:              "finish/" + component.CCM,
		Phase:           planstep.PhaseFinish,
		Kind:            v1.StepEditWorkload,
		Title:           "switch leader migration off in " + component.CCM,
		Why:             "no in-tree manager is left that could want the migration lease; its pods stay until the next steps replace them",
		Component:       component.CCM,
		Ref:             layout.CCMDaemonSet,
		Edits:           edits,
		Requires:        []string{"cluster:uid"},
		Changes:         planstep.DescribeFlagEdits(edits, was),
		Undo:            "put the pod template back as the record has it",
		EstimateSeconds: 1,
	})
	ReplacePods(d)
}

// ReplacePods has the pods of the DaemonSet replaced, host by host.
func ReplacePods(d *draft.Draft) {
	for _, h := range d.Hosts {
		d.Add(v1.Step{
			ID:              "finish/" + component.CCM + "@" + h.Name,
			Phase:           planstep.PhaseFinish,
			Kind:            v1.StepReplacePod,
			Title:           "replace the pod of " + component.CCM + " on " + h.Name,
			Why:             "it starts without leader migration",
			Host:            h.Name,
			Component:       component.CCM,
			Ref:             layout.CCMDaemonSet,
			Leases:          []string{component.CCM, d.Options.LeaseName},
			Successors:      []string{component.CCM},
			Group:           planstep.PhaseFinish + "@" + h.Name,
			Requires:        []string{"cluster:uid"},
			Undo:            "replace it again, after the pod template was put back",
			EstimateSeconds: 15,
			Expect:          d.ExpectRunning(draft.OwnedBy(component.CCM)),
		})
	}
}

// finishEdits and what they find.
func finishEdits(d *draft.Draft) ([]v1.Edit, map[string]string) {
	edits := []v1.Edit{
		{Op: v1.EditUnsetFlag, Name: "enable-leader-migration"},
		{Op: v1.EditUnsetFlag, Name: "leader-migration-config"},
		{Op: v1.EditUnsetFlag, Name: "leader-elect-renew-deadline"},
		{Op: v1.EditSetFlag, Name: "leader-elect-retry-period", Value: RetryPeriod},
		{Op: v1.EditRemoveHostPath, Name: "transplant-leader-migration", Value: layout.CCMMigration},
	}
	was := map[string]string{"enable-leader-migration": "true", "leader-migration-config": layout.CCMMigration,
		"leader-elect-renew-deadline": d.Options.RenewDeadline, "leader-elect-retry-period": d.Options.RetryPeriod}
	if gates := ManagerGates(d); gates != "" {
		edits, was[flagvalue.FlagFeatureGates] = append(
			edits,
			v1.Edit{Op: v1.EditUnsetFlag, Name: flagvalue.FlagFeatureGates},
		), gates
	}
	return edits, was
}

// FinishStaticPod switches leader migration off in the cloud-controller-manager of a host.
func FinishStaticPod(d *draft.Draft, h v1.Host) {
	edits, was := finishEdits(d)
	path := clusterview.ManagerManifest(h)
	d.Add(v1.Step{
		ID:         "finish/" + component.CCM + "@" + h.Name,
		Phase:      planstep.PhaseFinish,
		Kind:       v1.StepEditManifest,
		Title:      "switch leader migration off in " + component.CCM + " on " + h.Name,
		Why:        "no in-tree manager is left that could want the migration lease",
		Host:       h.Name,
		Component:  component.CCM,
		Path:       path,
		Edits:      edits,
		Leases:     []string{component.CCM, d.Options.LeaseName},
		Successors: []string{component.CCM},
		Group:      planstep.PhaseFinish + "@" + h.Name,
		Requires:   []string{"cluster:uid", planstep.FileFact(h.Name, path)},
		Changes: planstep.DescribeFlagEdits(
			edits,
			was,
		),
		Undo:            "put the manifest back from its backup",
		EstimateSeconds: 25,
		Expect:          d.ExpectRunning(draft.OwnedBy(component.CCM)),
	})
}
