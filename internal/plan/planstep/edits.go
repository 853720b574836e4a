// Package planstep says what a step is and does: its phase, its facts, the operations of its edits, and where a plan
// may stop.
package planstep

import (
	"cmp"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// DescribeFlagEdits returns what a reader sees of edits: each flag and mount, before and after.
func DescribeFlagEdits(edits []v1.Edit, flags map[string]string) []v1.Change {
	var out []v1.Change
	for _, e := range edits {
		switch e.Op {
		case v1.EditSetFlag:
			out = append(out, v1.Change{Field: "--" + e.Name, Before: flags[e.Name], After: e.Value})
		case v1.EditUnsetFlag:
			out = append(out, v1.Change{Field: "--" + e.Name, Before: flags[e.Name]})
		case v1.EditAddHostPath:
			out = append(out, v1.Change{Field: "volume " + e.Name, After: e.Value})
		case v1.EditRemoveHostPath:
			out = append(out, v1.Change{Field: "volume " + e.Name, Before: e.Value})
		default: // no other edit is about this
		}
	}
	return out
}

// EditsByFile are the edits of a step by the file that they change, and those files in the order in which the step
// names them.
func EditsByFile(s v1.Step) (files []string, edits map[string][]v1.Edit) {
	edits = map[string][]v1.Edit{}
	for _, e := range s.Edits {
		at := cmp.Or(e.Path, s.Path)
		edits[at] = append(edits[at], e)
	}
	for _, at := range append([]string{s.Path}, s.Files...) {
		if len(edits[at]) > 0 {
			files = append(files, at)
		}
	}
	return files, edits
}

// FieldGates begins the names of changes of gates in a kubelet's configuration.
const FieldGates = "featureGates."

// WithoutHostPaths returns edits without those of mounts.
func WithoutHostPaths(in []v1.Edit) []v1.Edit {
	var out []v1.Edit
	for _, e := range in {
		if e.Op != v1.EditAddHostPath && e.Op != v1.EditRemoveHostPath {
			out = append(out, e)
		}
	}
	return out
}

// ChangesComponent reports whether steps of a kind change what a component runs with.
func ChangesComponent(s v1.Step) bool {
	switch s.Kind {
	case v1.StepEditManifest, v1.StepEditUnit, v1.StepEditWorkload:
		return true
	case v1.StepRestoreManifest, v1.StepStartUnit, v1.StepScale:
		return len(s.Edits) > 0
	default:
		return false
	}
}

// LeavesPods reports whether a step changes the template of the manager's DaemonSet alone. Its pods are replaced by the
// next steps, which name the leases that change hands. Plans of earlier versions have one step for both.
func LeavesPods(s v1.Step) bool {
	return s.Kind == v1.StepEditWorkload && s.Ref == layout.CCMDaemonSet && len(s.Leases) == 0
}

// LastEdit returns the last edit of a flag in a step.
func LastEdit(s v1.Step, flag string) (v1.Edit, bool) {
	for _, e := range slices.Backward(s.Edits) {
		if e.Name == flag && (e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag) {
			return e, true
		}
	}
	return v1.Edit{}, false
}

// SetsFlag reports whether a step sets a flag to a value.
func SetsFlag(s v1.Step, flag, value string) bool {
	e, ok := LastEdit(s, flag)
	return ok && e.Op == v1.EditSetFlag && e.Value == value
}

// EditsFlags reports whether a step edits the flags of a component, or starts it with other ones.
func EditsFlags(s v1.Step) bool {
	switch s.Kind {
	case v1.StepEditManifest, v1.StepEditUnit, v1.StepEditWorkload:
		return true
	case v1.StepRestoreManifest, v1.StepStartUnit:
		return len(s.Edits) > 0
	default:
		return false
	}
}

// ImageAfter is the image that a step leaves its component with. A step that puts a manifest back has no edits; what it
// changes says what it has.
func ImageAfter(s v1.Step, before string) string {
	for _, e := range s.Edits {
		if e.Op != v1.EditSetImage {
			continue
		}
		if image, err := controlplane.Retag(before, e.Value); err == nil {
			return image
		}
	}
	if len(s.Edits) == 0 && s.Kind == v1.StepRestoreManifest {
		for _, c := range s.Changes {
			if c.Field == FieldImage && c.After != "" {
				return c.After
			}
		}
	}
	return before
}

// ChangesImage reports whether a step gives its component another image.
func ChangesImage(s v1.Step) bool {
	return slices.ContainsFunc(s.Edits, func(e v1.Edit) bool { return e.Op == v1.EditSetImage })
}

// DescribeImageEdit is what a reader sees of an image that changes.
func DescribeImageEdit(c *v1.Component, edits []v1.Edit) []v1.Change {
	for _, e := range edits {
		if e.Op == v1.EditSetImage {
			if image, err := controlplane.Retag(c.Image, e.Value); err == nil {
				return []v1.Change{{Field: FieldImage, Before: c.Image, After: image}}
			}
		}
	}
	return nil
}

// FieldImage is the name of a change of an image.
const FieldImage = "image"
