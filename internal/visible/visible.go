// Package visible sets texts for a terminal. What a cluster, a host or a cloud says may hold line breaks and characters
// that a terminal obeys. It stays in the line it is put into, and nothing in it is obeyed.
package visible

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Line makes one line of a text. A line break becomes a space, and a character that is not seen is written as Go writes
// it.
func Line(s string) string {
	s = strings.ToValidUTF8(s, invalid)
	if !strings.ContainsFunc(s, isHidden) {
		return s
	}
	var b strings.Builder
	for i, line := range splitLines(s) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(escape(line))
	}
	return b.String()
}

// continued is before each further line of a text, so that it is not taken for a line of this program. A command to
// paste would be such a line, for example.
const continued = "\n  | "

// Lines sets a text of several lines such that none but the first begins a line of its own. Blanks are one space each:
// many of them move the rest to the beginning of a terminal's next line.
func Lines(s string) string {
	out := splitLines(strings.ToValidUTF8(s, invalid))
	for i, line := range out {
		out[i] = strings.Join(strings.Fields(escape(line)), " ")
	}
	return strings.Join(out, continued)
}

// invalid stands for bytes that are no text: some terminals obey those as well.
const invalid = string(unicode.ReplacementChar)

// splitLines are the lines of a text that are not empty, without the blanks around them where there are several.
func splitLines(s string) []string {
	all := strings.FieldsFunc(s, endsLine)
	if len(all) == 1 && len(all[0]) == len(s) {
		return all
	}
	var out []string
	for _, line := range all {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// endsLine reports whether a terminal, an editor or Unicode takes a character for the end of a line.
func endsLine(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}

// IsObeyed reports whether a terminal obeys a character instead of showing it: a control character, or one that turns
// the direction of a text. Line breaks and tabs are not meant.
func IsObeyed(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || endsLine(r))
}

// JSON returns a JSON document in which a terminal obeys nothing: such characters are escaped. Outside of strings there
// are none but line breaks and tabs.
func JSON(data []byte) []byte {
	if !bytes.ContainsFunc(data, IsObeyed) {
		return data
	}
	unicodeEscape := func(r rune) string { return fmt.Sprintf(`\u%04x`, r) } // none of them is beyond the basic plane
	return []byte(replace(string(data), IsObeyed, unicodeEscape))
}

// Escaped returns a text of several lines with such characters as Go writes them.
func Escaped(s string) string { return replace(s, IsObeyed, Escape) }

// replace writes the characters of a text that are meant in another way.
func replace(s string, isMeant func(rune) bool, write func(rune) string) string {
	if !strings.ContainsFunc(s, isMeant) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isMeant(r) {
			b.WriteString(write(r))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isHidden(r rune) bool { return r == '\n' || r == '\t' || IsObeyed(r) }

// escape writes the characters of a line that are not seen as Go does; a tab is a space.
func escape(line string) string {
	return replace(line, isHidden, func(r rune) string {
		if r == '\t' {
			return " "
		}
		return Escape(r)
	})
}

// Escape writes a character as Go does in a string.
func Escape(r rune) string { return strings.Trim(strconv.QuoteRuneToASCII(r), "'") }

// Own is a text that this program composed, line breaks and colours included: as an argument it stays as it is.
type Own string

// Sprintf is fmt.Sprintf of a format that is this program's own, and arguments that are not: each stays in its line.
func Sprintf(format string, args ...any) string {
	if false {
		_ = fmt.Sprintf(format, args...) // so that vet checks the calls
	}
	return fmt.Sprintf(format, Arguments(Line, args)...)
}

// Fprintf is Sprintf to a writer.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	if false {
		_ = fmt.Sprintf(format, args...) // so that vet checks the calls
	}
	return fmt.Fprintf(w, format, Arguments(Line, args)...)
}

// Arguments returns the arguments of a format such that each is written as set says. Numbers stay what they are.
func Arguments(set func(string) string, args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a.(type) {
		case int, int32, int64, float64, bool, Own:
			out[i] = a
		default:
			out[i] = argument{a, set}
		}
	}
	return out
}

// argument is an argument of a format that is written in another way.
type argument struct {
	value any
	set   func(string) string
}

// Format implements fmt.Formatter. The text is set before it is brought to its width.
func (a argument) Format(s fmt.State, verb rune) {
	value := a.value
	if verb == 's' || verb == 'v' && !s.Flag('#') {
		plain := "%v"
		if s.Flag('+') {
			plain = "%+v"
		}
		value, verb = a.set(fmt.Sprintf(plain, a.value)), 's'
	}
	fmt.Fprintf(s, fmt.FormatString(s, verb), value)
}

// Markdown makes a text safe in a paragraph and in the cell of a table in Markdown: one line, and no markup.
func Markdown(s string) string {
	return markup.Replace(strings.Join(strings.Fields(Line(s)), " "))
}

var markup = strings.NewReplacer(
	`\`, `\\`,
	`|`, `\|`,
	`<`, `&lt;`,
	`>`, `&gt;`,
	"`", "\\`",
	`*`, `\*`,
	`_`, `\_`,
	`[`, `\[`,
	`]`, `\]`,
	`#`, `\#`,
	`!`, `\!`,
)

// Cut is the beginning of a text of more than most bytes, with "..." behind it. No rune is cut through.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
