package plan

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// finish takes leader migration out: no in-tree manager is left that could want the lease.
func (b *builder) finish() {
	if b.shape == v1.ShapeDaemonSet {
		b.finishDaemonSet()
	} else {
		for _, h := range b.hosts {
			b.finishPod(h)
		}
	}
	for _, h := range b.hosts {
		for _, path := range []string{KCMMigration, CCMMigration} {
			b.add(v1.Step{
				ID: "remove/" + path + "@" + h.Name, Phase: PhaseFinish, Kind: v1.StepRemoveFile, Title: "remove " + path + " on " + h.Name,
				Host: h.Name, Path: path, Restore: "write/" + path + "@" + h.Name, Requires: []string{"cluster:uid", FileFact(h.Name, path)},
				Changes: []v1.Change{{Field: path, Before: "written by this migration"}}, Undo: "write it again", EstimateSeconds: 0.1,
			})
		}
	}
	b.deleteObject(PhaseFinish, "delete/", "Lease/"+Namespace+"/"+b.opts.LeaseName, "nobody respects it any longer")
	for _, o := range migrationObjects(b.opts.LeaseName) {
		b.deleteObject(PhaseFinish, "delete/", Ref(o), "the lease that it grants is gone")
	}
	b.verify(PhaseFinish, "verify/finished", owners(CCM))
}

// finishEdits and what they find.
func (b *builder) finishEdits() ([]v1.Edit, map[string]string) {
	edits := []v1.Edit{
		{Op: "unsetFlag", Name: "enable-leader-migration"},
		{Op: "unsetFlag", Name: "leader-migration-config"},
		{Op: "unsetFlag", Name: "leader-elect-renew-deadline"},
		{Op: "setFlag", Name: "leader-elect-retry-period", Value: ccmRetryPeriod},
		{Op: "removeHostPath", Name: "transplant-leader-migration", Value: CCMMigration},
	}
	was := map[string]string{"enable-leader-migration": "true", "leader-migration-config": CCMMigration,
		"leader-elect-renew-deadline": b.opts.RenewDeadline, "leader-elect-retry-period": b.opts.RetryPeriod}
	if gates := b.ccmGates(); gates != "" {
		edits, was[gatesFlag] = append(edits, v1.Edit{Op: "unsetFlag", Name: gatesFlag}), gates
	}
	return edits, was
}

func (b *builder) finishPod(h v1.Host) {
	edits, was := b.finishEdits()
	path := ccmManifest(h)
	b.add(v1.Step{
		ID: "finish/" + CCM + "@" + h.Name, Phase: PhaseFinish, Kind: v1.StepEditManifest, Title: "switch leader migration off in " + CCM + " on " + h.Name,
		Why:  "no in-tree manager is left that could want the migration lease",
		Host: h.Name, Component: CCM, Path: path, Edits: edits, Leases: []string{CCM, b.opts.LeaseName}, Successors: []string{CCM},
		Group: PhaseFinish + "@" + h.Name, Requires: []string{"cluster:uid", FileFact(h.Name, path)},
		Changes: changes(edits, was), Undo: "put the manifest back from its backup", EstimateSeconds: 25, Expect: b.expectFor(owners(CCM)),
	})
}
