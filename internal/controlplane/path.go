package controlplane

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

// addHostPath makes a path of the host visible at the same path in the component's container, read-only. A mount that
// shows it there already is left as it is.
func (m *Manifest) addHostPath(e v1.Edit) (*change, error) {
	for _, mt := range m.container().VolumeMounts {
		switch {
		case mt.MountPath != e.Value:
		case m.HostPaths()[e.Value] == e.Value:
			return nil, nil
		default:
			return nil, fmt.Errorf(
				"the container has something else mounted at %s (volume %s): move that elsewhere",
				e.Value,
				mt.Name,
			)
		}
	}
	for _, v := range m.pod.Spec.Volumes {
		if v.Name != e.Name {
			continue
		}
		if v.hostPath() != e.Value {
			return nil, fmt.Errorf("the pod has another volume of that name: rename it")
		}
		return m.addItem(m.containerNode(), "volumeMounts", m.containerTree, []yamltext.Field{
			{Key: "mountPath", Value: e.Value}, {Key: "name", Value: e.Name}, {Key: "readOnly", Value: "true", Raw: true},
		})
	}
	source := []yamltext.Field{{Key: "path", Value: e.Value}}
	if e.PathType != "" {
		source = append(source, yamltext.Field{Key: "type", Value: e.PathType})
	}
	return m.addItem(
		m.specNode(),
		"volumes",
		specTree,
		[]yamltext.Field{{Key: "hostPath", Fields: source}, {Key: "name", Value: e.Name}},
	)
}

// removeHostPath takes the volume of a name away, and its mounts in the component's container. One that shows another
// path was not made by addHostPath and stays, and so does a volume that another container mounts.
func (m *Manifest) removeHostPath(e v1.Edit) (*change, error) {
	i := slices.IndexFunc(m.pod.Spec.Volumes, func(v volume) bool { return v.Name == e.Name })
	if i < 0 || e.Value != "" && m.pod.Spec.Volumes[i].hostPath() != e.Value {
		return nil, nil
	}
	mounts := func(c container) int {
		return slices.IndexFunc(c.VolumeMounts, func(mt mount) bool { return mt.Name == e.Name })
	}
	if at := mounts(m.container()); at >= 0 {
		return m.removeItem(m.containerNode(), "volumeMounts", m.containerTree, at)
	}
	for _, c := range slices.Concat(m.pod.Spec.Containers, m.pod.Spec.InitContainers) {
		if mounts(c) >= 0 {
			return nil, nil
		}
	}
	return m.removeItem(m.specNode(), "volumes", specTree, i)
}

// addItem adds an element to the end of a list of maps, and the list where there is none.
func (m *Manifest) addItem(
	owner *yaml.Node,
	key string,
	in func(map[string]any) map[string]any,
	item []yamltext.Field,
) (*change, error) {
	s, err := m.addItemText(owner, key, item)
	if err != nil {
		return nil, err
	}
	return &change{splices: []textedit.Splice{s}, want: func(tree map[string]any) {
		t := in(tree)
		list, _ := t[key].([]any)
		t[key] = append(slices.Clone(list), yamltext.FieldValues(item))
	}}, nil
}

func (m *Manifest) addItemText(owner *yaml.Node, key string, item []yamltext.Field) (textedit.Splice, error) {
	name, list := yamltext.FindKey(owner, key)
	switch {
	case name == nil:
		return m.addListText(owner, key, item)
	case list.Kind == yaml.AliasNode:
		return textedit.Splice{}, yamltext.Unsupported(name.Line, "%s is an alias of a list that stands elsewhere", key)
	case list.Kind == yaml.ScalarNode: // nothing at all, or null
		start, end, err := m.doc.ExtentOf(list)
		if err != nil {
			return textedit.Splice{}, err
		}
		if start < end {
			return textedit.Splice{Start: start, End: end, Text: "[" + yamltext.FormatFlow(item) + "]"}, nil
		}
		if owner.Style&yaml.FlowStyle != 0 || !m.doc.EndsLine(end) {
			return textedit.Splice{Start: end, End: end, Text: " [" + yamltext.FormatFlow(item) + "]"}, nil
		}
		return m.doc.InsertLines(end, yamltext.FormatBlock(item, strings.Repeat(" ", name.Column-1))), nil
	case list.Style&yaml.FlowStyle != 0:
		if len(list.Content) == 0 {
			end, err := m.doc.EndOf(list)
			return textedit.Splice{Start: end - 1, End: end - 1, Text: yamltext.FormatFlow(item)}, err
		}
		end, err := m.doc.EndOf(list.Content[len(list.Content)-1])
		return textedit.Splice{Start: end, End: end, Text: ", " + yamltext.FormatFlow(item)}, err
	}
	end, err := m.doc.EndOf(list)
	if err != nil {
		return textedit.Splice{}, err
	}
	if !m.doc.EndsLine(end) {
		return textedit.Splice{}, yamltext.Unsupported(list.Line, "something follows the end of %s on its line", key)
	}
	return m.doc.InsertLines(end, yamltext.FormatBlock(item, strings.Repeat(" ", list.Column-1))), nil
}

