package mask

import (
	"errors"
	"io"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// YAML removes secrets from documents. The text stays as it is, with its order and comments, if it holds none. A text
// that is no YAML is left out as a whole.
func YAML(text string) string {
	protected := protect(text)
	if masked, ok := maskYAML(protected); !ok {
		return Masked
	} else if masked != protected {
		return reveal(masked)
	}
	return text
}

func maskYAML(text string) (string, bool) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	changed := false
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", false
		}
		changed = (&document{}).maskNode(&doc, "", false) || changed
		if err := encoder.Encode(&doc); err != nil {
			return "", false
		}
	}
	if !changed {
		return text, true
	}
	return out.String(), true
}

// Document removes secrets from a file: from its values when it is YAML, else from its text.
func Document(data []byte) string {
	if out := YAML(string(data)); out != Masked {
		return out
	}
	return Lines(string(data))
}

// Lines removes secrets from a text line by line: a flag's value may stand in the line below it.
func Lines(text string) string {
	all := strings.Split(privateKey.ReplaceAllString(protect(text), hidden), "\n")
	above := ""
	for i, line := range all {
		words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), `\`))
		if len(words) > 1 && words[0] == "-" {
			words = words[1:] // of a list in YAML
		}
		all[i] = maskText(line)
		if above != "" && len(words) > 0 {
			value := strings.Trim(words[0], `"',`)
			if masked := maskArgument(above, value); value != "" && masked != value {
				all[i] = maskText(strings.Replace(line, value, masked, 1))
			}
		}
		if above = ""; len(words) > 0 {
			if last := strings.Trim(words[len(words)-1], `"',`); isFlagName(last) {
				above = last
			}
		}
	}
	return reveal(strings.Join(all, "\n"))
}

// document is a YAML document of which aliases are followed. An anchor may hold an alias of itself, and ten aliases of
// ten aliases are a document of gigabytes. So the content of an anchor is masked once for each way in which it can be
// meant.
type document struct{ followed map[alias]bool }

// alias is a use of an anchor: under a secret's name or not, where all values are masked or not.
type alias struct {
	anchor      *yaml.Node
	secret, all bool
}

// maskAlias masks what an alias stands for, unless that was done before.
func (d *document) maskAlias(anchor *yaml.Node, name string, all bool) bool {
	use := alias{anchor, isSecretName(name) && !aboutSecret.MatchString(name), all}
	if anchor == nil || d.followed[use] {
		return false
	}
	if d.followed == nil {
		d.followed = map[alias]bool{}
	}
	d.followed[use] = true
	return d.maskNode(anchor, name, all)
}

// maskNode masks the scalars below a node that has a name, and reports whether there were any. Environment variables
// (extraEnvs) and the data of a Secret are masked whatever they are called.
func (d *document) maskNode(n *yaml.Node, name string, all bool) bool {
	changed := maskComments(n)
	switch n.Kind {
	case yaml.MappingNode:
		changed = d.maskMapping(n, all) || changed
	case yaml.ScalarNode:
		changed = maskScalar(n, name, all) || changed
	case yaml.AliasNode:
		changed = d.maskAlias(n.Alias, name, all) || changed
	case yaml.DocumentNode, yaml.SequenceNode:
		previous := ""
		for _, child := range n.Content {
			if said := scalarOf(child); said != nil && n.Kind == yaml.SequenceNode && !all {
				value := maskArgument(previous, said.Value)
				previous = said.Value
				if !isSecretName(name) && value != said.Value {
					setScalar(said, value)
					changed = true
					continue
				}
			}
			changed = d.maskNode(child, name, all) || changed
		}
	}
	return changed
}

func (d *document) maskMapping(n *yaml.Node, all bool) bool {
	changed := false
	pair, secret := fieldOf(n, "name"), fieldOf(n, "kind") == "Secret"
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		below := all || key == "extraEnvs" || secret && (key == "data" || key == "stringData")
		if key == "value" && pair != "" {
			key = pair
		}
		changed = d.maskNode(n.Content[i+1], key, below) || changed
		changed = maskComments(n.Content[i]) || changed
	}
	return changed
}

// scalarOf returns the scalar that a node is or is an alias of; nil for another node.
func scalarOf(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.ScalarNode {
		return nil
	}
	return n
}

func maskScalar(n *yaml.Node, name string, all bool) bool {
	value := maskNamed(name, n.Value)
	if value != hidden {
		value = maskScript(value)
	}
	if all && name != "name" && n.Value != "" {
		value = hidden
	}
	if value == n.Value {
		return false
	}
	setScalar(n, value)
	return true
}

func setScalar(n *yaml.Node, value string) { n.Value, n.Tag, n.Style = value, "!!str", 0 }

// maskComments masks what comments say, where an old flag was kept.
func maskComments(n *yaml.Node) bool {
	changed := false
	for _, comment := range []*string{&n.HeadComment, &n.LineComment, &n.FootComment} {
		if kept := maskText(*comment); kept != *comment {
			*comment, changed = kept, true
		}
	}
	return changed
}

// fieldOf returns a scalar field of a mapping; empty when there is none.
func fieldOf(n *yaml.Node, field string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == field {
			return n.Content[i+1].Value
		}
	}
	return ""
}
