package rollback

import (
	"fmt"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/manual"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// planReplaced is the way back of replaced hosts: nodes of version N with leader migration come, one for each of
// version N+1 that goes. Where leader migration was dropped already it is awaited in the cloud-controller-managers
// first, with its lease's rights made again.
func (r *rollback) planReplaced() error {
	r.draft.MoveIPAM = r.hasMovedIPAM()
	from, err := clusterview.ParseMinor("", r.journal.Plan.Cluster.Version)
	if err != nil {
		return err
	}
	file, err := migrationconfig.Render(
		controllernames.KubeControllerManager,
		from,
		r.draft.MovedLoops(),
		r.draft.Options.LeaseName,
	)
	if err != nil {
		return fmt.Errorf("rendering the leader migration config of %s: %w", component.KCM, err)
	}
	old, external := r.splitHosts()
	if len(external) > 0 && len(r.startedSteps(matchesID("await/finish"))) > 0 {
		r.awaitReenabled(len(external))
	}
	for i, h := range external {
		r.draft.AwaitOperator(
			fmt.Sprintf("undo/await/in/%d", i+1),
			planstep.PhaseReplaceBack,
			fmt.Sprintf(
				"wait for control-plane node %d of %d of version 1.%d with leader migration",
				len(old)+i+1,
				len(old)+len(external),
				from,
			),
			v1.Await{
				Nodes: len(
					old,
				) + i + 1,
				Component: component.KCM,
				Version:   fmt.Sprintf("1.%d", from),
				Flags:     map[string]string{"cloud-provider": r.provider(), "enable-leader-migration": "true"},
				Instructions: append([]string{
					fmt.Sprintf(
						"make a control-plane node of version 1.%d, with the flags and files that those of version N had before the migration, and",
						from,
					),
					"flags of " + component.KCM + ": --cloud-provider=" + r.provider() + " --enable-leader-migration=true --leader-migration-config=" + layout.KCMMigration,
					"file " + layout.KCMMigration + ":",
				}, manual.Indent(string(file))...),
			},
			"it takes the loops over when the last of the others is gone; no "+component.CCM+" may run on it",
		)
		r.draft.AwaitOperator(
			"undo/await/out/"+clusterview.NodeName(h),
			planstep.PhaseReplaceBack,
			"wait until control-plane node "+clusterview.NodeName(h)+" is gone",
			v1.Await{
				NodeGone:     clusterview.NodeName(h),
				Component:    component.CCM,
				Nodes:        len(external) - i - 1,
				Instructions: manual.TakeDown(clusterview.NodeName(h)),
			},
			"one in, one out",
		)
	}
	r.verifyOwners()
	if len(old)+len(external) > 0 {
		r.draft.AwaitOperator(
			"undo/await/leader-migration",
			planstep.PhaseOriginal,
			"wait until leader migration is off in every "+component.KCM,
			v1.Await{
				Nodes: len(
					old,
				) + len(
					external,
				),
				Component: component.KCM,
				Version:   fmt.Sprintf("1.%d", from),
				Flags:     map[string]string{"cloud-provider": r.provider(), "enable-leader-migration": ""},
				Instructions: []string{
					"in a rolling manner, on each control-plane node: remove --enable-leader-migration and --leader-migration-config from " + component.KCM,
				},
			},
			"the lease and its rights go next",
		)
	}
	r.cleanUp()
	return nil
}

// splitHosts are the control-plane nodes of version N, and those whose managers are external by now, the owner's last.
func (r *rollback) splitHosts() (old, external []v1.Host) {
	for _, h := range r.draft.Snapshot.Hosts {
		m := clusterview.FindComponent(h, component.KCM)
		switch {
		case !h.ControlPlane || m == nil || clusterview.IsGone(r.draft.Snapshot, h):
		case m.Flags["cloud-provider"] == r.provider():
			old = append(old, h)
		default:
			external = append(external, h)
		}
	}
	owner := clusterview.OwnerHost(r.draft.Snapshot, component.CCM)
	last := func(h v1.Host) bool { return h.Name == owner }
	for i := range external {
		if last(external[i]) {
			external = append(append(external[:i:i], external[i+1:]...), external[i])
			break
		}
	}
	return old, external
}

// hasMovedIPAM reports whether the new kube-controller-managers were to give out no pod CIDRs. Those of version N must
// then have node IPAM under the migration lease as well, or both sides give them out.
func (r *rollback) hasMovedIPAM() bool {
	return slices.ContainsFunc(r.journal.Plan.Steps, func(s v1.Step) bool {
		return s.Await != nil && s.Await.Component == component.KCM &&
			flagvalue.IsLoopDisabled(s.Await.Flags["controllers"], controllernames.NodeIPAM)
	})
}

func (r *rollback) provider() string {
	if p := r.journal.Plan.Cluster.Provider; p != "" {
		return p
	}
	return cloudprovider.AWS
}

func (r *rollback) awaitReenabled(nodes int) {
	for _, s := range r.journal.Plan.Steps {
		if _, done := r.records[s.ID]; done && s.Kind == v1.StepEnsureObject &&
			layout.ContainsRef(layout.MigrationObjects(r.draft.Options.LeaseName), s.Ref) {
			s.ID, s.Phase, s.Requires = "again/"+s.ID, planstep.PhaseReenable, []string{"cluster:uid"}
			r.draft.Add(s)
		}
	}
	r.draft.AwaitOperator(
		"again/await/leader-migration",
		planstep.PhaseReenable,
		"wait until leader migration is on again in every "+component.CCM,
		v1.Await{
			Nodes:     nodes,
			Component: component.CCM,
			Flags:     map[string]string{"enable-leader-migration": "true"},
			Instructions: []string{
				"in a rolling manner, on each control-plane node: put " + layout.CCMMigration +
					" back, and --enable-leader-migration=true and --leader-migration-config=" + layout.CCMMigration +
					" into " + layout.CCMManifest,
			},
		},
		"an in-tree manager may come back only under the lease that both respect",
	)
}