// addListText adds a key with a list of one element to the end of a map.
func (m *Manifest) addListText(owner *yaml.Node, key string, item []yamltext.Field) (textedit.Splice, error) {
	if len(owner.Content) == 0 {
		return textedit.Splice{}, yamltext.Unsupported(owner.Line, "there is no place for %s", key)
	}
	end, err := m.doc.EndOf(owner.Content[len(owner.Content)-1])
	if err != nil {
		return textedit.Splice{}, err
	}
	if owner.Style&yaml.FlowStyle != 0 {
		return textedit.Splice{
			Start: end,
			End:   end,
			Text:  ", " + yamltext.QuoteDouble(key) + ": [" + yamltext.FormatFlow(item) + "]",
		}, nil
	}
	if !m.doc.EndsLine(end) {
		return textedit.Splice{}, yamltext.Unsupported(owner.Line, "something follows the place for %s on its line", key)
	}
	indent := strings.Repeat(" ", owner.Content[0].Column-1)
	return m.doc.InsertLines(end, append([]string{indent + key + ":"}, yamltext.FormatBlock(item, indent)...)), nil
}

// removeItem removes an element from a list of maps, and the list with its last element.
func (m *Manifest) removeItem(
	owner *yaml.Node,
	key string,
	in func(map[string]any) map[string]any,
	at int,
) (*change, error) {
	name, list := yamltext.FindKey(owner, key)
	items := yamltext.ListItems(list)
	if at >= len(items) || list.Kind == yaml.AliasNode {
		return nil, yamltext.Unsupported(owner.Line, "%s is merged in from elsewhere", key)
	}
	want := func(tree map[string]any) {
		t := in(tree)
		have, _ := t[key].([]any)
		t[key] = slices.Delete(slices.Clone(have), at, at+1)
	}
	if list.Style&yaml.FlowStyle != 0 {
		s, err := m.doc.RemoveFlowItems(items, at, at)
		return &change{splices: []textedit.Splice{s}, want: want}, err
	}
	start, err := m.doc.OffsetOf(items[at])
	if err != nil {
		return nil, err
	}
	if _, err := m.doc.DashPrefix(items[at]); err != nil {
		return nil, err
	}
	end, err := m.doc.EndOf(items[at])
	if err != nil {
		return nil, err
	}
	if !m.doc.EndsLine(end) {
		return nil, yamltext.Unsupported(items[at].Line, "something follows an element of %s on its line", key)
	}
	if len(items) > 1 {
		return &change{splices: []textedit.Splice{m.doc.RemoveLines(start, end)}, want: want}, nil
	}
	keyAt, err := m.doc.OffsetOf(name)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(m.doc.TextBefore(keyAt)) != "" || len(owner.Content) == 2 {
		colon, err := m.doc.ColonOf(owner, key)
		return &change{
			splices: []textedit.Splice{{Start: colon, End: colon, Text: " []"}, m.doc.RemoveLines(start, end)},
			want:    want,
		}, err
	}
	return &change{
		splices: []textedit.Splice{m.doc.RemoveLines(keyAt, end)},
		want:    func(tree map[string]any) { delete(in(tree), key) },
	}, nil
}
