package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// format is the value of -o: one of a few words. Another one is refused before anything is done.
type format struct {
	value   string
	allowed []string
}

func (f *format) String() string { return f.value }

func (f *format) Type() string { return "format" }

func (f *format) Set(s string) error {
	if !slices.Contains(f.allowed, s) {
		return fmt.Errorf("give %s", f.words())
	}
	f.value = s
	return nil
}

func (f *format) words() string {
	last := len(f.allowed) - 1
	return strings.Join(f.allowed[:last], ", ") + " or " + f.allowed[last]
}

// formatFlag adds -o to a command; the first word is the default.
func formatFlag(cmd *cobra.Command, words ...string) *format {
	f := &format{value: words[0], allowed: words}
	cmd.Flags().VarP(f, "output", "o", f.words())
	err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was added two lines above
	}
	return f
}

// print writes a document as JSON or YAML, or calls what writes it in the other words of the format.
func (f *format) print(w io.Writer, doc any, text map[string]func() error) error {
	switch f.value {
	case "json":
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", data)
		return err
	case "yaml":
		data, err := yaml.Marshal(doc)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return text[f.value]()
}

// layout is how text is set for who reads it.
type layout struct {
	// width is that of the terminal, in columns; a line of a table that is longer is cut, and the cut marked.
	width int
	// wide cuts nothing and leaves nothing out.
	wide bool
	// ascii uses no character that a terminal or font might not have.
	ascii bool
	// color paints the marks.
	color bool
	// problems leaves out what passed and what was skipped, strict counts warnings among what blocks.
	problems, strict bool
}

const (
	// defaultWidth is that of a terminal whose width is not known, and of a pipe.
	defaultWidth = 120
	// minWidth is what a narrower terminal has to wrap.
	minWidth = 40
)

// layoutFor is the layout of what is written to w.
func (c *connection) layoutFor(w io.Writer, wide bool) layout {
	l := layout{width: defaultWidth, wide: wide, ascii: c.ascii, color: c.colored(w)}
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			l.width = width
		}
	}
	return l
}

// marks of an outcome; their meaning never hangs on colour.
var (
	marks      = map[v1.Outcome]string{v1.Pass: "✓", v1.Warn: "!", v1.Fail: "✗", v1.Skip: "-", v1.Unknown: "?"}
	asciiMarks = map[v1.Outcome]string{v1.Pass: "ok  ", v1.Warn: "warn", v1.Fail: "FAIL", v1.Skip: "skip", v1.Unknown: "????"}
)

func (l layout) mark(o v1.Outcome) string {
	if l.ascii {
		return asciiMarks[o]
	}
	return marks[o]
}

// cut shortens a line to the width of the terminal and marks that it did.
func (l layout) cut(s string) string {
	r, width := []rune(s), max(l.width, minWidth)
	if l.wide || len(r) <= width {
		return s
	}
	end := "…"
	if l.ascii {
		end = "..."
	}
	return strings.TrimRight(string(r[:width-len([]rune(end))]), " ") + end
}

var toASCII = strings.NewReplacer("…", "...", "·", "-")

// plain replaces our own punctuation where only ASCII is wanted, and whatever a terminal would obey: a name, an annotation or an error of a cluster may
// hold sequences that rewrite the screen above them. Our own colours stay.
func (l layout) plain(s string) string {
	s = visible(s)
	if l.ascii {
		return toASCII.Replace(s)
	}
	return s
}

// visible shows control characters as Go writes them, but for line breaks, tabs and the colours of paint.
func visible(s string) string {
	if !strings.ContainsFunc(s, commanding) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !commanding(r) || r == '\x1b' && ours.MatchString(s[i:]):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

func commanding(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// ours are the sequences that paint writes.
var ours = regexp.MustCompile(`^\x1b\[(0|2|3[1235])m`)

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func short(uid string) string {
	if len(uid) > 8 {
		return uid[:8] + "…"
	}
	return orDash(uid)
}
