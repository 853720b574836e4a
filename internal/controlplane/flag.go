package controlplane

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

// argument is an element of the command and its arguments, with the list in which it stands.
type argument struct {
	value string
	node  *yaml.Node
	list  *argumentList
	index int
}

// argumentList is the container's command or args.
type argumentList struct {
	key   string
	owner *yaml.Node // the container
	node  *yaml.Node // the list; an alias when it is written elsewhere
	items []*yaml.Node
}

// arguments are the elements of Command with their places.
func (m *Manifest) arguments() ([]argument, error) {
	command := m.Command()
	if at := commandline.ScriptIndex(command); at >= 0 && commandline.ProgramIndex(command) < at {
		return nil, &commandline.ShellCommandError{Shell: command[0], Component: m.container().Name}
	}
	owner := m.containerNode()
	var out []argument
	for _, key := range []string{"command", "args"} {
		_, value := yamltext.FindKey(owner, key)
		said := m.container().Command
		if key == "args" {
			said = m.container().Args
		}
		if len(said) == 0 {
			continue
		}
		list := &argumentList{key: key, owner: owner, node: value}
		if list.items = yamltext.ListItems(value); len(list.items) != len(said) {
			return nil, yamltext.Unsupported(owner.Line, "the container's %s is merged in from elsewhere", key)
		}
		for i, n := range list.items {
			out = append(out, argument{
				value: said[i],
				node:  n,
				list:  list,
				index: i,
			})
		}
	}
	return out, nil
}

func (m *Manifest) setFlag(name, value string) (*change, error) {
	args, err := m.arguments()
	if err != nil {
		return nil, err
	}
	all := commandline.FindFlags(m.Command())
	have := commandline.OccurrencesOf(all, name)
	switch {
	case len(have) > 1:
		f := have[0] // the last one wins, so the others go
		return m.removeArguments(args, f.Index, f.LastIndex())
	case len(have) == 0:
		return m.insertArguments(args, all, commandline.FormatNewFlag(all, name, value))
	case have[0].Value == value:
		return nil, nil
	}
	f := have[0]
	if f.Form == commandline.Separate && commandline.IsFlag(value) {
		// "--x -y" would be read as two flags; it is added again as "--x=-y"
		return m.removeArguments(args, f.Index, f.LastIndex())
	}
	return m.replaceArgument(args[f.LastIndex()], commandline.FormatFlag(args[f.Index].value, f.Form, value))
}

func (m *Manifest) unsetFlag(name string) (*change, error) {
	args, err := m.arguments()
	if err != nil {
		return nil, err
	}
	have := commandline.OccurrencesOf(commandline.FindFlags(m.Command()), name)
	if len(have) == 0 {
		return nil, nil
	}
	return m.removeArguments(args, have[0].Index, have[0].LastIndex())
}

// insertArguments puts elements behind the last flag, else behind the program.
func (m *Manifest) insertArguments(args []argument, all []commandline.Occurrence, add []string) (*change, error) {
	after := commandline.ProgramIndex(m.Command())
	if len(all) > 0 {
		after = all[len(all)-1].LastIndex()
	}
	if after < 0 || after >= len(args) {
		return nil, yamltext.Unsupported(
			m.containerNode().Line,
			"the container has neither a command nor a flag to put another one behind",
		)
	}
	a := args[after]
	s, err := m.insertElements(a, add)
	if err != nil {
		return nil, err
	}
	return m.argumentChange(a.list, s, func(have []any) []any {
		return slices.Insert(have, a.index+1, anySlice(add)...)
	}), nil
}

