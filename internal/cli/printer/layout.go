package printer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Format is the value of -o: one of a few words. Another one is refused before anything is done.
type Format struct {
	Value   string
	Allowed []string
}

func (f *Format) String() string { return f.Value }

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Set implements pflag.Value: it refuses a word that is not allowed.
func (f *Format) Set(s string) error {
	s = cmp.Or(shortForms[s], s)
	if !slices.Contains(f.Allowed, s) {
		return fmt.Errorf("give %s", f.Words())
	}
	f.Value = s
	return nil
}

// shortForms are the ends of files' names that people type for a format.
var shortForms = map[string]string{"md": "markdown", "yml": "yaml"}

// Words returns the allowed words as a sentence has them.
func (f *Format) Words() string {
	return english.Series("or", f.Allowed)
}

// Print writes a document as JSON or YAML, or calls what writes it in the other words of the format.
func (f *Format) Print(w io.Writer, doc any, text map[string]func() error) error {
	switch f.Value {
	case "json":
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", visible.JSON(data))
		return err
	case "yaml":
		data, err := yaml.Marshal(doc)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return text[f.Value]()
}

// Layout is how text is set for who reads it.
type Layout struct {
	// Width is that of the terminal, in columns; a line of a table that is longer is cut, and the cut marked.
	Width int
	// Whole cuts no line: a file or a pipe has no width, and what is cut there is lost.
	Whole bool
	// Wide cuts nothing and leaves nothing out.
	Wide bool
	// Ascii uses no character that a terminal or font might not have.
	Ascii bool
	// Color paints the marks.
	Color bool
	// Problems leaves out what passed and what was skipped, strict counts warnings among what blocks.
	Problems, Strict bool
	// Next is the command that comes where nothing blocks; empty for none.
	Next string
	// Verbose shows what passed, and each step that a plan's text has folded.
	Verbose bool
	// Folded prints one line for the steps that prepare a plan, and one for workers that change the same. It is for plans
	// that this program has made: of another one each step is read before it is approved.
	Folded bool
	// Results are what the records of a journal claim of a plan's steps, to be printed next to them.
	Results map[string]v1.StepResult
	// DryRuns are what the API server says of the objects that a plan writes; nil where it was not asked.
	DryRuns []v1.DryRun
	// words are what is printed of a result.
	words map[v1.StepResult]string
	// judged prints what of a plan can be taken back. It is not for plans that others may have written.
	judged bool
	// AsCalled returns a text with advice that can be typed, where another program runs this one; nil for none.
	AsCalled func(string) string
}

const (
	// DefaultWidth is that of a terminal whose width is not known, and of a pipe.
	DefaultWidth = 120
	// MinWidth is what a narrower terminal has to wrap.
	MinWidth = 40
)

// marks of an outcome; their meaning never hangs on colour.
var (
	marks      = map[v1.Outcome]string{v1.Pass: "✓", v1.Warn: "!", v1.Fail: "✗", v1.Skip: "-", v1.Unknown: "?"}
	asciiMarks = map[v1.Outcome]string{
		v1.Pass:    "ok  ",
		v1.Warn:    "warn",
		v1.Fail:    "FAIL",
		v1.Skip:    "skip",
		v1.Unknown: "????",
	}
)

// Mark returns the mark of an outcome.
func (l Layout) Mark(o v1.Outcome) string {
	if l.Ascii {
		return asciiMarks[o]
	}
	return marks[o]
}

// Cut shortens a line to the width of the terminal and marks that it did.
func (l Layout) Cut(s string) string {
	r, width := []rune(s), max(l.Width, MinWidth)
	if l.Wide || l.Whole || len(r) <= width {
		return s
	}
	end := "…"
	if l.Ascii {
		end = "..."
	}
	return strings.TrimRight(string(r[:width-len([]rune(end))]), " ") + end
}

// continued begins each further line of a text that was wrapped. Most words of such a text are of the cluster, and no
// line may begin with them: a "fix:", or a command to paste.
const continued = "| "

// Wrap sets a text in lines of the terminal's width, the further ones indented and marked. Words are not broken: half a
// path or half a flag's value would be read as a whole one. Without a width nothing is wrapped.
func (l Layout) Wrap(first, indent, text string) string { return l.fold(first, indent+continued, text) }

// Paragraphs sets a text of this program in lines of the terminal's width: paragraphs, and lists of one level. It has
// no words of a cluster, so that no line needs a mark.
func (l Layout) Paragraphs(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indent := ""
		if strings.HasPrefix(line, "- ") {
			indent = "  "
		}
		b.WriteString(l.fold("", indent, line) + "\n")
	}
	return b.String()
}

