package plan

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// finish removes leader migration: no in-tree manager is left that could want the lease.
func finish(d *draft.Draft) {
	if d.Shape == v1.ShapeDaemonSet {
		ccm.FinishDaemonSet(d)
	} else {
		for _, h := range d.Hosts {
			ccm.FinishStaticPod(d, h)
		}
	}
	for _, h := range d.Hosts {
		for _, path := range []string{layout.KCMMigration, layout.CCMMigration} {
			d.Add(v1.Step{
				ID:       "remove/" + path + "@" + h.Name,
				Phase:    planstep.PhaseFinish,
				Kind:     v1.StepRemoveFile,
				Title:    "remove " + path + " on " + h.Name,
				Host:     h.Name,
				Path:     path,
				Restore:  "write/" + path + "@" + h.Name,
				Requires: []string{"cluster:uid", planstep.FileFact(h.Name, path)},
				Changes: []v1.Change{
					{Field: path, Before: "written by this migration"},
				},
				Undo:            "write it again",
				EstimateSeconds: 0.1,
			})
		}
	}
	d.DeleteObject(
		planstep.PhaseFinish,
		"delete/",
		"Lease/"+component.Namespace+"/"+d.Options.LeaseName,
		"no manager uses it any longer",
	)
	for _, o := range layout.MigrationObjects(d.Options.LeaseName) {
		d.DeleteObject(planstep.PhaseFinish, "delete/", layout.Ref(o), "the lease that it grants is gone")
	}
	d.VerifyOwners(planstep.PhaseFinish, "verify/finished", draft.OwnedBy(component.CCM))
}