func anySlice(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

func (m *Manifest) insertElements(a argument, add []string) ([]textedit.Splice, error) {
	if a.list.node.Kind == yaml.AliasNode {
		return m.expand(a.list, func(have []string) []string { return slices.Insert(have, a.index+1, add...) })
	}
	_, end, err := m.doc.ExtentOf(a.node)
	if err != nil {
		return nil, err
	}
	style := a.node.Style
	if yamltext.QuoteScalar(a.value, 0, false) != a.value {
		style = 0 // its quotes are there because it needs them
	}
	if a.list.node.Style&yaml.FlowStyle != 0 {
		text := ""
		for _, v := range add {
			text += m.separator(a) + yamltext.QuoteScalar(v, style, true)
		}
		return []textedit.Splice{{Start: end, End: end, Text: text}}, nil
	}
	prefix, err := m.doc.DashPrefix(a.node)
	if err != nil {
		return nil, err
	}
	if !m.doc.EndsLine(end) {
		return nil, yamltext.Unsupported(
			a.node.Line,
			"something follows the argument %q on its line",
			yamltext.Abbreviate(a.value),
		)
	}
	var lines []string
	for _, v := range add {
		lines = append(lines, prefix+yamltext.QuoteScalar(v, style, false))
	}
	return []textedit.Splice{m.doc.InsertLines(end, lines)}, nil
}

// separator is what stands between two elements of a list in brackets: a line break when the elements stand on lines of
// their own.
func (m *Manifest) separator(a argument) string {
	if at, err := m.doc.OffsetOf(a.node); err == nil {
		if before := m.doc.TextBefore(at); a.index > 0 && strings.TrimSpace(before) == "" {
			return "," + m.doc.LineBreak(m.doc.LineOf(at)) + before
		}
	}
	return ", "
}

// replaceArgument gives one element another text.
func (m *Manifest) replaceArgument(a argument, value string) (*change, error) {
	var s []textedit.Splice
	if a.list.node.Kind == yaml.AliasNode {
		var err error
		if s, err = m.expand(a.list, func(have []string) []string { have[a.index] = value; return have }); err != nil {
			return nil, err
		}
	} else {
		start, end, err := m.doc.ExtentOf(a.node)
		if err != nil {
			return nil, err
		}
		style := a.node.Style
		if a.node.Kind == yaml.AliasNode {
			style = 0
		}
		s = []textedit.Splice{
			{Start: start, End: end, Text: yamltext.QuoteScalar(value, style, a.list.node.Style&yaml.FlowStyle != 0)},
		}
	}
	return m.argumentChange(a.list, s, func(have []any) []any { have[a.index] = value; return have }), nil
}

// removeArguments takes the elements from one to another away. They stand in one list, or at the end of command and the
// beginning of args.
func (m *Manifest) removeArguments(args []argument, first, last int) (*change, error) {
	if args[first].list != args[last].list {
		// The value first: without its name it would be a stray word, but it never is, since both go in one change.
		value, err := m.removeArguments(args, last, last)
		if err != nil {
			return nil, err
		}
		name, err := m.removeArguments(args, first, last-1)
		if err != nil {
			return nil, err
		}
		return &change{
			splices: append(name.splices, value.splices...),
			want:    func(t map[string]any) { name.want(t); value.want(t) },
		}, nil
	}
	list, from, to := args[first].list, args[first].index, args[last].index
	s, err := m.removeElements(list, from, to)
	if err != nil {
		return nil, err
	}
	return m.argumentChange(list, s, func(have []any) []any { return slices.Delete(have, from, to+1) }), nil
}

func (m *Manifest) removeElements(list *argumentList, from, to int) ([]textedit.Splice, error) {
	switch {
	case list.node.Kind == yaml.AliasNode:
		return m.expand(list, func(have []string) []string { return slices.Delete(have, from, to+1) })
	case list.node.Style&yaml.FlowStyle != 0:
		s, err := m.doc.RemoveFlowItems(list.items, from, to)
		return []textedit.Splice{s}, err
	}
	out, err := m.removeArgumentLines(list.items[from : to+1])
	if err != nil {
		return nil, err
	}
	if to-from+1 < len(list.items) {
		return out, nil
	}
	colon, err := m.doc.ColonOf(list.owner, list.key)
	return append(out, textedit.Splice{Start: colon, End: colon, Text: " []"}), err
}

// removeArgumentLines takes away the lines of elements; neighbours go in one piece.
func (m *Manifest) removeArgumentLines(items []*yaml.Node) ([]textedit.Splice, error) {
	var out []textedit.Splice
	from, to := 0, -1 // the piece so far, as offsets
	for _, n := range items {
		start, end, err := m.doc.ExtentOf(n)
		if err != nil {
			return nil, err
		}
		if _, err := m.doc.DashPrefix(n); err != nil {
			return nil, err
		}
		if !m.doc.EndsLine(end) {
			return nil, yamltext.Unsupported(n.Line, "something follows an argument on its line")
		}
		switch {
		case to < 0:
			from = start
		case m.doc.LineOf(start) > m.doc.LineOf(to)+1: // a comment stands between them, and stays
			out = append(out, m.doc.RemoveLines(from, to))
			from = start
		}
		to = end
	}
	return append(out, m.doc.RemoveLines(from, to)), nil
}

// expand writes an aliased list out where it is used, so that the other places that use it do not change.
func (m *Manifest) expand(list *argumentList, edit func([]string) []string) ([]textedit.Splice, error) {
	start, end, err := m.doc.ExtentOf(list.node)
	if err != nil {
		return nil, err
	}
	said := m.container().Command
	if list.key == "args" {
		said = m.container().Args
	}
	var parts []string
	for _, v := range edit(slices.Clone(said)) {
		parts = append(parts, yamltext.QuoteDouble(v))
	}
	return []textedit.Splice{{Start: start, End: end, Text: "[" + strings.Join(parts, ", ") + "]"}}, nil
}

// argumentChange is a change of the container's command or args.
func (m *Manifest) argumentChange(list *argumentList, s []textedit.Splice, edit func([]any) []any) *change {
	return &change{splices: s, want: func(tree map[string]any) {
		c := m.containerTree(tree)
		have, _ := c[list.key].([]any)
		c[list.key] = edit(slices.Clone(have)) // a clone: an aliased list is shared with other places
	}}
}
