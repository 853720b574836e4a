// Package kubeadmconfig decides how kubeadm's ClusterConfiguration changes along with the flags of a component. So the
// next "kubeadm upgrade" writes the manifests as a migration left them. Comments and everything that no edit names
// stay.
package kubeadmconfig

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// Name and Key say where kubeadm keeps the text.
const (
	Name = "kubeadm-config"
	Key  = "ClusterConfiguration"
)

// sections are the components' names in the text.
var sections = map[string]string{
	component.KAS:       "apiServer",
	component.KCM:       "controllerManager",
	component.Scheduler: "scheduler",
}

// Apply applies the edits of a component to a ClusterConfiguration of the versions v1beta1 to v1beta4. It returns the
// changed text, or the same bytes when there is nothing to change. setFlag and unsetFlag change extraArgs, addHostPath
// and removeHostPath extraVolumes; setVersion changes kubernetesVersion, which is no component's.
func Apply(data []byte, component string, edits []v1.Edit) ([]byte, error) {
	out, _, err := apply(data, component, edits)
	return out, err
}

// Inverse returns the edits that take edits back from the text that Apply makes of data.
func Inverse(data []byte, component string, edits []v1.Edit) ([]v1.Edit, error) {
	_, undo, err := apply(data, component, edits)
	return undo, err
}

