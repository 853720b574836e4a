package invariant

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// needed are the fields that a step of each kind cannot be executed without.
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
	v1.StepPatchObject:     {"ref"},
	v1.StepUnpatchObject:   {"ref", "restore"},
	v1.StepScale:           {"ref", "component", "replicas"},
	v1.StepEditWorkload:    {"ref", "component"},
	v1.StepReplacePod:      {"ref", "host", "component"},
	v1.StepEditUnit:        {"host", "path", "component", "unit"},
	v1.StepStopUnit:        {"host", "component", "unit"},
	v1.StepStartUnit:       {"host", "path", "component", "unit"},
	v1.StepCopyFile:        {"host", "path", "source", "content", "mode"},
	v1.StepInitializeNode:  {"ref"},
	v1.StepAwait:           {"await"},
}

// CheckWellFormed says everything that keeps a plan which was read from a file from being executed. A plan may be
// reviewed and kept anywhere. What was lost or mistyped there is found before the first step and not after the tenth.
func CheckWellFormed(p *v1.Plan) error {
	if err := printable(p); err != nil {
		return err // alone: what else is wrong may be said with these texts
	}
	var errs []error
	if p.Cluster.UID == "" {
		errs = append(errs, errors.New("cluster.uid is empty: the plan does not say for which cluster it was made"))
	}
	if len(p.Steps) == 0 {
		errs = append(errs, errors.New("steps is empty: there is nothing to execute"))
	}
	if err := options.Validate(p.Options); err != nil {
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
	if err := planstep.CheckUniqueIDs(p.Steps); err != nil {
		errs = append(errs, err)
	}
	if p.Until != "" {
		if _, err := planstep.Until(p, p.Until); err != nil {
			errs = append(errs, fmt.Errorf("until: %w", err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, Verify(p, nil)) // what holds of every plan that is made holds of one that was edited
	}
	return errors.Join(errs...)
}

// CheckJournaled says everything that keeps a plan which was read from a journal from being executed. The journal is
// a ConfigMap: its plan is held to what holds of every plan, as one from a file is. live is how the cluster is now.
func CheckJournaled(p *v1.Plan, live *v1.Snapshot) error {
	if live != nil && p.Cluster.UID != live.Cluster.UID {
		return fmt.Errorf("it was made for the cluster with uid %s, this one has %s", p.Cluster.UID, live.Cluster.UID)
	}
	if err := printable(p); err != nil {
		return err
	}
	if p.Direction != planstep.Rollback { // one that old journals do not name, too
		return errors.Join(CheckWellFormed(p), CheckAllowed(p, live), carriedFromLive(p, live))
	}
	errs := []error{options.Validate(p.Options), planstep.CheckUniqueIDs(p.Steps)}
	for i, s := range p.Steps {
		if _, known := needed[s.Kind]; !known {
			errs = append(errs, fmt.Errorf("steps[%d] %q: kind %q is not known to this version of transplant", i, s.ID, s.Kind))
		}
	}
	return errors.Join(append(errs, CheckAllowed(p, live))...)
}

// carriedFromLive asks the rules about what a manager takes over from the kube-controller-managers. No step changes
// that of these, so that the rules hold wherever the plan has come to. Those about order are asked without a snapshot,
// which is of the middle.
func carriedFromLive(p *v1.Plan, live *v1.Snapshot) error {
	if live == nil {
		return nil
	}
	r, err := buildView(p, live)
	if err != nil {
		return err
	}
	var errs []error
	for _, rule := range Rules {
		holds := rule.holds
		switch rule.ID {
		case "P-15":
		case "P-16": // an owner may have changed how much is logged since
			holds = func(r *planView) error {
				return r.carriesOver(func(f ccm.InheritedFlag) bool { return !f.Tunes })
			}
		default:
			continue
		}
		if err := holds(r); err != nil {
			errs = append(errs, fmt.Errorf(
				"rule %s, %s: %w (if a manifest of %s was changed by hand since the plan was made, put that flag back)",
				rule.ID,
				rule.Title,
				err,
				component.KCM,
			))
		}
	}
	return errors.Join(errs...)
}

func wellFormed(s v1.Step, facts map[string]bool) error {
	fields, known := needed[s.Kind]
	if !known {
		return fmt.Errorf("kind %q is not known to this version of transplant", s.Kind)
	}
	values := map[string]string{
		"unit":      s.Unit,
		"source":    s.Source,
		"replicas":  wordIfGiven(s.Replicas != nil),
		"await":     wordIfGiven(s.Await != nil),
		"id":        s.ID,
		"phase":     s.Phase,
		"object":    s.Object,
		"ref":       s.Ref,
		"host":      s.Host,
		"path":      s.Path,
		"mode":      s.Mode,
		"component": s.Component,
		"content":   s.Content,
		"restore":   s.Restore,
	}
	for _, f := range append([]string{"id", "phase"}, fields...) {
		if values[f] == "" {
			return fmt.Errorf("%s is empty", f)
		}
	}
	if err := consistent(s); err != nil {
		return err
	}
	for _, id := range s.Requires {
		if !facts[id] {
			return fmt.Errorf("it requires the fact %q, which the plan does not state", id)
		}
	}
	return nil
}

func wordIfGiven(yes bool) string {
	if yes {
		return "given"
	}
	return ""
}

// consistent says what is wrong with the values of a step whose fields are all there. A plan that was edited by hand is
// refused here and not when its tenth step is executed.
func consistent(s v1.Step) error {
	if s.Mode != "" {
		if m, err := strconv.ParseUint(s.Mode, 8, 32); err != nil || m > 0o777 {
			return fmt.Errorf("mode %q is no octal file mode such as 0644", s.Mode)
		} else if m&0o022 != 0 {
			return fmt.Errorf("mode %s lets others than its owner change %s", s.Mode, s.Path)
		}
	}
	if s.Path != "" && path.Clean(s.Path) != s.Path || s.Path != "" && !path.IsAbs(s.Path) {
		return fmt.Errorf("path %q is not an absolute path without detours", s.Path)
	}
	for _, e := range s.Edits {
		if !ops[e.Op] || e.Name == "" {
			return fmt.Errorf(
				"edit %q of %q: the operations are setFlag, unsetFlag, addHostPath, removeHostPath, setImage and setVersion, each with a name",
				e.Op,
				e.Name,
			)
		}
	}
	return payload(s)
}

// payload looks at what a step of some kinds carries.
func payload(s v1.Step) error {
	switch s.Kind {
	case v1.StepPatchObject:
		return patchable(s)
	case v1.StepEnsureObject:
		return planstep.CheckObjectRef(s)
	case v1.StepCopyFile:
		if len(s.Content) != sha256Digits {
			return fmt.Errorf("content %q is not the SHA-256 of the file to copy", s.Content)
		}
	case v1.StepScale:
		if *s.Replicas < 0 {
			return fmt.Errorf("replicas is %d", *s.Replicas)
		}
	default:
	}
	return nil
}

const sha256Digits = 64

var ops = map[v1.EditOp]bool{
	v1.EditSetGate:        true,
	v1.EditUnsetGate:      true,
	v1.EditSetFlag:        true,
	v1.EditUnsetFlag:      true,
	v1.EditAddHostPath:    true,
	v1.EditRemoveHostPath: true,
	v1.EditSetImage:       true,
	v1.EditSetVersion:     true,
	v1.EditMountConfigMap: true,
	v1.EditUnmount:        true,
}

func patchable(s v1.Step) error {
	if strings.HasPrefix(s.Ref, "Secret/") {
		return errors.New("secrets are not patched: what was there would be kept in the journal")
	}
	if s.Derive == layout.DeriveKubeadm {
		return nil
	}
	var patch map[string]any
	if err := json.Unmarshal([]byte(s.Patch), &patch); err != nil || len(patch) == 0 {
		return errors.New("patch is no JSON merge patch")
	}
	return nil
}
