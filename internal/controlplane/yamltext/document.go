// Package yamltext finds the nodes of a YAML document in its text, so that one can be changed and every other byte
// stays.
package yamltext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
)

// Document is a manifest as text and as nodes that say where in the text they stand. Edits are made in the text: an
// encoder would rewrite quotes, indentation and comments of everything else.
type Document struct {
	data  []byte
	lines []line
	Root  *yaml.Node
}

// line is a line's place in the text: data[start:end] without its break, and where the next one starts.
type line struct{ start, end, next int }

// NewDocument reads a text with one YAML document.
func NewDocument(data []byte) (d *Document, err error) {
	defer func() {
		if r := recover(); r != nil { // the reader is not ours, and no manifest may end the program
			d, err = nil, &NotYAMLError{Reason: fmt.Sprintf("it cannot be read (%v)", r)}
		}
	}()
	if !utf8.Valid(data) {
		return nil, &NotYAMLError{
			Line:   1 + bytes.Count(data[:firstInvalid(data)], []byte("\n")),
			Reason: "it is not UTF-8 text",
		}
	}
	d = &Document{data: data, lines: split(data)}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var top yaml.Node
	if err := dec.Decode(&top); errors.Is(err, io.EOF) {
		return nil, &NotPodError{}
	} else if err != nil {
		return nil, NotYAML(err)
	}
	for {
		var more yaml.Node
		err := dec.Decode(&more)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, NotYAML(err)
		}
		if more.Kind == yaml.DocumentNode && more.Content[0].Tag != "!!null" {
			return nil, &NotYAMLError{
				Line:   more.Content[0].Line,
				Reason: "a second document begins there, which a kubelet would ignore: leave one Pod in the file",
			}
		}
	}
	d.Root = top.Content[0]
	if d.Root.Kind != yaml.MappingNode {
		return nil, &NotPodError{}
	}
	return d, nil
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

// breaks are what YAML 1.1 takes for the end of a line; longest first.
var breaks = [][]byte{[]byte("\r\n"), []byte("\n"), []byte("\r"), []byte("\u0085"), []byte("\u2028"), []byte("\u2029")}

func split(data []byte) []line {
	var out []line
	at := line{}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		at.start = len("\ufeff") // not counted as a column
	}
next:
	for i := at.start; i < len(data); {
		for _, b := range breaks {
			if bytes.HasPrefix(data[i:], b) {
				at.end, at.next = i, i+len(b)
				out = append(out, at)
				at = line{start: at.next}
				i = at.start
				continue next
			}
		}
		i++
	}
	at.end, at.next = len(data), len(data)
	return append(out, at)
}

// OffsetOf is where a node begins in the text.
func (d *Document) OffsetOf(n *yaml.Node) (int, error) {
	if n.Line < 1 || n.Line > len(d.lines) {
		return 0, fmt.Errorf("line %d is not in the text", n.Line)
	}
	l := d.lines[n.Line-1]
	at := l.start
	for range n.Column - 1 {
		if at >= l.end {
			return 0, fmt.Errorf("line %d has no column %d", n.Line, n.Column)
		}
		_, size := utf8.DecodeRune(d.data[at:])
		at += size
	}
	return at, nil
}

// LineOf is the index of the line that holds an offset.
func (d *Document) LineOf(offset int) int {
	return max(0, sort.Search(len(d.lines), func(i int) bool { return d.lines[i].start > offset })-1)
}

// TextBefore is the text of a line up to an offset, after the rest of the line.
func (d *Document) TextBefore(offset int) string {
	return string(d.data[d.lines[d.LineOf(offset)].start:offset])
}

func (d *Document) after(offset int) string {
	return string(d.data[offset:d.lines[d.LineOf(offset)].end])
}

// LineBreak is the line break in use at a line.
func (d *Document) LineBreak(i int) string {
	for _, l := range []line{d.lines[i], d.lines[0]} {
		if l.next > l.end {
			return string(d.data[l.end:l.next])
		}
	}
	return "\n"
}

// ApplySplices returns the text of the document after the splices.
func (d *Document) ApplySplices(splices []textedit.Splice) []byte {
	return textedit.ApplySplices(d.data, splices)
}

// InsertLines puts whole lines behind the line that holds an offset.
func (d *Document) InsertLines(offset int, lines []string) textedit.Splice {
	i := d.LineOf(offset)
	l, eol := d.lines[i], d.LineBreak(i)
	text := strings.Join(lines, eol)
	if l.next == l.end { // the last line of a file that does not end in a line break stays so
		return textedit.Splice{Start: l.end, End: l.end, Text: eol + text}
	}
	return textedit.Splice{Start: l.next, End: l.next, Text: text + eol}
}

// RemoveLines takes away the lines from the one that holds an offset to the one that holds another.
func (d *Document) RemoveLines(from, to int) textedit.Splice {
	first, last := d.lines[d.LineOf(from)], d.lines[d.LineOf(to)]
	if i := d.LineOf(from); last.next == last.end && i > 0 {
		return textedit.Splice{Start: d.lines[i-1].end, End: last.end, Text: ""}
	}
	return textedit.Splice{Start: first.start, End: last.next, Text: ""}
}

// ParseTree is the document as values, with aliases and merges resolved.
func (d *Document) ParseTree() (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &NotYAMLError{Reason: fmt.Sprintf("it cannot be read (%v)", r)}
		}
	}()
	if err := d.Root.Decode(&tree); err != nil {
		return nil, NotYAML(err)
	}
	return tree, nil
}
