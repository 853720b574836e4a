package cloudconfig

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// azureDefaults are the in-tree provider's defaults that differ in the external one since 1.27 (pkg/provider/azure.go).
// With the other value every node would be looked for among scale sets, and every Service would get a new load balancer
// and address.
var azureDefaults = []struct{ key, value, why string }{
	{"vmType", "standard", "the external provider looks for scale sets when nothing is said"},
	{"loadBalancerSku", "basic", "the external provider makes standard load balancers when nothing is said"},
}

// deriveAzure writes down the defaults that differ. Both providers read the same file otherwise, and pass over keys
// that they do not know. A file with keys that only the external provider reads is its own.
func deriveAzure(in []byte) (Derived, error) {
	root, err := tree(in)
	if err != nil {
		return Derived{}, err
	}
	out := Derived{Data: in, Format: formatOf(in)}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if k, ok := catalogue.ConfigKeyOf("azure", "", root.Content[i].Value); ok && !k.InTree {
			return out, nil
		}
	}
	if n := field(root, "enableMultipleStandardLoadBalancers"); n != nil && isTrue(n) {
		out.Problems = append(
			out.Problems,
			"enableMultipleStandardLoadBalancers is true, and the external provider does not read it: it would move every Service to one "+
				"load balancer. Configure multipleStandardLoadBalancerConfigurations for it, and remove this key",
		)
		return out, nil
	}
	var missing []string
	for _, d := range azureDefaults {
		if n := field(root, d.key); n == nil || scalar(n) == "" {
			missing = append(missing, d.key)
			out.Changes = append(out.Changes, fmt.Sprintf("%s: %s is written down: %s", d.key, d.value, d.why))
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	data, ok := withDefaults(in, root, missing)
	if !ok {
		return Derived{
			Data:   in,
			Format: out.Format,
			Problems: []string{fmt.Sprintf("%s: the file does not set it, and is of a form into which it cannot be "+
				"written; write it by hand, with the in-tree provider's default (vmType standard, loadBalancerSku basic)", strings.Join(missing, ", "))},
		}, nil
	}
	out.Data = data
	return out, nil
}

func isTrue(n *yaml.Node) bool { return strings.EqualFold(n.Value, "true") }

// withDefaults puts the missing keys first in a JSON object or last in a YAML mapping, and fills in those that have no
// value. False when the result does not have them, as in a file of several documents.
func withDefaults(in []byte, root *yaml.Node, missing []string) ([]byte, bool) {
	out := in
	for _, d := range azureDefaults {
		switch {
		case !slices.Contains(missing, d.key):
		case field(root, d.key) != nil:
			out = fillIn(out, d.key, d.value)
		case formatOf(in) == FormatJSON:
			out = intoObject(out, d.key, d.value)
		default:
			out = intoMapping(out, d.key, d.value)
		}
	}
	again, err := tree(out)
	if err != nil || len(again.Content) != len(root.Content)+2*absent(root, missing) {
		return nil, false
	}
	for _, d := range azureDefaults {
		if n := field(again, d.key); n == nil || scalar(n) == "" {
			return nil, false
		}
	}
	return out, true
}

// absent counts the keys that are not there, not even without a value.
func absent(root *yaml.Node, keys []string) int {
	n := 0
	for _, key := range keys {
		if field(root, key) == nil {
			n++
		}
	}
	return n
}

// fillIn replaces the empty value of a key ("" or null or nothing) by one; a file with several such places stays as it
// is.
func fillIn(in []byte, key, value string) []byte {
	pattern := regexp.MustCompile(
		`(?i)"?\b` + regexp.QuoteMeta(key) + `"?[ \t]*:([ \t]*(?:""|''|null|~)?[ \t]*)(?:[,}\r\n#]|\z)`,
	)
	found := pattern.FindAllSubmatchIndex(in, -1)
	if len(found) != 1 {
		return in
	}
	start, end := found[0][2], found[0][3]
	out := append(bytes.Clone(in[:start]), ` "`+value+`"`...)
	if end < len(in) && in[end] == '#' {
		out = append(out, ' ')
	}
	return append(out, in[end:]...)
}

// intoObject writes a member before the others, on a line of its own where they have one.
func intoObject(in []byte, key, value string) []byte {
	open := bytes.IndexByte(in, '{') + 1
	rest := in[open:]
	space := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n"))]
	comma := ","
	if bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		comma = ""
	}
	var out bytes.Buffer
	out.Write(in[:open])
	out.Write(space)
	fmt.Fprintf(&out, "%q: %q%s", key, value, comma)
	if len(space) == 0 {
		out.WriteString(" ")
	}
	out.Write(rest)
	return out.Bytes()
}

// intoMapping writes a key behind the others.
func intoMapping(in []byte, key, value string) []byte {
	eol := "\n"
	if bytes.Contains(in, []byte("\r\n")) {
		eol = "\r\n"
	}
	var out bytes.Buffer
	out.Write(in)
	if len(in) > 0 && !bytes.HasSuffix(in, []byte("\n")) {
		out.WriteString(eol)
	}
	fmt.Fprintf(&out, "%s: %s%s", key, value, eol)
	return out.Bytes()
}
