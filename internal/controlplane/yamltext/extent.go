package yamltext

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ExtentOf is where a scalar, or an alias, stands in the text, without its anchor and tag.
func (d *Document) ExtentOf(n *yaml.Node) (start, end int, err error) {
	at, err := d.OffsetOf(n)
	if err != nil {
		return 0, 0, err
	}
	if n.Kind == yaml.AliasNode {
		end = at + len("*") + len(n.Value)
		if end > len(d.data) || string(d.data[at:end]) != "*"+n.Value {
			return 0, 0, Unsupported(n.Line, "the alias *%s is not where it was read", n.Value)
		}
		return at, end, nil
	}
	if start, err = d.skipProperties(n, at); err != nil {
		return 0, 0, err
	}
	rest := d.data[start:]
	switch n.Style &^ yaml.TaggedStyle {
	case yaml.DoubleQuotedStyle:
		end = closing(rest, '"', '\\')
	case yaml.SingleQuotedStyle:
		end = closing(rest, '\'', '\'')
	case 0:
		end = len(n.Value)
		if !bytes.HasPrefix(rest, []byte(n.Value)) {
			end = 0
		} else if end == 0 { // key: with nothing after it
			return start, start, nil
		}
	default:
		return 0, 0, Unsupported(n.Line, "a block of text (| or >) stands where a single value was looked for")
	}
	if end == 0 {
		return 0, 0, Unsupported(n.Line, "the value %q goes over several lines", Abbreviate(n.Value))
	}
	return start, start + end, nil
}

// skipProperties moves over the anchor and the tag before a value.
func (d *Document) skipProperties(n *yaml.Node, at int) (int, error) {
	for at < len(d.data) && (d.data[at] == '&' || d.data[at] == '!') && (n.Anchor != "" || n.Style&yaml.TaggedStyle != 0) {
		rest := d.after(at)
		i := strings.IndexAny(rest, " \t")
		if i < 0 {
			return 0, Unsupported(n.Line, "an anchor or a tag stands on a line of its own")
		}
		at += i + len(rest[i:]) - len(strings.TrimLeft(rest[i:], " \t"))
	}
	return at, nil
}

// closing is the length of a quoted text that begins with its quote; 0 when it does not end.
func closing(text []byte, quote, escape byte) int {
	if len(text) == 0 || text[0] != quote {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch {
		case escape != quote && text[i] == escape:
			i++
		case escape == quote && text[i] == quote && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return 0
}

// EndOf is where a node of any kind ends in the text.
func (d *Document) EndOf(n *yaml.Node) (int, error) {
	flow := n.Style&yaml.FlowStyle != 0
	switch {
	case n.Kind == yaml.ScalarNode, n.Kind == yaml.AliasNode:
		_, end, err := d.ExtentOf(n)
		return end, err
	case flow && len(n.Content) == 0:
		at, err := d.OffsetOf(n)
		if err == nil {
			at, err = d.skipProperties(n, at)
		}
		if err != nil {
			return 0, err
		}
		return d.bracket(n, at+1)
	case len(n.Content) == 0:
		return 0, Unsupported(n.Line, "a value is empty in a way that is not understood")
	}
	end, err := d.EndOf(n.Content[len(n.Content)-1])
	if err != nil || !flow {
		return end, err
	}
	return d.bracket(n, end)
}

// bracket is the offset behind the bracket that closes a flow list or map, looked for from behind its last value.
func (d *Document) bracket(n *yaml.Node, at int) (int, error) {
	want := byte(']')
	if n.Kind == yaml.MappingNode {
		want = '}'
	}
	for at < len(d.data) {
		switch c := d.data[at]; c {
		case want:
			return at + 1, nil
		case ' ', '\t', '\r', '\n', ',', ':':
			at++
		case '#':
			at = d.lines[d.LineOf(at)].next
		default:
			return 0, Unsupported(n.Line, "the end of a list in brackets was not found")
		}
	}
	return 0, Unsupported(n.Line, "the end of a list in brackets was not found")
}

// DashPrefix is where the line of an item of a block list begins that has nothing before its dash and its value. It is
// an error otherwise.
func (d *Document) DashPrefix(item *yaml.Node) (prefix string, err error) {
	at, err := d.OffsetOf(item)
	if err != nil {
		return "", err
	}
	prefix = d.TextBefore(at)
	if trimmed := strings.TrimRight(
		prefix,
		" ",
	); !strings.HasSuffix(trimmed, "-") ||
		strings.TrimLeft(trimmed, " ") != "-" {
		return "", Unsupported(item.Line, "an element of a list does not stand behind its own dash")
	}
	return prefix, nil
}

// EndsLine reports whether nothing but a comment follows on the line.
func (d *Document) EndsLine(offset int) bool {
	rest := d.after(offset)
	trimmed := strings.TrimLeft(rest, " \t")
	return trimmed == "" || trimmed[0] == '#' && len(trimmed) < len(rest)
}

// Abbreviate is the beginning of a value, for an error.
func Abbreviate(value string) string {
	const most = 40
	if runes := []rune(value); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return value
}
