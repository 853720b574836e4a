package plan

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/external"
	"github.com/transplant-dev/transplant/internal/plan/kubeadm"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/upgrade"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

// migrate is the whole migration.
func migrate(d *draft.Draft) {
	prepare(d)
	if d.Options.Strategy == planstep.Downtime {
		handOverWithGap(d)
	} else {
		handOver(d)
	}
	ccm.StartNodeManagers(d, managerPhase(d))
	upgrade.UpgradeSchedulers(d)
	volume.SwitchSchedulers(d)
	kubelet.MakeExternal(d)
	kubelet.FillProviderIDs(d)
	volume.DropPlugins(d)
	kubeadm.UpdateConfig(d)
	d.VerifyOwners(planstep.PhaseVerify, "verify/handed-over", draft.OwnedBy(component.CCM))
	if d.Options.Strategy == planstep.LeaderMigration && !d.Options.KeepLeaderMigration {
		finish(d)
	}
}

// managerPhase is the phase in which the cloud-controller-manager starts.
func managerPhase(d *draft.Draft) string {
	if d.Options.Strategy == planstep.Downtime {
		return planstep.PhaseStart
	}
	return planstep.PhaseHandover
}

// handOver moves the loops from manager to manager under the migration lease. At no moment do two run them, and only
// for an election does none.
func handOver(d *draft.Draft) {
	for _, h := range d.Hosts {
		external.EnableLeaderMigration(d, h)
		if d.Shape == v1.ShapeDaemonSet || d.Upgrade.IsWanted() {
			// its manager has just given the loops up, and no other one will come to this host before the next phase
			external.MakeAPIServerExternal(d, h, planstep.PhaseMigration)
		}
	}
	if d.Shape == v1.ShapeDaemonSet {
		ccm.StartDaemonSet(d, planstep.PhaseHandover)
	}
	for _, h := range d.Hosts {
		external.MakeManagerExternal(
			d,
			h,
			"it no longer runs the moved loops; leader migration must be off here, or it would sit on the lease with nothing to run. "+
				"On the owner's host, which comes last, this is the handover of the loops",
			[]string{component.KCM, d.Options.LeaseName},
			[]string{component.KCM, component.CCM},
		)
		if d.Shape == v1.ShapeDaemonSet {
			continue
		}
		external.MakeAPIServerExternal(d, h, planstep.PhaseHandover)
		ccm.StartStaticPod(
			d,
			h,
			planstep.PhaseHandover,
			planstep.PhaseHandover+"@"+h.Name,
			"the next owner runs, has its main lease and reaches the cloud before the old one is stopped",
		)
	}
}

// handOverWithGap stops the loops in one manager and starts them in the other. The API server of the owner's host is
// restarted after another host's manager has the loops. So the gap is no longer than it must be.
func handOverWithGap(d *draft.Draft) {
	last := d.Hosts[len(d.Hosts)-1]
	others := d.Hosts[:len(d.Hosts)-1]
	if len(others) == 0 {
		handOverOnOneHost(d, last)
		return
	}
	external.UpgradeAPIServers(d)
	for _, h := range d.Hosts {
		external.MakeManagerExternal(
			d,
			h,
			"it no longer runs the cloud loops. On the owner's host, which comes last, the gap begins: no manager runs them until the first "+component.CCM+" does",
			[]string{component.KCM},
			[]string{component.KCM},
		)
		if h.Name != last.Name || d.Shape == v1.ShapeDaemonSet {
			external.MakeAPIServerExternal(d, h, planstep.PhaseHandover)
		}
	}
	if d.Shape == v1.ShapeDaemonSet {
		ccm.StartDaemonSet(d, planstep.PhaseStart)
		return
	}
	for _, h := range others {
		ccm.StartStaticPod(
			d,
			h,
			planstep.PhaseStart,
			planstep.PhaseStart+"@"+h.Name,
			"no in-tree manager runs the loops any longer: with the first one the gap ends",
		)
	}
	external.MakeAPIServerExternal(d, last, planstep.PhaseStart)
	ccm.StartStaticPod(
		d,
		last,
		planstep.PhaseStart,
		planstep.PhaseStart+"@"+last.Name,
		"no in-tree manager runs the loops any longer",
	)
}

// handOverOnOneHost is the way of a single control-plane host. Its manager is stopped while the API server restarts. No
// other manager could take its lease over, and without an API server it could not act anyway.
func handOverOnOneHost(d *draft.Draft, h v1.Host) {
	group := planstep.PhaseHandover + "@" + h.Name
	m := d.ComponentAfter(h, component.KCM)
	edits := upgrade.AddEdits(d, m, external.ManagerEditsSince(d, m, clusterview.FindComponent(h, component.KCM)))
	d.Add(d.StopComponent(h, m, v1.Step{
		ID:     "stop/" + component.KCM + "@" + h.Name,
		Phase:  planstep.PhaseHandover,
		Title:  "stop " + component.KCM + " on " + h.Name,
		Why:    "the gap begins: no manager runs the cloud loops until the " + component.CCM + " does, and no other loop until this one is back",
		Leases: []string{component.KCM},
		Group:  group,
		Edits:  edits,
	}))
	external.MakeAPIServerExternal(d, h, planstep.PhaseHandover)
	d.Add(d.StartComponent(h, m, v1.Step{
		ID:      "external/" + component.KCM + "@" + h.Name,
		Phase:   planstep.PhaseHandover,
		Title:   "start " + component.KCM + " on " + h.Name + " without its provider",
		Why:     "it comes back without the cloud loops",
		Group:   group,
		Restore: "stop/" + component.KCM + "@" + h.Name,
		Edits:   edits,
	}))
	if d.Shape == v1.ShapeDaemonSet {
		ccm.StartDaemonSet(d, planstep.PhaseStart)
		return
	}
	ccm.StartStaticPod(
		d,
		h,
		planstep.PhaseStart,
		planstep.PhaseStart+"@"+h.Name,
		"no in-tree manager runs the loops any longer: the gap ends",
	)
}
