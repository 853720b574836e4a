package plan

import (
	"errors"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// needed are the fields that a step of each kind cannot be carried out without.
var needed = map[v1.StepKind][]string{
	v1.StepEnsureObject:    {"object", "ref"},
	v1.StepDeleteObject:    {"ref"},
	v1.StepWriteFile:       {"host", "path", "mode"},
	v1.StepRemoveFile:      {"host", "path", "restore"},
	v1.StepEditManifest:    {"host", "path", "component"},
	v1.StepAddManifest:     {"host", "path", "component", "content", "mode"},
	v1.StepRemoveManifest:  {"host", "path", "component"},
	v1.StepRestoreManifest: {"host", "path", "component", "restore"},
	v1.StepKubelet:         {"host", "path"},
	v1.StepVerify:          nil,
}

// WellFormed says everything that keeps a plan which was read from a file from being carried out: a plan may be reviewed and kept anywhere, and
// what was lost or mistyped there is found before the first step and not after the tenth.
func WellFormed(p *v1.Plan) error {
	var errs []error
	if p.Cluster.UID == "" {
		errs = append(errs, errors.New("cluster.uid is empty: the plan does not say for which cluster it was made"))
	}
	if len(p.Steps) == 0 {
		errs = append(errs, errors.New("steps is empty: there is nothing to carry out"))
	}
	if err := Validate(p.Options); err != nil {
		errs = append(errs, fmt.Errorf("options: %w", err))
	}
	facts := map[string]bool{}
	for _, f := range p.Facts {
		facts[f.ID] = true
	}
	for i, s := range p.Steps {
		if err := wellFormed(s, facts); err != nil {
			errs = append(errs, fmt.Errorf("steps[%d] %q: %w", i, s.ID, err))
		}
	}
	if err := unique(p.Steps); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func wellFormed(s v1.Step, facts map[string]bool) error {
	fields, known := needed[s.Kind]
	if !known {
		return fmt.Errorf("kind %q is not known to this version of transplant", s.Kind)
	}
	values := map[string]string{"id": s.ID, "phase": s.Phase, "object": s.Object, "ref": s.Ref, "host": s.Host, "path": s.Path, "mode": s.Mode, "component": s.Component, "content": s.Content, "restore": s.Restore}
	for _, f := range append([]string{"id", "phase"}, fields...) {
		if values[f] == "" {
			return fmt.Errorf("%s is empty", f)
		}
	}
	for _, id := range s.Requires {
		if !facts[id] {
			return fmt.Errorf("it requires the fact %q, which the plan does not state", id)
		}
	}
	return nil
}
