package yamltext

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
)

// ResolveAlias follows aliases.
func ResolveAlias(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// FindKey returns a key of a map and its value as they are written; nil when the map does not have it itself.
func FindKey(n *yaml.Node, key string) (name, value *yaml.Node) {
	n = ResolveAlias(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := ResolveAlias(n.Content[i]); k.Kind == yaml.ScalarNode && k.Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// ListItems are the elements of a list, also of one that is written elsewhere.
func ListItems(n *yaml.Node) []*yaml.Node {
	if n = ResolveAlias(n); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// RemoveFlowItems removes a range of elements, the last included, from a list in brackets.
func (d *Document) RemoveFlowItems(items []*yaml.Node, from, to int) (textedit.Splice, error) {
	end, err := d.EndOf(items[to])
	if err != nil {
		return textedit.Splice{}, err
	}
	if from > 0 {
		start, err := d.EndOf(items[from-1])
		return textedit.Splice{Start: start, End: end, Text: ""}, err
	}
	start, err := d.OffsetOf(items[from])
	if err == nil && to+1 < len(items) {
		end, err = d.OffsetOf(items[to+1])
	}
	return textedit.Splice{Start: start, End: end, Text: ""}, err
}

// ColonOf is the offset behind the colon of a key.
func (d *Document) ColonOf(owner *yaml.Node, key string) (int, error) {
	name, _ := FindKey(owner, key)
	_, end, err := d.ExtentOf(name)
	if err != nil {
		return 0, err
	}
	i := bytes.IndexByte(d.data[end:d.lines[d.LineOf(end)].end], ':')
	if i < 0 {
		return 0, Unsupported(name.Line, "the colon of %s is not on its line", key)
	}
	return end + i + 1, nil
}
