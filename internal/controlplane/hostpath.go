package controlplane

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// addHostPath mounts a path of the host at the same path, read-only. A mount of that path that is there already is enough.
func (m *Manifest) addHostPath(e v1.Edit) ([]byte, error) {
	if m.HostPaths()[e.Value] == e.Value {
		return m.data, nil
	}
	data, err := m.appendItem(m.container, "volumeMounts", []string{"mountPath: " + scalar(e.Value), "name: " + scalar(e.Name), "readOnly: true"})
	if err != nil {
		return nil, err
	}
	again, err := Parse(data)
	if err != nil {
		return nil, err
	}
	volume := []string{"hostPath:", "  path: " + scalar(e.Value)}
	if e.PathType != "" {
		volume = append(volume, "  type: "+e.PathType)
	}
	return again.appendItem(child(again.root, "spec"), "volumes", append(volume, "name: "+scalar(e.Name)))
}

// removeHostPath takes the mount and the volume of a name away.
func (m *Manifest) removeHostPath(e v1.Edit) ([]byte, error) {
	data, err := m.removeItem(m.container, "volumeMounts", e.Name)
	if err != nil {
		return nil, err
	}
	again, err := Parse(data)
	if err != nil {
		return nil, err
	}
	return again.removeItem(child(again.root, "spec"), "volumes", e.Name)
}

// appendItem adds a mapping to the end of a block list, and the list to its mapping when there is none.
func (m *Manifest) appendItem(parent *yaml.Node, key string, fields []string) ([]byte, error) {
	e := newEditor(m.data)
	list := child(parent, key)
	var lines []string
	var after int
	switch {
	case list == nil:
		last := parent.Content[len(parent.Content)-1]
		if parent.Style&yaml.FlowStyle != 0 {
			return nil, fmt.Errorf("pod %s has a mapping in braces where %s belongs: write it as a block", m.name, key)
		}
		indent := strings.Repeat(" ", parent.Content[0].Column-1)
		lines = append(lines, indent+key+":")
		lines = append(lines, item(indent, fields)...)
		after = lastLine(last)
	case list.Style&yaml.FlowStyle != 0 || len(list.Content) == 0 || list.Content[0].Kind != yaml.MappingNode || list.Content[0].Style&yaml.FlowStyle != 0:
		return nil, fmt.Errorf("%s of pod %s is a list in brackets, or holds aliases: write one item on each line", key, m.name)
	default:
		// list.Column is that of the first dash.
		lines = item(strings.Repeat(" ", list.Column-1), fields)
		after = lastLine(list.Content[len(list.Content)-1])
	}
	end := ending(e.lines[after-1])
	if end == "" {
		end = "\n"
		e.ops = append(e.ops, lineOp{after - 1, "replace", []string{e.lines[after-1] + end}})
	}
	for i := range lines {
		lines[i] += end
	}
	e.ops = append(e.ops, lineOp{after - 1, "after", lines})
	return e.bytes(), nil
}

func item(indent string, fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		lead := "  "
		if i == 0 {
			lead = "- "
		}
		out[i] = indent + lead + f
	}
	return out
}

// removeItem takes the item of a name out of a block list, and the list when it was the only one.
func (m *Manifest) removeItem(parent *yaml.Node, key, name string) ([]byte, error) {
	list := child(parent, key)
	if list == nil {
		return m.data, nil
	}
	for _, n := range list.Content {
		if text(child(resolve(n), "name")) != name {
			continue
		}
		if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle != 0 || list.Style&yaml.FlowStyle != 0 {
			return nil, errors.New(key + " is a list in brackets, or holds aliases: write one item on each line")
		}
		first, last := n.Line, lastLine(n)
		if len(list.Content) == 1 {
			first = keyLine(parent, key)
		}
		e := newEditor(m.data)
		for i := first; i <= last; i++ {
			e.ops = append(e.ops, lineOp{i - 1, "remove", nil})
		}
		return e.bytes(), nil
	}
	return m.data, nil
}

func keyLine(parent *yaml.Node, key string) int {
	for i := 0; i < len(parent.Content); i += 2 {
		if parent.Content[i].Value == key {
			return parent.Content[i].Line
		}
	}
	return 0
}

// lastLine is the last line that a node or what it holds begins on; a scalar over several lines counts them.
func lastLine(n *yaml.Node) int {
	last := n.Line
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		last += strings.Count(strings.TrimSuffix(n.Value, "\n"), "\n") + 1
	}
	for _, c := range n.Content {
		last = max(last, lastLine(c))
	}
	return last
}
