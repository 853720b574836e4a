// Package printer decides how answers look: tables, Markdown, JUnit, JSON and YAML, and the width and marks of a
// terminal.
package printer

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/wording"
)

// KindCheckList is the kind of the document that check --list prints.
const KindCheckList = "CheckList"

// PrintChecks prints the list of checks.
func PrintChecks(w io.Writer, f *Format) error {
	type row struct {
		Code      string   `json:"code"`
		Reason    string   `json:"reason"`
		Category  string   `json:"category"`
		Level     string   `json:"level"`
		Impact    string   `json:"impact"`
		Title     string   `json:"title"`
		Mandatory bool     `json:"mandatory"`
		Retryable bool     `json:"retryable"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
	var rows []row
	for _, k := range check.List() {
		rows = append(
			rows,
			row{k.Code, k.Reason, k.Category, k.Level, k.Impact, check.Title(k), k.Mandatory, k.Retryable, k.DependsOn},
		)
	}
	table := func(wide bool) func() error {
		return func() error {
			for _, r := range rows {
				line := fmt.Sprintf("%-9s %-9s %s", r.Code, r.Level, r.Title)
				if wide {
					line = fmt.Sprintf("%-9s %-9s %-22s %-26s %s", r.Code, r.Level, wording.OrDash(r.Impact), r.Reason, r.Title)
				}
				if _, err := fmt.Fprintln(w, line); err != nil {
					return err
				}
			}
			return nil
		}
	}
	doc := map[string]any{"apiVersion": v1.GroupVersion, "kind": KindCheckList, "checks": rows}
	return f.Print(w, doc, map[string]func() error{"table": table(false), "wide": table(true)})
}

// PrintCheck prints findings by category; what passed is one line each, what did not says what to do. What blocks is
// said once more at the end, where a terminal shows it.
func PrintCheck(w io.Writer, r v1.CheckReport, l Layout) error {
	r = safe(r)
	if err := PrintFindings(w, r, l); err != nil {
		return err
	}
	_, err := io.WriteString(w, l.Plain(verdict(r, l)))
	return err
}

// PrintFindings prints the findings of a report without its verdict.
func PrintFindings(w io.Writer, r v1.CheckReport, l Layout) error {
	r = safe(r)
	var b strings.Builder
	category := ""
	for i, f := range r.Findings {
		if l.Problems && (f.Outcome == v1.Pass || f.Outcome == v1.Skip) || !l.Wide && i > 0 && sameSkip(f, r.Findings[i-1]) {
			continue
		}
		if f.Category != category {
			category = f.Category
			fmt.Fprintf(&b, "%s\n", category)
		}
		codes := f.Code
		for _, next := range r.Findings[i+1:] {
			if l.Wide || !sameSkip(next, f) {
				break
			}
			codes += ", " + next.Code
		}
		indent := strings.Repeat(" ", len([]rune(fmt.Sprintf("  %s %-9s ", l.Mark(f.Outcome), f.Code))))
		line := fmt.Sprintf("  %s %-9s %s", l.paint(f.Outcome, l.Mark(f.Outcome)), codes, f.Summary)
		if f.Outcome != v1.Pass && f.Outcome != v1.Skip {
			line += consequence(f, r.TakenAt)
		}
		fmt.Fprintln(&b, line)
		for _, detail := range details(f, l) {
			fmt.Fprintln(&b, l.cutObjects(indent, detail))
		}
	}
	_, err := io.WriteString(w, l.Plain(b.String()))
	return err
}

// sameSkip reports whether two checks were skipped for one reason, which is one line.
func sameSkip(a, b v1.Finding) bool {
	return a.Outcome == v1.Skip && b.Outcome == v1.Skip && a.Category == b.Category && a.Summary == b.Summary
}

// consequence is what suffers, and since when.
func consequence(f v1.Finding, taken time.Time) string {
	out := ""
	if f.Impact != "" && f.Impact != findings.ImpactNone {
		out = "   impact: " + f.Impact
	}
	if f.Since != nil && taken.After(*f.Since) {
		out += "   since " + duration.HumanDuration(taken.Sub(*f.Since))
	}
	return out
}

// detail is a line below a finding; only lists of objects are cut to the terminal, since the rest is to be read or run.
type detail struct {
	text string
	list bool
}

func (l Layout) cutObjects(indent string, d detail) string {
	if d.list {
		return l.Cut(indent + d.text)
	}
	return indent + strings.ReplaceAll(d.text, "\n", "\n"+indent)
}

func details(f v1.Finding, l Layout) []detail {
	if f.Outcome == v1.Skip || f.Outcome == v1.Pass && !l.Wide {
		return nil
	}
	var out []detail
	if len(f.Objects) > 0 {
		out = append(out, detail{strings.Join(f.Objects, ", "), true})
	}
	if text := compared(f, l); text != "" {
		out = append(out, detail{text, false})
	}
	if l.Wide && f.Source != "" {
		out = append(out, detail{"source: " + f.Source, false})
	}
	if f.Fix != "" && f.Outcome != v1.Pass {
		out = append(out, detail{"fix: " + strings.ReplaceAll(Visible(strings.TrimSpace(f.Fix)), "\n", "\n     "), false})
	}
	if f.Accepted != "" {
		out = append(out, detail{"accepted: " + f.Accepted, false})
	}
	if l.Wide && f.Outcome != v1.Pass {
		out = append(out, detail{"docs: " + docsURL(f.Code), false})
	}
	return out
}

// problemLines is how many of many problems are printed; -o wide prints all that the finding has.
const problemLines = 3

// compared is what was expected and what was found: on one line, or with a line for each problem where there are
// several.
func compared(f v1.Finding, l Layout) string {
	var parts []string
	if f.Expected != "" {
		parts = append(parts, "expected "+f.Expected)
	}
	if len(f.Problems) < 2 {
		if f.Found != "" {
			parts = append(parts, "found "+f.Found)
		}
		return strings.Join(parts, ", ")
	}
	shown, more := f.Problems, ""
	if !l.Wide {
		shown = shown[:min(len(shown), problemLines)]
	}
	if n := len(f.Problems) + f.MoreProblems - len(shown); n > 0 {
		more = fmt.Sprintf("\n  and %d more", n)
		if !l.Wide && f.MoreProblems == 0 {
			more += ": -o wide shows them all"
		} else if !l.Wide {
			more += ": -o wide shows ten"
		}
	}
	text := strings.Join(append(parts, "found"), ", ")
	for _, p := range shown {
		text += "\n  " + p.Text
	}
	return text + more
}

// docsURL is the page of a check as this version of the program has it; explain prints the same, offline.
func docsURL(code string) string {
	ref := client.Version
	if strings.Contains(ref, "-") { // built between two releases
		ref = "main"
	}
	return "https://github.com/transplant-dev/transplant/blob/" + ref + "/docs/reference/checks.md#" + strings.ToLower(
		code,
	)
}

// verdict sums a report up and says what to do next.
func verdict(r v1.CheckReport, l Layout) string {
	s, word := r.Summary, "nothing blocks"
	switch {
	case s.Blocked && l.Strict:
		word = "blocked (--strict)"
	case s.Blocked:
		word = "blocked"
	}
	accepted := ""
	if s.Accepted > 0 {
		accepted = fmt.Sprintf(" (%d of them accepted)", s.Accepted)
	}
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"%s: %d failed, %d unknown%s, %d warnings, %d not evaluated, %d passed\n",
		word,
		s.Failed,
		s.Unknown,
		accepted,
		s.Warned,
		s.Skipped,
		s.Passed,
	)
	blocks := client.BlockingFindings(r, l.Strict)
	for _, f := range blocks {
		fmt.Fprintln(&b, l.Cut(fmt.Sprintf("  %s %-9s %s", l.Mark(f.Outcome), f.Code, f.Summary)))
	}
	if len(blocks) > 0 {
		fmt.Fprintf(&b, "next: transplant explain %s\n", blocks[0].Code)
	}
	return b.String()
}
