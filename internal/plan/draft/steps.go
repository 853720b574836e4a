package draft

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// VerifyOwners adds a step that looks who runs each loop, and whether nodes and load balancers are as before.
func (d *Draft) VerifyOwners(phase, id string, expect map[string]string) {
	expect[string(controllernames.NodeIPAM)] = component.KCM
	if d.MoveIPAM {
		expect[string(controllernames.NodeIPAM)] = expect[string(controllernames.NodeLifecycle)]
	}
	d.Add(v1.Step{
		ID: id, Phase: phase, Kind: v1.StepVerify, Title: "each loop has one owner, nodes and load balancers are as before",
		Expect: d.ExpectRunning(expect), EstimateSeconds: 2,
	})
}

// DeleteObject adds a step that deletes an object which this migration made.
func (d *Draft) DeleteObject(phase, id, r, why string) {
	d.Add(v1.Step{
		ID: id + r, Phase: phase, Kind: v1.StepDeleteObject, Title: "delete " + r, Why: why, Ref: r,
		Changes: []v1.Change{{Field: r, Before: "made by this migration"}}, Undo: "make it again", EstimateSeconds: 0.1,
	})
}

// EnsureObjects adds a step for each object that creates it.
func (d *Draft) EnsureObjects(phase, why string, objects []layout.Object) {
	for _, o := range objects {
		r := layout.Ref(o)
		d.Add(v1.Step{
			ID:              "create/" + r,
			Phase:           phase,
			Kind:            v1.StepEnsureObject,
			Title:           "create " + r,
			Why:             why,
			Ref:             r,
			Object:          layout.EncodeObject(o),
			Undo:            "delete it, if this migration made it",
			EstimateSeconds: 0.1,
			Changes:         []v1.Change{{Field: r, After: "created"}},
		})
	}
}

// WriteFile adds a step that writes a file on a host.
func (d *Draft) WriteFile(h v1.Host, path, content, why string) {
	d.Add(v1.Step{
		ID:              "write/" + path + "@" + h.Name,
		Phase:           planstep.PhasePrepare,
		Kind:            v1.StepWriteFile,
		Title:           "write " + path + " on " + h.Name,
		Why:             why,
		Host:            h.Name,
		Path:            path,
		Content:         content,
		Mode:            "0644",
		Requires:        []string{"cluster:uid", d.AddFileFact(h, path)},
		Undo:            "restore what was there",
		EstimateSeconds: 0.1,
		Changes:         []v1.Change{{Field: path, After: strings.TrimSpace(content)}},
	})
}

// DeriveFile adds a step that derives a file on a host from another file there.
func (d *Draft) DeriveFile(h v1.Host, path, derivation, source, mode string, changes []string) {
	s := v1.Step{
		ID:     "write/" + path + "@" + h.Name,
		Phase:  planstep.PhasePrepare,
		Kind:   v1.StepWriteFile,
		Title:  "write " + path + " on " + h.Name,
		Why:    "derived on the host from " + source + ", which stays as it is",
		Host:   h.Name,
		Path:   path,
		Derive: derivation,
		Source: source,
		Mode:   mode,
		Requires: []string{
			"cluster:uid",
			d.AddFileFact(h, path),
			d.AddFileFact(h, source),
		},
		Undo:            "restore what was there",
		EstimateSeconds: 0.1,
	}
	for _, c := range changes {
		s.Changes = append(s.Changes, v1.Change{Field: path, After: c})
	}
	d.Add(s)
}

// AwaitOperator adds a step that waits for what an operator does.
func (d *Draft) AwaitOperator(id, phase, title string, a v1.Await, why string) {
	d.Add(v1.Step{
		ID: id, Phase: phase, Kind: v1.StepAwait, Title: title, Why: why, Await: &a, Requires: []string{"cluster:uid"},
		Undo: "nothing was changed; nodes that came and went are replaced the other way round", EstimateSeconds: 600,
	})
}
