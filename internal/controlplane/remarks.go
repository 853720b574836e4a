package controlplane

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
)

// secretName is what the name of a variable speaks of whose value is not shown.
var secretName = regexp.MustCompile(`(?i)secret|token|passw|key|credential|auth`)

// expanded is Command with $(NAME) replaced by what the container's environment says.
func (m *Manifest) expanded() []string {
	values := map[string]string{}
	for _, e := range m.container().Env {
		delete(values, e.Name) // a later one takes the place of an earlier one
		if e.ValueFrom == nil && !secretName.MatchString(e.Name) {
			values[e.Name] = expandParentheses(e.Value, values)
			if len(values[e.Name]) > longestArgument {
				delete(values, e.Name)
			}
		}
	}
	out := m.Command()
	for i, arg := range out {
		if long := expandParentheses(arg, values); len(long) <= longestArgument {
			out[i] = long
		}
	}
	return out
}

// longestArgument is how long, in bytes, Linux lets an argument or a variable be (MAX_ARG_STRLEN): a container with a
// longer one does not start. Variables that name each other twice would take the memory of their reader.
const longestArgument = 128 << 10

// expandParentheses replaces $(NAME) where the name is known, and $$ by a dollar sign.
func expandParentheses(text string, values map[string]string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "$")
		b.WriteString(before)
		if !ok || b.Len() > longestArgument {
			return b.String()
		}
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "("), ")")
		value, known := values[name]
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			text = rest[1:]
		case strings.HasPrefix(rest, "(") && closed && known:
			b.WriteString(value)
			text = after
		default:
			b.WriteByte('$')
			text = rest
		}
	}
}

// Remarks are sentences about the way in which a manifest is written that an edit, or who reads it, has to mind; sorted
// by importance.
func (m *Manifest) Remarks() []string {
	out := systemdunit.RepeatedFlags(m.Command())
	flags := m.Flags()
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if strings.Contains(flags[name], "$(") {
			out = append(
				out,
				fmt.Sprintf("the value of --%s depends on a variable that the manifest does not show (%s)", name, flags[name]),
			)
		}
	}
	if c := m.container(); len(commandline.FlagsOf(c.Command)) > 0 && slices.ContainsFunc(c.Args, commandline.IsFlag) {
		out = append(out, "args split between command and args")
	}
	if n := len(m.pod.Spec.Containers); n > 1 {
		out = append(out, fmt.Sprintf("the pod has %d containers: flags are those of %q", n, m.container().Name))
	}
	out = append(out, m.unknownFields()...)
	s := styles{}
	s.inspect(m.doc.Root, 0)
	if s.anchors {
		out = append(out, "anchors: an edit of a list that is written elsewhere writes it out where it is used")
	}
	if s.merges {
		out = append(out, "merge keys (<<): what is merged into the container cannot be edited")
	}
	if m.doc.Root.Style&yaml.FlowStyle != 0 {
		out = append(out, "written as JSON")
	}
	return out
}

// styles are ways of writing YAML.
type styles struct{ anchors, merges bool }

// maxDepth bounds how deep a manifest is looked into; a Pod is less than 20 deep.
const maxDepth = 100

func (s *styles) inspect(n *yaml.Node, depth int) {
	if depth > maxDepth {
		return
	}
	s.anchors = s.anchors || n.Kind == yaml.AliasNode
	s.merges = s.merges || n.Tag == "!!merge"
	for _, c := range n.Content {
		s.inspect(c, depth+1)
	}
}

// unknownFields are those that a Pod does not have. A kubelet passes over them without a word, so that what they were
// meant to do is not done.
func (m *Manifest) unknownFields() []string {
	tree, err := m.doc.ParseTree()
	if err != nil {
		return nil
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return nil // a map whose keys are no texts; the kubelet refuses it, and the pod is not there
	}
	var object map[string]any
	if err := utiljson.Unmarshal(data, &object); err != nil {
		return nil
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, &corev1.Pod{}, true)
	var out []string
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			out = append(out, fmt.Sprintf("%s, which a kubelet passes over", e))
		}
	} else if err != nil {
		out = append(out, "it is not a Pod that a kubelet takes: "+err.Error())
	}
	slices.Sort(out)
	return out
}
