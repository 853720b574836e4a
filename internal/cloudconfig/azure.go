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

// azureDefaults are what the in-tree provider takes where the file says nothing, and the external one something else since 1.27 (pkg/provider/azure.go):
// with the other value every node would be looked for among scale sets, and every Service would get a new load balancer and address.
var azureDefaults = []struct{ key, value, why string }{
	{"vmType", "standard", "the external provider looks for scale sets when nothing is said"},
	{"loadBalancerSku", "basic", "the external provider makes standard load balancers when nothing is said"},
}

// deriveAzure writes down the defaults that differ. Both providers read the same file otherwise, and pass over keys that they do not know. A file with
// keys that only the external provider reads is its own.
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
		out.Problems = append(out.Problems, "enableMultipleStandardLoadBalancers is true, and the external provider does not read it: it would move every Service to one "+
			"load balancer. Configure multipleStandardLoadBalancerConfigurations for it, and take this key out")
		return out, nil
	}
	var missing []string
	for _, d := range azureDefaults {
		if n := field(root, d.key); n == nil || scalar(n) == "" {
			missing = append(missing, d.key)
			out.Changes = append(out.Changes, fmt.Sprintf("%s: %s is written down: %s", d.key, d.value, d.why))
		}
	}
	if len(missing) > 0 {
		out.Data, err = withDefaults(in, root, missing)
	}
	return out, err
}

func isTrue(n *yaml.Node) bool { return strings.EqualFold(n.Value, "true") }

// withDefaults puts the missing keys first in a JSON object or last in a YAML mapping. A key that is there without a value is replaced with the rest
// of its line kept.
func withDefaults(in []byte, root *yaml.Node, missing []string) ([]byte, error) {
	out := in
	for _, d := range azureDefaults {
		if !slices.Contains(missing, d.key) {
			continue
		}
		var err error
		if n := field(root, d.key); n != nil {
			out, err = fillIn(out, d.key, d.value)
		} else if formatOf(in) == FormatJSON {
			out = intoObject(out, d.key, d.value)
		} else {
			out = intoMapping(out, d.key, d.value)
		}
		if err != nil {
			return nil, err
		}
	}
	again, err := tree(out)
	if err != nil {
		return nil, err
	}
	for _, d := range azureDefaults {
		if n := field(again, d.key); n == nil || scalar(n) == "" {
			return nil, fmt.Errorf("%s cannot be written into a file of this form: write it by hand", d.key)
		}
	}
	return out, nil
}

// fillIn replaces the empty value of a key ("" or null or nothing) by one.
func fillIn(in []byte, key, value string) ([]byte, error) {
	pattern := regexp.MustCompile(`(?im)("?\b` + regexp.QuoteMeta(key) + `"?[ \t]*:)[ \t]*(""|''|null|~)?([ \t]*[,}\r\n#]|[ \t]*\z)`)
	if len(pattern.FindAllIndex(in, -1)) != 1 {
		return nil, fmt.Errorf("%s has no value: write one or take it out", key)
	}
	return pattern.ReplaceAll(in, []byte(`${1} "`+value+`"${3}`)), nil
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
