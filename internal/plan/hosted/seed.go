package hosted

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// IsInSeed reports whether the control plane runs in another cluster.
func IsInSeed(d *draft.Draft) bool { return d.Snapshot.Cluster.Seed != "" }

// PlanSeed plans a part for a control plane whose Deployments another cluster runs.
//
// In the first part the kube-controller-manager keeps its cloud provider, for the volumes of machines that are not
// replaced yet. It loses the cloud loops by --controllers. In the second part, when the machines are done, the provider
// goes.
func PlanSeed(d *draft.Draft) error {
	m := clusterview.FindHosted(d.Snapshot, component.KCM)
	if m == nil {
		return fmt.Errorf(
			"namespace %s of the seed has no Deployment of %s: hosted control planes are read from there",
			d.Snapshot.Cluster.Seed,
			component.KCM,
		)
	}
	if err := checkReady(d, m); err != nil {
		return err
	}
	d.AddFact("cluster:uid", d.Snapshot.Cluster.UID, "")
	d.AddFact("seed:uid", d.Snapshot.Cluster.SeedUID, "")
	if d.Options.Part == v1.PartInstall {
		d.Options.Strategy = planstep.Downtime // there is no loop that could change hands
		installManager(d, m)
		return nil
	}
	if d.Options.Part == v1.PartFinish {
		d.Options.Strategy = planstep.Downtime // nothing is handed over any longer
		removeProvider(d, m)
		return nil
	}
	d.Options.Part = v1.PartHandover
	if err := chooseStrategy(d, m); err != nil {
		return err
	}
	prepare(d, m)
	if d.Options.Strategy == planstep.LeaderMigration {
		enableLeaderMigration(d, m)
		startManager(d, m)
		switchLoopsOff(d, m)
	} else {
		switchLoopsOff(d, m)
		startManager(d, m)
	}
	ccm.StartNodeManagers(d, planstep.PhaseHandover)
	verifyOwners(d, planstep.PhaseVerify, "verify/handed-over", draft.OwnedBy(component.CCM))
	if d.Options.Strategy == planstep.LeaderMigration {
		finishLeaderMigration(d)
	}
	return nil
}

// enableLeaderMigration lets the kube-controller-manager run the cloud loops under the migration lease.
func enableLeaderMigration(d *draft.Draft, m *v1.Component) {
	now := *m
	editWorkload(d, &now, v1.Step{
		ID:     "leader-migration/" + component.KCM + "@" + m.Manifest,
		Phase:  planstep.PhaseMigration,
		Title:  "let " + m.Manifest + " run the cloud loops under the migration lease",
		Why:    "old and new pods are kept apart by the lease that they have in common; from then on the loops can change hands by the migration lease",
		Leases: []string{component.KCM},
		Expect: expectOwners(d, draft.OwnedBy(component.KCM)),
		Edits: []v1.Edit{
			{
				Op:    v1.EditMountConfigMap,
				Name:  layout.MigrationVolume,
				Value: layout.SeedMigration,
				Path:  layout.SeedMigrationDir,
			},
			{Op: v1.EditSetFlag, Name: "enable-leader-migration", Value: "true"},
			{Op: v1.EditSetFlag, Name: "leader-migration-config", Value: layout.SeedMigrationDir + "/" + layout.SeedMigrationKCM},
		},
	})
}

// switchLoopsOff removes the cloud loops from the kube-controller-manager and has it proven.
func switchLoopsOff(d *draft.Draft, m *v1.Component) {
	list := m.Flags["controllers"]
	for _, l := range d.MovedLoops() {
		list = flagvalue.DisableLoop(list, controllernames.Name(controllernames.KubeControllerManager, d.KCMMinor, l), l)
	}
	s := v1.Step{
		ID:    "loops-off/" + component.KCM + "@" + m.Manifest,
		Phase: planstep.PhaseHandover,
		Title: "remove the cloud loops from " + m.Manifest + ", and wait until its old pods have ended",
		Why:   "with the last old pod the loops stop, and no manager runs them until the " + component.CCM + " does; the cloud provider stays for the volumes of machines that are not replaced yet",
		Leases: []string{
			component.KCM,
		},
		Expect: expectNowhere(d, component.KCM),
		Edits:  []v1.Edit{{Op: v1.EditSetFlag, Name: "controllers", Value: list}},
	}
	if d.Options.Strategy == planstep.LeaderMigration {
		s.Why = "the " + component.CCM + " is ready: when the pod that holds the migration lease has ended, its lease is released; the cloud provider stays for the volumes of machines that are not replaced yet"
		s.Leases, s.Successors = []string{component.KCM, d.Options.LeaseName}, []string{component.CCM}
		s.Edits = append(
			s.Edits,
			v1.Edit{Op: v1.EditUnsetFlag, Name: "enable-leader-migration"},
			v1.Edit{Op: v1.EditUnsetFlag, Name: "leader-migration-config"},
			v1.Edit{Op: v1.EditUnmount, Name: layout.MigrationVolume},
		)
		s.Expect = flagvalue.MergeFlags(expectNowhere(d, component.KCM), expectOwners(d, draft.OwnedBy(component.CCM)))
	}
	now := *m
	now.Flags = flagvalue.MergeFlags(map[string]string{}, m.Flags)
	if d.Options.Strategy == planstep.LeaderMigration {
		now.Flags["enable-leader-migration"], now.Flags["leader-migration-config"] = "true", layout.SeedMigrationDir+"/"+layout.SeedMigrationKCM
	}
	editWorkload(d, &now, s)
	d.Add(v1.Step{
		ID:              "verify/loops-off",
		Phase:           planstep.PhaseHandover,
		Kind:            v1.StepVerify,
		Title:           "no pod of " + m.Manifest + " runs a cloud loop, no old pod is left, and a new pod holds its lease",
		Ref:             m.Manifest,
		Component:       component.KCM,
		Leases:          []string{component.KCM, d.Options.LeaseName},
		Expect:          expectNowhere(d, component.KCM),
		EstimateSeconds: 2,
	})
}
