package controlplane

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

func (m *Manifest) specNode() *yaml.Node {
	_, spec := yamltext.FindKey(m.doc.Root, "spec")
	return yamltext.ResolveAlias(spec)
}

// containerNode is the component's container; an empty map when it is merged in from elsewhere, in which nothing is
// found.
func (m *Manifest) containerNode() *yaml.Node {
	_, list := yamltext.FindKey(m.specNode(), "containers")
	if items := yamltext.ListItems(list); m.main < len(items) {
		return yamltext.ResolveAlias(items[m.main])
	}
	return &yaml.Node{Kind: yaml.MappingNode}
}

// containerTree is the component's container in a tree. What lies on the way is copied, since a tree shares what
// aliases share.
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