func apply(data []byte, component string, edits []v1.Edit) ([]byte, []v1.Edit, error) {
	section, ok := sections[component]
	if !ok && (component != "" || slices.ContainsFunc(edits, func(e v1.Edit) bool { return e.Op != v1.EditSetVersion })) {
		return nil, nil, fmt.Errorf("kubeadm does not configure %q", component)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, nil, fmt.Errorf("it is no YAML: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("it is no object")
	}
	root := doc.Content[0]
	if kind := get(root, "kind"); kind == nil || kind.Value != "ClusterConfiguration" {
		return nil, nil, fmt.Errorf("it is not of kind ClusterConfiguration")
	}
	c := config{root: root, section: section, list: strings.HasSuffix(version(root), "/v1beta4")}
	var undo []v1.Edit
	for _, e := range edits {
		back, err := c.edit(e)
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", e.Op, e.Name, err)
		}
		undo = append(back, undo...)
	}
	if len(undo) == 0 {
		return data, nil, nil
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	enc.CompactSeqIndent() // as kubeadm writes it
	if err := enc.Encode(&doc); err != nil {
		return nil, nil, fmt.Errorf("writing it: %w", err)
	}
	return out.Bytes(), undo, nil
}

type config struct {
	root    *yaml.Node
	section string
	// list reports whether extraArgs is a list of names and values, as from v1beta4 on.
	list bool
}

// edit applies one edit and returns what takes it back; nothing when it changed nothing.
func (c config) edit(e v1.Edit) ([]v1.Edit, error) {
	switch e.Op {
	case v1.EditSetFlag:
		return c.setArg(e)
	case v1.EditUnsetFlag:
		return c.unsetArg(e)
	case v1.EditAddHostPath:
		return c.addVolume(e)
	case v1.EditRemoveHostPath:
		return c.removeVolume(e)
	case v1.EditSetVersion:
		return c.setVersion(e)
	default:
		return nil, fmt.Errorf("this operation is not known for kubeadm's configuration")
	}
}

// kubernetesVersion is the field with the version that kubeadm gives to the control plane.
const kubernetesVersion = "kubernetesVersion"

// setVersion changes kubernetesVersion; without a value it goes.
func (c config) setVersion(e v1.Edit) ([]v1.Edit, error) {
	if e.Name != kubernetesVersion {
		return nil, fmt.Errorf("the version of kubeadm's configuration is %s", kubernetesVersion)
	}
	before := ""
	if node := get(c.root, kubernetesVersion); node != nil {
		before = node.Value
	}
	if before == e.Value {
		return nil, nil
	}
	if e.Value == "" {
		remove(c.root, kubernetesVersion)
	} else {
		put(c.root, kubernetesVersion, textNode(e.Value))
	}
	return []v1.Edit{{Op: v1.EditSetVersion, Name: kubernetesVersion, Value: before}}, nil
}

func (c config) setArg(e v1.Edit) ([]v1.Edit, error) {
	args, err := c.child("extraArgs", c.argsKind(), true)
	if err != nil {
		return nil, err
	}
	value := c.arg(args, e.Name)
	if value == nil {
		if c.list {
			args.Content = append(args.Content, mapping("name", e.Name, "value", e.Value))
		} else {
			args.Content = append(args.Content, textNode(e.Name), textNode(e.Value))
		}
		return []v1.Edit{{Op: v1.EditUnsetFlag, Name: e.Name}}, nil
	}
	if value.Value == e.Value {
		return nil, nil
	}
	before := value.Value
	*value = *textNode(e.Value)
	return []v1.Edit{{Op: v1.EditSetFlag, Name: e.Name, Value: before}}, nil
}

func (c config) unsetArg(e v1.Edit) ([]v1.Edit, error) {
	args, err := c.child("extraArgs", c.argsKind(), false)
	if err != nil || args == nil {
		return nil, err
	}
	value := c.arg(args, e.Name)
	if value == nil {
		return nil, nil
	}
	undo := []v1.Edit{{Op: v1.EditSetFlag, Name: e.Name, Value: value.Value}}
	if c.list {
		args.Content = slices.DeleteFunc(
			args.Content,
			func(n *yaml.Node) bool { name := get(n, "name"); return name != nil && name.Value == e.Name },
		)
	} else {
		remove(args, e.Name)
	}
	c.prune("extraArgs", args)
	return undo, nil
}

func (c config) argsKind() yaml.Kind {
	if c.list {
		return yaml.SequenceNode
	}
	return yaml.MappingNode
}

// arg is the value of an argument; nil when it is not there.
func (c config) arg(args *yaml.Node, name string) *yaml.Node {
	if !c.list {
		return get(args, name)
	}
	for _, item := range args.Content {
		if n := get(item, "name"); n != nil && n.Value == name {
			return get(item, "value")
		}
	}
	return nil
}

func (c config) addVolume(e v1.Edit) ([]v1.Edit, error) {
	volumes, err := c.child("extraVolumes", yaml.SequenceNode, true)
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Content {
		if path := get(v, "hostPath"); path != nil && path.Value == e.Value {
			return nil, nil
		}
	}
	item := mapping("hostPath", e.Value, "mountPath", e.Value, "name", e.Name)
	if e.PathType != "" {
		item.Content = append(item.Content, textNode("pathType"), textNode(e.PathType))
	}
	item.Content = append(item.Content, textNode("readOnly"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	volumes.Content = append(volumes.Content, item)
	return []v1.Edit{{Op: v1.EditRemoveHostPath, Name: e.Name, Value: e.Value}}, nil
}

func (c config) removeVolume(e v1.Edit) ([]v1.Edit, error) {
	volumes, err := c.child("extraVolumes", yaml.SequenceNode, false)
	if err != nil || volumes == nil {
		return nil, err
	}
	var undo []v1.Edit
	volumes.Content = slices.DeleteFunc(volumes.Content, func(v *yaml.Node) bool {
		name, path := get(v, "name"), get(v, "hostPath")
		if name == nil || path == nil || name.Value != e.Name || path.Value != e.Value {
			return false
		}
		back := v1.Edit{Op: v1.EditAddHostPath, Name: e.Name, Value: e.Value}
		if kind := get(v, "pathType"); kind != nil {
			back.PathType = kind.Value
		}
		undo = append(undo, back)
		return true
	})
	c.prune("extraVolumes", volumes)
	return undo, nil
}

// child returns the list or map of the component's section; nil when it is absent and not to be made.
func (c config) child(name string, kind yaml.Kind, create bool) (*yaml.Node, error) {
	section := get(c.root, c.section)
	if section == nil || section.Kind == yaml.ScalarNode {
		if !create {
			return nil, nil
		}
		section = &yaml.Node{Kind: yaml.MappingNode}
		put(c.root, c.section, section)
	}
	node := get(section, name)
	if node == nil || node.Kind == yaml.ScalarNode && node.Value == "" || node.Tag == "!!null" {
		if !create {
			return nil, nil
		}
		node = &yaml.Node{Kind: kind}
		put(section, name, node)
	}
	if node.Kind != kind {
		return nil, fmt.Errorf("%s.%s is not what kubeadm's %s has there", c.section, name, version(c.root))
	}
	if node.Style&yaml.FlowStyle != 0 && len(node.Content) == 0 {
		node.Style = 0 // {} is written as a block once it holds something
	}
	return node, nil
}

// prune removes an empty list or map again, so that undoing an edit leaves what was there.
func (c config) prune(name string, node *yaml.Node) {
	section := get(c.root, c.section)
	if len(node.Content) == 0 {
		remove(section, name)
	}
	if len(section.Content) == 0 {
		section.Style = yaml.FlowStyle // {}, as kubeadm writes an empty section
	}
}

func version(root *yaml.Node) string {
	if v := get(root, "apiVersion"); v != nil {
		return v.Value
	}
	return ""
}

func get(m *yaml.Node, key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// put sets a key, before the first that sorts behind it: kubeadm writes its keys in order.
func put(m *yaml.Node, key string, value *yaml.Node) {
	m.Style &^= yaml.FlowStyle
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content[i+1] = value
			return
		}
		if m.Content[i].Value > key {
			m.Content = slices.Insert(m.Content, i, textNode(key), value)
			return
		}
	}
	m.Content = append(m.Content, textNode(key), value)
}

func remove(m *yaml.Node, key string) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content = slices.Delete(m.Content, i, i+2)
			return
		}
	}
}

// textNode is a string, quoted where YAML would read something else.
func textNode(value string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(value)
	return n
}

func mapping(pairs ...string) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range pairs {
		m.Content = append(m.Content, textNode(p))
	}
	return m
}
