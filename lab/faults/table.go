package faults

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Table is what became of every fault of one command: a row for each step, a column for each kind of fault and point.
type Table struct {
	// Title says which command, which strategy and which cluster.
	Title string
	// How says for each kind in the table how it is made.
	How      map[Kind]string
	Steps    []string
	Outcomes []Outcome
	// Notes are what was found of the whole command: what must not have happened, what it took.
	Notes []string
}

// Add puts a campaign's result into the table.
func (t *Table) Add(r Result) {
	for i, step := range r.Steps {
		if slices.Contains(t.Steps, step) {
			continue
		}
		at := len(t.Steps)
		if i > 0 { // behind the one before it: two campaigns may have come to steps in another order
			at = slices.Index(t.Steps, r.Steps[i-1]) + 1
		}
		t.Steps = slices.Insert(t.Steps, at, step)
	}
	t.Outcomes = append(t.Outcomes, r.Outcomes...)
}

// Failed are the faults that the command did not get over as it should.
func (t *Table) Failed() []Outcome {
	var out []Outcome
	for _, o := range t.Outcomes {
		if o.Problem != "" {
			out = append(out, o)
		}
	}
	return out
}

// column is a kind of fault at a point.
type column struct {
	kind  Kind
	point string
}

// columns are those that have an outcome; a kind that comes at one point of each step only has one column, whose cells
// name the point.
func (t *Table) columns() []column {
	var out []column
	for _, o := range t.Outcomes {
		c := columnOf(o)
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

func columnOf(o Outcome) column {
	if o.Kind == Killed {
		return column{o.Kind, o.Point}
	}
	return column{kind: o.Kind}
}

// Write writes the table as Markdown.
func (t *Table) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", t.Title)
	columns := t.columns()
	b.WriteString("| step |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", strings.TrimSpace(string(c.kind)+" "+c.point))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, step := range t.Steps {
		fmt.Fprintf(&b, "| %s |", step)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", t.cell(step, c))
		}
		b.WriteString("\n")
	}
	t.summary(&b, columns)
	_, err := io.WriteString(w, b.String())
	return err
}

// cell is what became of a fault in a step.
func (t *Table) cell(step string, c column) string {
	var cells []string
	for _, o := range t.Outcomes {
		if o.Step == step && columnOf(o) == c {
			cells = append(cells, o.cell())
		}
	}
	return strings.Join(cells, "; ")
}

func (o Outcome) cell() string {
	at := ""
	if o.Kind != Killed && o.Point != During {
		at = o.Point + ": "
	}
	switch {
	case o.Missed:
		return "–"
	case o.Problem != "":
		return at + "**FAIL** " + strings.ReplaceAll(strings.ReplaceAll(o.Problem, "\n", " "), "|", "/")
	}
	text := fmt.Sprintf("%s%.1f s", at, o.Took().Seconds())
	if o.For != 0 && o.Kind != ClockWrong {
		text += fmt.Sprintf(" (of %.0f)", o.For.Seconds())
	}
	if n := o.Reruns(); n > 0 {
		text += fmt.Sprintf(", %d×", n)
	}
	return text
}

// summary counts each column below the table.
func (t *Table) summary(b *strings.Builder, columns []column) {
	b.WriteString("\n")
	for _, c := range columns {
		var made, failed, reruns int
		var longest time.Duration
		for _, o := range t.Outcomes {
			if columnOf(o) != c || o.Missed {
				continue
			}
			made++
			reruns += o.Reruns()
			longest = max(longest, o.Took())
			if o.Problem != "" {
				failed++
			}
		}
		fmt.Fprintf(
			b,
			"- %s: %d made, %d not got over, %d re-runs, at most %.1f s until the step was done",
			strings.TrimSpace(string(c.kind)+" "+c.point),
			made,
			failed,
			reruns,
			longest.Seconds(),
		)
		if how := t.How[c.kind]; how != "" {
			fmt.Fprintf(b, " (%s)", how)
		}
		b.WriteString("\n")
	}
	for _, note := range t.Notes {
		fmt.Fprintf(b, "- %s\n", note)
	}
	b.WriteString("\n")
}
