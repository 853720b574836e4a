package allowed

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// CheckManifest returns why a step must not put a manifest from a backup in the place of the one that is there. Apart
// from what steps of the plan change in this file, the two have to be the same. Which backup is meant is in a record,
// together with its sum, so that another migration's backup would be put back otherwise.
func CheckManifest(p *v1.Plan, s v1.Step, now, back []byte) error {
	if err := CheckBackup(s, back); err != nil {
		return err
	}
	changed := s
	changed.Edits = editsOf(p, s)
	have, err := unedited(s, changed.Edits, now)
	if err != nil {
		return fmt.Errorf("the manifest that is there: %w", err)
	}
	want, err := unedited(s, changed.Edits, back)
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	if !reflect.DeepEqual(have, want) {
		return differsError(s.Path)
	}
	return listsBack(Judge{Options: p.Options, cluster: p.Cluster}, changed, now, back)
}

func differsError(path string) error {
	return fmt.Errorf(
		"the backup of %s differs from what is there in more than the plan changes: it is of another time, or of another migration",
		path,
	)
}

// FlagFile is a file that holds flags of a component, as it is or as a backup has it.
type FlagFile struct {
	// Without is the file without the flags that Blank removes from it.
	Without []byte
	// Flags are those of its component.
	Flags map[string]string
}

// CheckFlagFile is CheckManifest for a file of a unit or of a kubelet. Its step names the file as its path.
func CheckFlagFile(p *v1.Plan, s v1.Step, now, back FlagFile) error {
	if withoutRemnants(now.Without) != withoutRemnants(back.Without) {
		return differsError(s.Path)
	}
	return flagListsBack(Judge{Options: p.Options, cluster: p.Cluster}, s, now.Flags, back.Flags)
}

// withoutRemnants returns a file of flags without what is left where a flag was removed: spaces, quotes, and
// variables that hold nothing.
func withoutRemnants(data []byte) string {
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.NewReplacer(`"`, " ", "'", " ", "\\\n", " ", "=", "= ").Replace(line)
		words := strings.Fields(line)
		if n := len(words); n == 0 || strings.HasSuffix(words[n-1], "=") && n <= 2 {
			continue
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, "\n")
}

// Blank returns the edits that remove from a file of flags all that steps of the plan change in it.
func Blank(p *v1.Plan, s v1.Step) []v1.Edit {
	var out []v1.Edit
	for _, o := range p.Steps {
		if o.Host != s.Host || o.Component != s.Component {
			continue
		}
		_, edits := planstep.EditsByFile(o)
		for _, e := range edits[s.Path] {
			switch e.Op {
			case v1.EditSetFlag:
				e.Op, e.Value = v1.EditUnsetFlag, ""
			case v1.EditSetGate:
				e.Op, e.Value = v1.EditUnsetGate, ""
			default: // no other edit is about this
			}
			out = append(out, e)
		}
	}
	return out
}

// CheckBackup returns why a backup is no manifest of a step's component.
func CheckBackup(s v1.Step, back []byte) error {
	m, err := controlplane.Parse(back)
	if err != nil {
		return fmt.Errorf("the backup of %s: %w", s.Path, err)
	}
	if m.Component() != s.Component {
		return fmt.Errorf("the backup of %s starts %q, and the step is about %s", s.Path, m.Component(), s.Component)
	}
	return nil
}

// CheckImage returns why a backup must not be started in the place of a component that was seen: its image is another
// one. Its tag may differ where the plan changes it.
func CheckImage(p *v1.Plan, s v1.Step, seen string, back []byte) error {
	m, err := controlplane.Parse(back)
	if err != nil {
		return fmt.Errorf("the backup of %s: %w", s.Path, err)
	}
	have, of := m.Image(), seen
	if slices.ContainsFunc(editsOf(p, s), func(e v1.Edit) bool { return e.Op == v1.EditSetImage }) {
		var errs [2]error
		have, _, errs[0] = controlplane.SplitImage(have)
		of, _, errs[1] = controlplane.SplitImage(of)
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
	}
	if have != of {
		return fmt.Errorf("the backup of %s starts image %s, and %s was seen with %s", s.Path, m.Image(), s.Component, seen)
	}
	return nil
}

// editsOf returns what the steps of a plan change in the file of a step.
func editsOf(p *v1.Plan, s v1.Step) []v1.Edit {
	var out []v1.Edit
	for _, o := range p.Steps {
		if o.Host == s.Host && o.Path == s.Path && o.Component == s.Component {
			out = append(out, o.Edits...)
		}
	}
	return out
}

// unedited returns a manifest without all that edits may have changed in it.
func unedited(s v1.Step, edits []v1.Edit, data []byte) (any, error) {
	const anyTag = "any"
	var blank []v1.Edit
	for _, e := range edits {
		switch e.Op {
		case v1.EditSetFlag, v1.EditUnsetFlag:
			e = v1.Edit{Op: v1.EditUnsetFlag, Name: e.Name}
		case v1.EditAddHostPath, v1.EditRemoveHostPath:
			e = v1.Edit{Op: v1.EditRemoveHostPath, Name: e.Name, Value: e.Value}
		case v1.EditSetImage:
			e = v1.Edit{Op: v1.EditSetImage, Name: s.Component, Value: anyTag}
		default:
			return nil, fmt.Errorf("%s of %s is no edit of a manifest", e.Op, e.Name)
		}
		blank = append(blank, e)
	}
	out, err := controlplane.Apply(data, blank)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := safeyaml.Unmarshal(out, &tree); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	return withoutEmpty(tree), nil
}

// withoutEmpty returns a document without empty lists and maps: an edit that is taken back may leave one.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if value = withoutEmpty(value); value != nil {
				out[key] = value
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, withoutEmpty(item))
		}
		if len(out) == 0 {
			return nil
		}
		return out
	default:
		return v
	}
}

// listsBack returns why flags whose values are lists must not be put back: items differ that no migration changes.
func listsBack(j Judge, s v1.Step, now, back []byte) error {
	live, err := controlplane.Parse(now)
	if err != nil {
		return fmt.Errorf("the manifest that is there: %w", err)
	}
	was, err := controlplane.Parse(back)
	if err != nil {
		return fmt.Errorf("the backup of %s: %w", s.Path, err)
	}
	return flagListsBack(j, s, flagsOf(live.Command()), flagsOf(was.Command()))
}

// flagsOf returns the flags of a command, with the gates of each --feature-gates in one.
func flagsOf(command []string) map[string]string {
	out := commandline.FlagsOf(command)
	out[flagvalue.FlagFeatureGates] = flagvalue.MergeGates(command, out[flagvalue.FlagFeatureGates])
	return out
}

// flagListsBack is listsBack for flags.
func flagListsBack(j Judge, s v1.Step, now, back map[string]string) error {
	for _, name := range []string{
		flagvalue.FlagFeatureGates, flagvalue.FlagEnablePlugins, flagvalue.FlagDisablePlugins,
		flagvalue.FlagControllers,
	} {
		if now[name] == back[name] {
			continue
		}
		if err := change(j, s, name, now, back[name], false); err != nil {
			return fmt.Errorf("the backup of %s, --%s: %w", s.Path, name, err)
		}
	}
	return nil
}
