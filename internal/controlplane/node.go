package controlplane

import (
	"bytes"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// resolve follows aliases.
func resolve(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// child returns a key of a map and its value as they are written; nil when the map does not have it itself.
func child(n *yaml.Node, key string) (name, value *yaml.Node) {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := resolve(n.Content[i]); k.Kind == yaml.ScalarNode && k.Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// content are the elements of a list, also of one that is written elsewhere.
func content(n *yaml.Node) []*yaml.Node {
	if n = resolve(n); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

func (m *Manifest) specNode() *yaml.Node {
	_, spec := child(m.doc.root, "spec")
	return resolve(spec)
}

// containerNode is the component's container; an empty map when it is merged in from elsewhere, in which nothing is found.
func (m *Manifest) containerNode() *yaml.Node {
	_, list := child(m.specNode(), "containers")
	if items := content(list); m.main < len(items) {
		return resolve(items[m.main])
	}
	return &yaml.Node{Kind: yaml.MappingNode}
}

// containerTree is the component's container in a tree. What lies on the way is copied, since a tree shares what aliases share.
func (m *Manifest) containerTree(tree map[string]any) map[string]any {
	spec := specTree(tree)
	list, _ := spec["containers"].([]any)
	list = slices.Clone(list)
	spec["containers"] = list
	if m.main >= len(list) {
		return map[string]any{}
	}
	c, _ := list[m.main].(map[string]any)
	c = maps.Clone(c)
	list[m.main] = c
	return c
}

func specTree(tree map[string]any) map[string]any {
	spec, _ := tree["spec"].(map[string]any)
	if spec = maps.Clone(spec); spec == nil {
		spec = map[string]any{}
	}
	tree["spec"] = spec
	return spec
}

// removeFlow takes the elements from one to another out of a list in brackets.
func (d *document) removeFlow(items []*yaml.Node, from, to int) (splice, error) {
	end, err := d.end(items[to])
	if err != nil {
		return splice{}, err
	}
	if from > 0 {
		start, err := d.end(items[from-1])
		return splice{start, end, ""}, err
	}
	start, err := d.offset(items[from])
	if err == nil && to+1 < len(items) {
		end, err = d.offset(items[to+1])
	}
	return splice{start, end, ""}, err
}

// colon is the offset behind the colon of a key.
func (d *document) colon(owner *yaml.Node, key string) (int, error) {
	name, _ := child(owner, key)
	_, end, err := d.extent(name)
	if err != nil {
		return 0, err
	}
	i := bytes.IndexByte(d.data[end:d.lines[d.lineOf(end)].end], ':')
	if i < 0 {
		return 0, unsupported(name.Line, "the colon of %s is not on its line", key)
	}
	return end + i + 1, nil
}
