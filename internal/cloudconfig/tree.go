package cloudconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// tree reads JSON or YAML. Its errors name a line at most: a parser's own may quote what is there.
func tree(in []byte) (*yaml.Node, error) {
	if root := object(in); root != nil {
		return root, nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(in, &doc); err != nil {
		if line := lineNumber.FindString(err.Error()); line != "" {
			return nil, fmt.Errorf("%s: it is neither JSON nor YAML", line)
		}
		return nil, errors.New("it is neither JSON nor YAML")
	}
	if doc.Kind == 0 { // nothing but comments
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("line 1: a JSON object or a YAML mapping was expected")
	}
	root := doc.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Tag == "!!merge" {
			return nil, fmt.Errorf(
				"line %d: keys that are merged in (<<) are not read here: write them out",
				root.Content[i].Line,
			)
		}
	}
	return root, nil
}

// object reads the members of a JSON object; nil for anything else. YAML's reader refuses some of what JSON allows,
// such as an escaped slash.
func object(in []byte) *yaml.Node {
	if !json.Valid(in) || formatOf(in) != FormatJSON {
		return nil
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	dec := json.NewDecoder(bytes.NewReader(in))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil
		}
		name, _ := key.(string)
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, member(value))
	}
	return root
}

// member is a JSON value; what is deeper than a list of scalars is left out.
func member(value json.RawMessage) *yaml.Node {
	switch value[0] {
	case '{':
		return &yaml.Node{Kind: yaml.MappingNode}
	case '[':
		out := &yaml.Node{Kind: yaml.SequenceNode}
		var items []json.RawMessage
		if json.Unmarshal(value, &items) == nil {
			for _, item := range items {
				if item[0] != '[' {
					out.Content = append(out.Content, member(item))
				}
			}
		}
		return out
	case 'n':
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
}

var lineNumber = regexp.MustCompile(`line \d+`)

// formatOf returns JSON or YAML, by the first character.
func formatOf(in []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(in), []byte("{")) {
		return FormatJSON
	}
	return FormatYAML
}

// isINI reports whether a file begins with a section, after blank lines and comments of either kind.
func isINI(in []byte) bool {
	for line := range strings.Lines(string(in)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		return strings.HasPrefix(line, "[")
	}
	return false
}

// field is the value of a key of a mapping, without regard to case, as encoding/json reads it; nil when it is not
// there.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if strings.EqualFold(mapping.Content[i].Value, key) {
			return resolved(mapping.Content[i+1])
		}
	}
	return nil
}

// treeEntries lists the keys of a JSON or YAML file: those of Azure by themselves, those of vSphere's YAML by their
// sections.
func treeEntries(provider string, in []byte) ([]setting, string, error) {
	root, err := tree(in)
	if err != nil {
		return nil, "", err
	}
	if provider == "vsphere" {
		return vsphereEntries(root), FormatYAML, nil
	}
	var out []setting
	for i := 0; i+1 < len(root.Content); i += 2 {
		out = append(out, setting{key: root.Content[i].Value, value: scalar(root.Content[i+1])})
	}
	return out, formatOf(in), nil
}

// scalar is a value as text; lists of scalars with commas, and nothing for what is deeper.
func scalar(n *yaml.Node) string {
	n = resolved(n)
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!!null" {
			return ""
		}
		return n.Value
	}
	var list []string
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			if item = resolved(item); item.Kind == yaml.ScalarNode {
				list = append(list, item.Value)
			}
		}
	}
	return strings.Join(list, ",")
}

// resolved is what an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}
