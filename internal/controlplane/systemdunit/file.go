package systemdunit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
)

// Setting is an assignment in a unit file, with the place of every letter of its value.
type Setting struct {
	Section, key string
	Value        []textedit.Letter
	line         int
}

// ReadUnitFile reads the assignments of a unit file as systemd does. A backslash at the end of a line joins it with the
// next one, and lines of comment in between do not count.
func ReadUnitFile(data []byte) []Setting {
	var out []Setting
	section := ""
	for at, number := 0, 1; at < len(data); {
		letters, next, lines := joinLines(data, at)
		line := number
		at, number = next, number+lines
		letters = trimLetters(letters)
		if len(letters) == 0 {
			continue
		}
		text := TextOf(letters)
		if text[0] == '[' {
			section = strings.Trim(text, "[]")
			continue
		}
		equal := strings.IndexByte(text, '=')
		if equal < 0 {
			continue // systemd warns and goes on
		}
		out = append(out, Setting{
			Section: section, key: strings.TrimSpace(text[:equal]), Value: trimLetters(letters[equal+1:]), line: line,
		})
	}
	return out
}

// joinLines is a line with those that it goes on in, where the next one begins, and how many lines of the file it is.
func joinLines(data []byte, at int) (letters []textedit.Letter, next, lines int) {
	for at < len(data) {
		start := at
		end, after := lineEnd(data, start)
		lines++
		at = after
		if isComment(data[start:end]) {
			if len(letters) == 0 {
				return nil, at, lines
			}
			continue
		}
		for i := start; i < end; i++ {
			letters = append(letters, textedit.Letter{Char: data[i], Start: i, End: i + 1})
		}
		if !goesOn(data[start:end]) {
			break
		}
		letters[len(letters)-1].Char = ' '
	}
	return letters, at, lines
}

func lineEnd(data []byte, at int) (end, next int) {
	i := bytes.IndexByte(data[at:], '\n')
	if i < 0 {
		return len(data), len(data)
	}
	end, next = at+i, at+i+1
	if end > at && data[end-1] == '\r' {
		end--
	}
	return end, next
}

// goesOn reports whether a line ends in a backslash that is not itself escaped.
func goesOn(line []byte) bool {
	escaped := false
	for _, c := range line {
		escaped = !escaped && c == '\\'
	}
	return escaped
}

func isComment(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && (line[0] == '#' || line[0] == ';')
}

func trimLetters(in []textedit.Letter) []textedit.Letter {
	for len(in) > 0 && textedit.IsSpace(in[0].Char) {
		in = in[1:]
	}
	for len(in) > 0 && textedit.IsSpace(in[len(in)-1].Char) {
		in = in[:len(in)-1]
	}
	return in
}

// TextOf returns letters as a text.
func TextOf(in []textedit.Letter) string {
	var b strings.Builder
	for _, l := range in {
		b.WriteByte(l.Char)
	}
	return b.String()
}

// unitWord is a word of a unit's setting with its quotes and escapes taken away.
type unitWord struct {
	Letters []textedit.Letter
	// start and end are its place with its quotes; plain reports whether it has no quotes and no escapes.
	start, end int
	plain      bool
}

// SplitValue splits a setting's value at spaces that are in no quotes, and reads C escapes, as systemd does for
// ExecStart= and Environment=.
func SplitValue(value []textedit.Letter) ([]unitWord, error) {
	var out []unitWord
	for i := 0; i < len(value); {
		if textedit.IsSpace(value[i].Char) {
			i++
			continue
		}
		w, next, err := readUnitWord(value, i)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
		i = next
	}
	return out, nil
}

func readUnitWord(value []textedit.Letter, i int) (unitWord, int, error) {
	w := unitWord{start: value[i].Start, plain: true}
	var quote byte
	for ; i < len(value) && (quote != 0 || !textedit.IsSpace(value[i].Char)); i++ {
		switch c := value[i].Char; {
		case quote == 0 && (c == '\'' || c == '"'):
			quote, w.plain = c, false
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\':
			l, used, err := unescape(value[i:])
			if err != nil {
				return w, 0, err
			}
			w.Letters = append(w.Letters, l)
			w.plain = false
			i += used - 1
		default:
			w.Letters = append(w.Letters, value[i])
		}
		w.end = value[i].End
	}
	if quote != 0 {
		return w, 0, fmt.Errorf("it has a quote (%c) that is not closed", quote)
	}
	return w, i, nil
}

// escapes are those of C that systemd knows and that stand for one byte, and \s for a space.
var escapes = map[byte]byte{
	'a':  '\a',
	'b':  '\b',
	'f':  '\f',
	'n':  '\n',
	'r':  '\r',
	't':  '\t',
	'v':  '\v',
	'\\': '\\',
	'"':  '"',
	'\'': '\'',
	's':  ' ',
	';':  ';',
}

// unescape reads an escape at the beginning, and how many letters it takes.
func unescape(in []textedit.Letter) (textedit.Letter, int, error) {
	if len(in) > 3 && in[1].Char == 'x' {
		if n, err := strconv.ParseUint(TextOf(in[2:4]), 16, 8); err == nil && n != 0 {
			return textedit.Letter{Char: byte(n), Start: in[0].Start, End: in[3].End}, 4, nil
		}
	}
	if len(in) > 1 {
		if c, ok := escapes[in[1].Char]; ok {
			return textedit.Letter{Char: c, Start: in[0].Start, End: in[1].End}, 2, nil
		}
	}
	return textedit.Letter{}, 0, fmt.Errorf("it has an escape (%q) that is not known", TextOf(in[:min(2, len(in))]))
}

