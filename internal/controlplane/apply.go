package controlplane

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Apply carries edits out on a manifest. It is pure and idempotent: a manifest that needs no edit comes back as the same bytes.
func Apply(data []byte, edits []v1.Edit) ([]byte, error) {
	for _, e := range edits {
		m, err := Parse(data)
		if err != nil {
			return nil, err
		}
		if err := m.editable(); err != nil {
			return nil, err
		}
		switch e.Op {
		case "setFlag":
			data, err = m.setFlag(e.Name, e.Value)
		case "unsetFlag":
			data, err = m.unsetFlag(e.Name)
		case "addHostPath":
			data, err = m.addHostPath(e)
		case "removeHostPath":
			data, err = m.removeHostPath(e)
		default:
			err = fmt.Errorf("edit %q is not known", e.Op)
		}
		if err != nil {
			return nil, err
		}
		if _, err := Parse(data); err != nil {
			return nil, fmt.Errorf("after %s %s the manifest could not be read back, so it was left alone: %w", e.Op, e.Name, err)
		}
	}
	return data, nil
}

// editable refuses a command line inside a shell: its flags are text, and an edit beside them would do nothing.
func (m *Manifest) editable() error {
	if len(m.command) == 0 {
		return errors.New("its container has no command: its flags are not known")
	}
	switch componentOf(m.command) {
	case "sh", "bash", "ash", "dash":
		return fmt.Errorf("its container runs %q: flags inside a shell's text cannot be edited; write them as a list", strings.Join(m.command[:min(2, len(m.command))], " "))
	}
	return nil
}

// arg is an argument and the node it came from.
type arg struct {
	node *yaml.Node
	list *yaml.Node
}

func (m *Manifest) arguments() []arg {
	var out []arg
	for _, key := range []string{"command", "args"} {
		if list := child(m.container, key); list != nil {
			for _, item := range list.Content {
				out = append(out, arg{node: item, list: list})
			}
		}
	}
	return out
}

// occurrence is where a flag stands: from argument first, over n arguments.
type occurrence struct{ first, n int }

func (m *Manifest) occurrences(name string) []occurrence {
	var out []occurrence
	for i := 0; i < len(m.command); {
		found, _, n := flagAt(m.command, i)
		if found == name {
			out = append(out, occurrence{i, n})
		}
		i += n
	}
	return out
}

func (m *Manifest) setFlag(name, value string) ([]byte, error) {
	found := m.occurrences(name)
	args := m.arguments()
	e := newEditor(m.data)
	switch {
	case len(found) == 1 && m.Flags()[name] == value:
		return m.data, nil
	case len(found) > 0:
		// One of them, at the first one's place; the last one won so far, and would go on to win.
		first := found[0]
		if first.n == 2 {
			e.replace(args[first.first+1].node, value)
		} else {
			e.replace(args[first.first].node, "--"+name+"="+value)
		}
		for _, o := range found[1:] {
			for i := range o.n {
				e.remove(args[o.first+i].node)
			}
		}
	default:
		e.insertAfter(args[len(args)-1].node, "--"+name+"="+value)
	}
	return e.result(m, args)
}

func (m *Manifest) unsetFlag(name string) ([]byte, error) {
	found := m.occurrences(name)
	if len(found) == 0 {
		return m.data, nil
	}
	args := m.arguments()
	e := newEditor(m.data)
	for _, o := range found {
		for i := range o.n {
			e.remove(args[o.first+i].node)
		}
	}
	return e.result(m, args)
}

// editor splices lines, so that every line it does not touch stays as it is.
type editor struct {
	lines []string
	ops   []lineOp
	// why says that a node cannot be edited by line: a list in brackets, a value over several lines, an alias.
	why error
}

type lineOp struct {
	line int // from 0
	kind string
	text []string
}

func newEditor(data []byte) *editor {
	return &editor{lines: strings.SplitAfter(string(data), "\n")}
}

// replace puts another scalar into a list item that is alone on its line.
func (e *editor) replace(n *yaml.Node, value string) {
	line, ok := e.item(n)
	if !ok {
		return
	}
	prefix := line[:n.Column-1]
	comment := ""
	if n.LineComment != "" {
		if i := strings.LastIndex(line, n.LineComment); i >= 0 {
			comment = " " + line[i:len(line)-len(ending(line))]
		}
	}
	e.ops = append(e.ops, lineOp{n.Line - 1, "replace", []string{prefix + scalar(value) + comment + ending(line)}})
}

func (e *editor) remove(n *yaml.Node) {
	if _, ok := e.item(n); ok {
		e.ops = append(e.ops, lineOp{n.Line - 1, "remove", nil})
	}
}

func (e *editor) insertAfter(n *yaml.Node, value string) {
	line, ok := e.item(n)
	if !ok {
		return
	}
	end := ending(line)
	text := line[:n.Column-1] + scalar(value)
	if end == "" { // the last line of a file without a final newline
		e.ops = append(e.ops, lineOp{n.Line - 1, "replace", []string{line + "\n"}})
		end = "\n"
	}
	e.ops = append(e.ops, lineOp{n.Line - 1, "after", []string{text + end}})
}

// item returns the line of a list item when it can be edited as a line.
func (e *editor) item(n *yaml.Node) (string, bool) {
	if e.why != nil {
		return "", false
	}
	line := e.lines[n.Line-1]
	before := strings.TrimSpace(line[:min(n.Column-1, len(line))])
	switch {
	case n.Kind != yaml.ScalarNode:
		e.why = errors.New("an argument is an alias")
	case before != "-":
		e.why = errors.New("the arguments are not one on each line")
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 || strings.Contains(n.Value, "\n") || multiline(line, n):
		e.why = errors.New("an argument goes over several lines")
	}
	return line, e.why == nil
}

// multiline tells that a scalar does not end on the line where it begins.
func multiline(line string, n *yaml.Node) bool {
	rest := strings.TrimSpace(line[n.Column-1:])
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return strings.Count(rest, `"`)-strings.Count(rest, `\"`) < 2
	case n.Style&yaml.SingleQuotedStyle != 0:
		return strings.Count(rest, "'") < 2
	}
	return !strings.HasPrefix(rest, n.Value)
}

func ending(line string) string {
	switch {
	case strings.HasSuffix(line, "\r\n"):
		return "\r\n"
	case strings.HasSuffix(line, "\n"):
		return "\n"
	}
	return ""
}

// scalar renders a value as YAML, plain where that is safe.
func scalar(value string) string {
	out, err := yaml.Marshal(value)
	if err != nil || strings.Count(string(out), "\n") != 1 {
		return fmt.Sprintf("%q", value)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// result is the edited file, or why it cannot be edited by line.
func (e *editor) result(m *Manifest, _ []arg) ([]byte, error) {
	if e.why != nil {
		return nil, fmt.Errorf("the command of pod %s cannot be edited without touching the rest: %w; write one argument on each line", m.name, e.why)
	}
	return e.bytes(), nil
}

func (e *editor) bytes() []byte {
	var out strings.Builder
	for i, line := range e.lines {
		removed := false
		var after []string
		for _, op := range e.ops {
			if op.line != i {
				continue
			}
			switch op.kind {
			case "replace":
				line = op.text[0]
			case "remove":
				removed = true
			case "after":
				after = append(after, op.text...)
			}
		}
		if !removed {
			out.WriteString(line)
		}
		for _, a := range after {
			out.WriteString(a)
		}
	}
	return []byte(out.String())
}
