package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document is a manifest as text and as nodes that say where in the text they stand. Edits are made in the text: an encoder would rewrite quotes,
// indentation and comments of everything else.
type document struct {
	data  []byte
	lines []line
	root  *yaml.Node
}

// line is a line's place in the text: data[start:end] without its break, and where the next one starts.
type line struct{ start, end, next int }

func newDocument(data []byte) (d *document, err error) {
	defer func() {
		if r := recover(); r != nil { // the reader is not ours, and no manifest may end the program
			d, err = nil, &NotYAMLError{Reason: fmt.Sprintf("it cannot be read (%v)", r)}
		}
	}()
	if !utf8.Valid(data) {
		return nil, &NotYAMLError{Line: 1 + bytes.Count(data[:firstInvalid(data)], []byte("\n")), Reason: "it is not UTF-8 text"}
	}
	d = &document{data: data, lines: split(data)}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var top yaml.Node
	if err := dec.Decode(&top); errors.Is(err, io.EOF) {
		return nil, &NotPodError{}
	} else if err != nil {
		return nil, notYAML(err)
	}
	for {
		var more yaml.Node
		err := dec.Decode(&more)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, notYAML(err)
		}
		if more.Kind == yaml.DocumentNode && more.Content[0].Tag != "!!null" {
			return nil, &NotYAMLError{Line: more.Content[0].Line, Reason: "a second document begins there, which a kubelet would ignore: leave one Pod in the file"}
		}
	}
	d.root = top.Content[0]
	if d.root.Kind != yaml.MappingNode {
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

// offset is where a node begins in the text.
func (d *document) offset(n *yaml.Node) (int, error) {
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

// lineOf is the index of the line that holds an offset.
func (d *document) lineOf(offset int) int {
	return max(0, sort.Search(len(d.lines), func(i int) bool { return d.lines[i].start > offset })-1)
}

// before is the text of a line up to an offset, after the rest of the line.
func (d *document) before(offset int) string {
	return string(d.data[d.lines[d.lineOf(offset)].start:offset])
}
func (d *document) after(offset int) string {
	return string(d.data[offset:d.lines[d.lineOf(offset)].end])
}

// eol is the line break in use at a line.
func (d *document) eol(i int) string {
	for _, l := range []line{d.lines[i], d.lines[0]} {
		if l.next > l.end {
			return string(d.data[l.end:l.next])
		}
	}
	return "\n"
}

// splice replaces data[start:end].
type splice struct {
	start, end int
	text       string
}

func (d *document) apply(splices []splice) []byte { return splicedInto(d.data, splices) }

// splicedInto carries splices out. Where two remove the same bytes, they are removed once.
func splicedInto(data []byte, splices []splice) []byte {
	sort.SliceStable(splices, func(i, j int) bool { return splices[i].start < splices[j].start })
	var out bytes.Buffer
	at := 0
	for _, s := range splices {
		out.Write(data[at:max(at, s.start)])
		out.WriteString(s.text)
		at = max(at, s.end)
	}
	out.Write(data[at:])
	return out.Bytes()
}

// insertLines puts whole lines behind the line that holds an offset.
func (d *document) insertLines(offset int, lines []string) splice {
	i := d.lineOf(offset)
	l, eol := d.lines[i], d.eol(i)
	text := strings.Join(lines, eol)
	if l.next == l.end { // the last line of a file that does not end in a line break stays so
		return splice{l.end, l.end, eol + text}
	}
	return splice{l.next, l.next, text + eol}
}

// removeLines takes away the lines from the one that holds an offset to the one that holds another.
func (d *document) removeLines(from, to int) splice {
	first, last := d.lines[d.lineOf(from)], d.lines[d.lineOf(to)]
	if i := d.lineOf(from); last.next == last.end && i > 0 {
		return splice{d.lines[i-1].end, last.end, ""}
	}
	return splice{first.start, last.next, ""}
}

// tree is the document as values, with aliases and merges resolved.
func (d *document) tree() (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &NotYAMLError{Reason: fmt.Sprintf("it cannot be read (%v)", r)}
		}
	}()
	if err := d.root.Decode(&tree); err != nil {
		return nil, notYAML(err)
	}
	return tree, nil
}
