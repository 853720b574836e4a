// Package kubeletfile edits the files that a kubelet is started with: its environment files, its unit, and its
// configuration. Every other byte stays.
package kubeletfile

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

const gatesKey = "featureGates"

// ApplyKubeletFile applies edits to any file that a kubelet is started with. Those of gates go to its configuration.
// Others go to an environment file or a unit file, with the unit's variables of flags (KubeletVariables). One file is
// never both.
func ApplyKubeletFile(data []byte, edits []v1.Edit, used ...string) ([]byte, error) {
	if slices.ContainsFunc(edits, func(e v1.Edit) bool { return e.Op == v1.EditSetGate || e.Op == v1.EditUnsetGate }) {
		return ApplyKubeletConfig(data, edits)
	}
	return ApplyKubelet(data, edits, used...)
}

// ApplyKubeletConfig applies setGate and unsetGate to a KubeletConfiguration. Everything else keeps its bytes. A
// text that cannot be edited line by line is refused. So is an edit that would change more than it says.
func ApplyKubeletConfig(data []byte, edits []v1.Edit) ([]byte, error) {
	want, err := configTree(data)
	if err != nil {
		return nil, err
	}
	section, there := want[gatesKey].(map[string]any)
	if !there && want[gatesKey] != nil {
		return nil, errors.New("its featureGates are no map")
	}
	if section == nil {
		section = map[string]any{}
	}
	before := maps.Clone(section)
	for _, e := range edits {
		if err := gateEdit(e, section); err != nil {
			return nil, fmt.Errorf("%s %s: %w", e.Op, e.Name, err)
		}
	}
	if reflect.DeepEqual(before, section) {
		return data, nil
	}
	delete(want, gatesKey)
	if len(section) > 0 {
		want[gatesKey] = section
	}
	out := gateLines(string(data), before, section)
	have, err := configTree([]byte(out))
	if err != nil || !reflect.DeepEqual(want, have) {
		return nil, errors.New("it is written in a way that cannot be edited line by line: change its featureGates by hand")
	}
	return []byte(out), nil
}

func gateEdit(e v1.Edit, section map[string]any) error {
	switch e.Op {
	case v1.EditUnsetGate:
		delete(section, e.Name)
	case v1.EditSetGate:
		on, err := strconv.ParseBool(e.Value)
		if err != nil {
			return fmt.Errorf("the value of a gate is true or false, not %q", e.Value)
		}
		section[e.Name] = on
	default:
		return errors.New("this operation is not known for a kubelet's configuration")
	}
	return nil
}

func configTree(data []byte) (map[string]any, error) {
	out := map[string]any{}
	if err := safeyaml.Check(data); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("it cannot be read as YAML: %w", err)
	}
	if kind := out["kind"]; kind != nil && kind != "KubeletConfiguration" {
		return nil, fmt.Errorf("its kind is %v, not KubeletConfiguration", kind)
	}
	return out, nil
}

// gateLines edits the lines below "featureGates:": those of gates that differ, and new ones behind the last that is
// there. A section that is not there is put at the end, one that has no gate left is removed with its line.
func gateLines(text string, before, after map[string]any) string {
	lines := strings.SplitAfter(text, "\n")
	var out strings.Builder
	inside, indent, end := false, "  ", -1
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		if !inside {
			if inside = strings.HasPrefix(line, gatesKey+":") && trimmed == gatesKey+":"; inside && len(after) == 0 {
				continue
			}
			if out.WriteString(line); inside {
				end = out.Len()
			}
			continue
		}
		if trimmed != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(trimmed, "#") {
			inside = false
			out.WriteString(line)
			continue
		}
		name, _, entry := strings.Cut(trimmed, ":")
		value, kept := after[name]
		switch {
		case !entry || before[name] == nil:
			out.WriteString(line)
		case kept:
			indent = line[:len(line)-len(strings.TrimLeft(line, " "))]
			if value == before[name] {
				out.WriteString(line)
			} else {
				fmt.Fprintf(&out, "%s%s: %v\n", indent, name, value)
			}
			end = out.Len()
		}
	}
	return withNewGates(out.String(), end, indent, before, after)
}

// withNewGates puts the gates that were not there before at a place in the text; below a section of their own where
// there is none.
func withNewGates(text string, at int, indent string, before, after map[string]any) string {
	var added strings.Builder
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, had := before[name]; !had {
			fmt.Fprintf(&added, "%s%s: %v\n", indent, name, after[name])
		}
	}
	if added.Len() == 0 {
		return text
	}
	if at >= 0 {
		return text[:at] + added.String() + text[at:]
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + gatesKey + ":\n" + added.String()
}
