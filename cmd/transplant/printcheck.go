package main

import (
	"fmt"
	"io"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
)

// kindCheckList is the kind of the document that check --list prints.
const kindCheckList = "CheckList"

func printChecks(w io.Writer, f *format) error {
	type row struct {
		Code     string `json:"code"`
		Reason   string `json:"reason"`
		Category string `json:"category"`
		Level    string `json:"level"`
		Impact   string `json:"impact"`
		Title    string `json:"title"`
	}
	var rows []row
	for _, k := range check.List() {
		rows = append(rows, row{k.Code, k.Reason, k.Category, k.Level, k.Impact, k.Title})
	}
	table := func(wide bool) func() error {
		return func() error {
			for _, r := range rows {
				line := fmt.Sprintf("%-9s %-9s %s", r.Code, r.Level, r.Title)
				if wide {
					line = fmt.Sprintf("%-9s %-9s %-22s %-26s %s", r.Code, r.Level, orDash(r.Impact), r.Reason, r.Title)
				}
				if _, err := fmt.Fprintln(w, line); err != nil {
					return err
				}
			}
			return nil
		}
	}
	doc := map[string]any{"apiVersion": v1.GroupVersion, "kind": kindCheckList, "checks": rows}
	return f.print(w, doc, map[string]func() error{"table": table(false), "wide": table(true)})
}

// printCheck prints findings by category; what passed is one line each, what did not says what to do.
func printCheck(w io.Writer, r v1.CheckReport, l layout) error {
	var b strings.Builder
	category := ""
	for _, f := range r.Findings {
		if f.Category != category {
			category = f.Category
			fmt.Fprintf(&b, "%s\n", category)
		}
		line := fmt.Sprintf("  %s %-9s ", l.mark(f.Outcome), f.Code)
		indent := strings.Repeat(" ", len([]rune(line)))
		line += f.Summary
		if f.Impact != "" && f.Impact != check.ImpactNone && f.Outcome != v1.Pass && f.Outcome != v1.Skip {
			line += "   impact: " + f.Impact
		}
		fmt.Fprintln(&b, line)
		for _, detail := range details(f, l) {
			fmt.Fprintln(&b, l.cutObjects(indent, detail))
		}
	}
	fmt.Fprint(&b, verdict(r))
	_, err := io.WriteString(w, l.plain(b.String()))
	return err
}

// detail is a line below a finding; only lists of objects are cut to the terminal, since the rest is to be read or run.
type detail struct {
	text string
	list bool
}

func (l layout) cutObjects(indent string, d detail) string {
	if d.list {
		return l.cut(indent + d.text)
	}
	return indent + strings.ReplaceAll(d.text, "\n", "\n"+indent)
}

func details(f v1.Finding, l layout) []detail {
	if f.Outcome == v1.Skip || f.Outcome == v1.Pass && !l.wide {
		return nil
	}
	var out []detail
	if len(f.Objects) > 0 {
		out = append(out, detail{strings.Join(f.Objects, ", "), true})
	}
	var compared []string
	if f.Expected != "" {
		compared = append(compared, "expected "+f.Expected)
	}
	if f.Found != "" {
		compared = append(compared, "found "+f.Found)
	}
	if len(compared) > 0 {
		out = append(out, detail{strings.Join(compared, ", "), false})
	}
	if l.wide && f.Source != "" {
		out = append(out, detail{"source: " + f.Source, false})
	}
	if f.Fix != "" && f.Outcome != v1.Pass {
		out = append(out, detail{"fix: " + strings.ReplaceAll(strings.TrimSpace(f.Fix), "\n", "\n     "), false})
	}
	if f.Accepted != "" {
		out = append(out, detail{"accepted: " + f.Accepted, false})
	}
	return out
}

// verdict sums a report up and says what to do next.
func verdict(r v1.CheckReport) string {
	s, word := r.Summary, "nothing blocks"
	if s.Blocked {
		word = "blocked"
	}
	accepted := ""
	if s.Accepted > 0 {
		accepted = fmt.Sprintf(" (%d of them accepted)", s.Accepted)
	}
	out := fmt.Sprintf("%s: %d failed, %d unknown%s, %d warnings, %d not evaluated, %d passed\n", word, s.Failed, s.Unknown, accepted, s.Warned, s.Skipped, s.Passed)
	for _, f := range r.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == "" {
			return out + fmt.Sprintf("next: transplant explain %s\n", f.Code)
		}
	}
	return out
}