// assignment is NAME=value in an environment file or an Environment= setting.
type assignment struct {
	Name  string
	file  string
	value []textedit.Letter
	// At is where the value begins, behind its quote.
	At int
	// open reports whether a quote in it is not closed, so that the rest of the file is taken for the value.
	open bool
	// wrap is the whole assignment of an Environment= setting that has no quotes: with a space in it, it needs them.
	wrap *unitWord
}

// Words are the arguments that systemd makes of the value of a variable that stands alone on a command line.
func (a assignment) Words() ([]textedit.Word, error) {
	if a.open {
		return nil, errors.New("it has a quote that is not closed")
	}
	return textedit.SplitWords(a.value)
}

// ReadEnvironmentFile reads an environment file as systemd does: what is no assignment is passed over.
func ReadEnvironmentFile(data []byte) []assignment {
	var out []assignment
	for at := 0; at < len(data); {
		start := at
		for start < len(data) && (textedit.IsSpace(data[start]) || data[start] == '\n') {
			start++
		}
		end, next := lineEnd(data, start)
		equal := bytes.IndexByte(data[start:end], '=')
		if start >= len(data) || isComment(data[start:end]) || equal < 0 {
			at = max(next, start+1)
			continue
		}
		a := assignment{Name: strings.TrimSpace(string(data[start : start+equal]))}
		r := environmentValue(data, start+equal+1)
		a.value, a.At, a.open, at = r.value[:r.trim], r.begin, r.quote != 0, r.at
		if textedit.VariableName.MatchString(a.Name) {
			out = append(out, a)
		}
	}
	return out
}

// shellSpecial are the characters that a backslash protects between double quotes.
const shellSpecial = "\"\\`$"

// environmentValue reads the value that begins at an offset.
func environmentValue(data []byte, at int) valueReader {
	for at < len(data) && textedit.IsSpace(data[at]) {
		at++
	}
	r := valueReader{data: data, at: at, begin: at}
	if at < len(data) && (data[at] == '"' || data[at] == '\'') {
		r.begin++
	}
	for r.at < len(data) && !r.readCharacter() { //nolint:revive // the step is the loop
	}
	return r
}

// valueReader reads a value of an environment file.
type valueReader struct {
	data  []byte
	at    int // where it goes on, and in the end where the next line begins
	begin int // where the value begins behind its quote
	value []textedit.Letter
	// trim is where the value ends without the spaces that are outside of quotes.
	trim  int
	quote byte
	// bare reports whether the part is not in quotes and has begun: quotes mean themselves in it.
	bare bool
}

// readCharacter reads one character, and reports whether the value has ended with it.
func (r *valueReader) readCharacter() (ended bool) {
	c := r.data[r.at]
	r.at++
	switch {
	case c == '\\' && r.quote != '\'' && r.at < len(r.data):
		r.escaped()
	case r.quote != 0 && c == r.quote:
		r.quote = 0
	case r.quote != 0:
		r.add(c, true)
	case c == '\n':
		return true
	case r.bare:
		r.add(c, !textedit.IsSpace(c))
	case c == '"' || c == '\'':
		r.quote = c
	case !textedit.IsSpace(c):
		r.bare = true
		r.add(c, true)
	}
	return false
}

// escaped reads the character behind a backslash.
func (r *valueReader) escaped() {
	c, start := r.data[r.at], r.at-1
	r.at++
	switch {
	case c == '\n': // the line goes on
	case r.quote == '"' && !strings.ContainsRune(shellSpecial, rune(c)):
		r.value = append(
			r.value,
			textedit.Letter{Char: '\\', Start: start, End: r.at - 1},
			textedit.Letter{Char: c, Start: r.at - 1, End: r.at},
		)
	default:
		r.value = append(r.value, textedit.Letter{Char: c, Start: start, End: r.at})
	}
	r.trim, r.bare = len(r.value), r.quote == 0
}

func (r *valueReader) add(c byte, keep bool) {
	r.value = append(r.value, textedit.Letter{Char: c, Start: r.at - 1, End: r.at})
	if keep {
		r.trim = len(r.value)
	}
}

// readEnvironmentSetting reads the assignments of an Environment= setting.
func readEnvironmentSetting(s Setting) ([]assignment, error) {
	words, err := SplitValue(s.Value)
	if err != nil {
		return nil, fmt.Errorf("line %d: Environment=: %w", s.line, err)
	}
	var out []assignment
	for _, w := range words {
		equal := slices.IndexFunc(w.Letters, func(l textedit.Letter) bool { return l.Char == '=' })
		if equal < 0 {
			continue // systemd warns and goes on
		}
		a := assignment{Name: TextOf(w.Letters[:equal]), value: unpercent(w.Letters[equal+1:]), At: w.Letters[equal].End}
		if w.plain {
			a.wrap = &w
		}
		if textedit.VariableName.MatchString(a.Name) {
			out = append(out, a)
		}
	}
	return out, nil
}

// unpercent reads %% as a percent sign. Other specifiers stay as they are.
func unpercent(in []textedit.Letter) []textedit.Letter {
	var out []textedit.Letter
	for i := 0; i < len(in); i++ {
		l := in[i]
		if l.Char == '%' && i+1 < len(in) && in[i+1].Char == '%' {
			l.End = in[i+1].End
			i++
		}
		out = append(out, l)
	}
	return out
}