// fold sets a text in lines of the terminal's width, and begins the further ones with an indent.
func (l Layout) fold(first, indent, text string) string {
	if l.Width <= 0 {
		return first + text
	}
	width := max(l.Width, MinWidth)
	var b strings.Builder
	b.WriteString(first)
	column, empty := utf8.RuneCountInString(first), true
	for word := range strings.SplitSeq(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case empty:
			empty = false
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = utf8.RuneCountInString(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

var toASCII = strings.NewReplacer("…", "...", "·", "-")

// Plain replaces our own punctuation if only ASCII is wanted, and all control sequences of a terminal. A name, an
// annotation or an error of a cluster may hold sequences that rewrite the screen above them. Our own colours stay.
func (l Layout) Plain(s string) string {
	s = Visible(s)
	if l.AsCalled != nil {
		s = l.AsCalled(s)
	}
	if l.Ascii {
		return toASCII.Replace(s)
	}
	return s
}

// Visible shows what a terminal obeys as Go writes it, but for line breaks, tabs and the colours of paint.
func Visible(s string) string {
	if !strings.ContainsFunc(s, visible.IsObeyed) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !visible.IsObeyed(r) || r == '\x1b' && ours.MatchString(s[i:]):
			b.WriteRune(r)
		default:
			b.WriteString(visible.Escape(r))
		}
	}
	return b.String()
}

// ours are the sequences that paint writes.
var ours = regexp.MustCompile(`^\x1b\[(0|2|3[1235])m`)

// colorNumbers are the colours of the outcomes, the numbers of "select graphic rendition" in ECMA-48: green, yellow,
// red, faint, magenta.
var colorNumbers = map[v1.Outcome]int{v1.Pass: 32, v1.Warn: 33, v1.Fail: 31, v1.Skip: 2, v1.Unknown: 35}

// paint colours a mark. The words next to it say the same.
func (l Layout) paint(o v1.Outcome, mark string) string {
	if !l.Color || !slices.Contains([]v1.Outcome{v1.Pass, v1.Warn, v1.Fail, v1.Skip, v1.Unknown}, o) {
		return mark
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colorNumbers[o], mark)
}

// safe returns a copy of a document of which every text is one line, and holds nothing that a terminal obeys. A printer
// prints no other. Names, annotations, errors and reasons of a cluster could write lines that look like this program's:
// a "fix:", or a command to paste. Only manyLines are left as they are.
func safe[T any](doc T) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	out.Set(safeValue(reflect.ValueOf(&doc).Elem()))
	return out.Interface().(T) //nolint:forcetypeassert // it was made as one
}

// manyLines are the fields that may have more than one line. They are texts of this program, whose further lines are
// indented, and contents of files. Of a file no more than one line is printed, or each line in a fence.
var manyLines = map[reflect.Type][]string{
	reflect.TypeFor[v1.Finding](): {"Fix"},
	reflect.TypeFor[v1.Step]():    {"Content", "Object"},
	reflect.TypeFor[v1.Change]():  {"Before", "After"},
	reflect.TypeFor[v1.Edit]():    {"Value"},
}

func safeValue(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		out.SetString(visible.Line(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(safeValue(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(safeValue(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8 {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(safeValue(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for key, value := range v.Seq2() {
				out.SetMapIndex(safeValue(key), safeValue(value))
			}
		}
	case reflect.Struct:
		setSafeFields(out, v)
	}
	return out
}

func setSafeFields(out, v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !slices.Contains(manyLines[v.Type()], f.Name) {
			out.Field(i).Set(safeValue(v.Field(i)))
		}
	}
}
