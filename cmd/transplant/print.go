package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
)

// defaultWidth is that of a terminal whose width is not known, and of a pipe.
const defaultWidth = 120

func (s streams) width() int {
	if f, ok := s.out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return defaultWidth
}

// printAs writes a document in the format that was asked for; text and markdown are nil where a command has none.
func printAs(w io.Writer, format string, doc any, text, markdown func() error) error {
	switch {
	case format == "json":
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", data)
		return err
	case format == "yaml":
		data, err := yaml.Marshal(doc)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	case (format == "text" || format == "table" || format == "wide") && text != nil:
		return text()
	case format == "markdown" && markdown != nil:
		return markdown()
	}
	return fmt.Errorf("output format %q is not known here; see --help", format)
}

// header names the cluster before anything is said about it.
func (c *connection) header(cl v1.Cluster) {
	c.narrate("cluster %s (uid %s) · %s · %s · context %s", orDash(cl.Name), short(cl.UID), orDash(cl.Version), orDash(cl.Server), orDash(cl.Context))
}

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

// cut shortens a line to the width of the terminal and marks that it did.
func cut(s string, width int) string {
	r := []rune(s)
	if len(r) <= width || width < 2 {
		return s
	}
	return string(r[:width-1]) + "…"
}

func printChecks(w io.Writer, format string) error {
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
	return printAs(w, format, map[string]any{"checks": rows}, func() error {
		for _, r := range rows {
			if _, err := fmt.Fprintf(w, "%-9s %-9s %s\n", r.Code, r.Level, r.Title); err != nil {
				return err
			}
		}
		return nil
	}, nil)
}

// printCheck prints findings by category; what passed is one line each, what did not says what to do.
func printCheck(w io.Writer, r v1.CheckReport, wide bool, width int) error {
	var b strings.Builder
	category := ""
	for _, f := range r.Findings {
		if f.Category != category {
			category = f.Category
			fmt.Fprintf(&b, "%s\n", category)
		}
		line := fmt.Sprintf("  %s %-9s %s", outcomeMarks[f.Outcome], f.Code, f.Summary)
		if f.Impact != "" && f.Impact != check.ImpactNone && f.Outcome != v1.Pass && f.Outcome != v1.Skip {
			line += "   impact: " + f.Impact
		}
		fmt.Fprintln(&b, line)
		if f.Outcome == v1.Pass && !wide || f.Outcome == v1.Skip {
			continue
		}
		const indent = "              "
		if len(f.Objects) > 0 {
			fmt.Fprintln(&b, cut(indent+strings.Join(f.Objects, ", "), max(width, 60)))
		}
		if f.Expected != "" || f.Found != "" {
			fmt.Fprintf(&b, "%sexpected %s, found %s\n", indent, orDash(f.Expected), orDash(f.Found))
		}
		if wide && f.Source != "" {
			fmt.Fprintf(&b, "%ssource: %s\n", indent, f.Source)
		}
		if f.Fix != "" && f.Outcome != v1.Pass {
			fmt.Fprintf(&b, "%sfix: %s\n", indent, strings.ReplaceAll(strings.TrimSpace(f.Fix), "\n", "\n"+indent+"     "))
		}
		if f.Accepted != "" {
			fmt.Fprintf(&b, "%saccepted: %s\n", indent, f.Accepted)
		}
	}
	s := r.Summary
	verdict := "nothing blocks"
	if s.Blocked {
		verdict = "blocked"
	}
	fmt.Fprintf(&b, "%s: %d failed, %d unknown, %d warnings, %d not evaluated, %d passed\n", verdict, s.Failed, s.Unknown, s.Warned, s.Skipped, s.Passed)
	for _, f := range r.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == "" {
			fmt.Fprintf(&b, "next: transplant explain %s\n", f.Code)
			break
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// stepMarks are the marks of a step: what comes, what changes, what goes, what only looks.
var stepMarks = map[v1.StepKind]string{
	v1.StepEnsureObject: "+", v1.StepWriteFile: "+", v1.StepAddManifest: "+", v1.StepEditManifest: "~", v1.StepRestoreManifest: "~", v1.StepKubelet: "~",
	v1.StepDeleteObject: "-", v1.StepRemoveFile: "-", v1.StepRemoveManifest: "-", v1.StepVerify: "=",
}

func printPlan(w io.Writer, p *v1.Plan, width int) error {
	var b strings.Builder
	phase, number := "", 0
	for _, s := range p.Steps {
		if s.Phase != phase {
			phase = s.Phase
			number++
			fmt.Fprintf(&b, "phase %d  %s\n", number, phase)
		}
		fmt.Fprintln(&b, cut(fmt.Sprintf("  %s %-48s %s", stepMarks[s.Kind], s.Title, changeLine(s.Changes)), max(width, 60)))
	}
	for _, e := range p.Effects {
		fmt.Fprintf(&b, "effect   %s\n", e)
	}
	add, change, remove := counts(p.Steps)
	fmt.Fprintf(&b, "plan: %d to add, %d to change, %d to remove · %d steps, every one can be undone · valid while its %d facts hold\n", add, change, remove, len(p.Steps), len(p.Facts))
	_, err := io.WriteString(w, b.String())
	return err
}

func changeLine(changes []v1.Change) string {
	var out []string
	for _, c := range changes {
		before, after := oneLine(c.Before), oneLine(c.After)
		switch {
		case before == "":
			out = append(out, c.Field+" -> "+after)
		case after == "":
			out = append(out, c.Field+": "+before+" -> (none)")
		case before != after:
			out = append(out, c.Field+": "+before+" -> "+after)
		}
	}
	return strings.Join(out, ", ")
}

func oneLine(s string) string {
	if first, _, more := strings.Cut(s, "\n"); more {
		return first + " …"
	}
	return s
}

func counts(steps []v1.Step) (add, change, remove int) {
	for _, s := range steps {
		switch stepMarks[s.Kind] {
		case "+":
			add++
		case "~":
			change++
		case "-":
			remove++
		}
	}
	return add, change, remove
}

// planMarkdown prints a plan for a change-review ticket.
func planMarkdown(w io.Writer, p *v1.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Migration plan for cluster %s\n\n", orDash(p.Cluster.Name))
	fmt.Fprintf(&b, "| | |\n|---|---|\n| cluster uid | `%s` |\n| version | %s |\n| strategy | %s, %s |\n| steps | %d |\n\n", p.Cluster.UID, p.Cluster.Version, p.Strategy, p.Direction, len(p.Steps))
	b.WriteString("## Effects\n\n")
	for _, e := range p.Effects {
		fmt.Fprintf(&b, "- %s\n", e)
	}
	phase := ""
	for i, s := range p.Steps {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(&b, "\n## %s\n\n| # | step | change | undo |\n|---|---|---|---|\n", phase)
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", i+1, cell(s.Title), cell(changeLine(s.Changes)), cell(s.Undo))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s) }

// loopNames are the loops that this tool speaks of, by metric name.
var loopNames = map[string]bool{"service": true, "route": true, "cloud-node-lifecycle": true, "nodeipam": true, "cloud-node": true}

func printStatus(w io.Writer, s v1.Status) error {
	var b strings.Builder
	if s.Run == "" {
		fmt.Fprintf(&b, "no migration was started on this cluster\n")
	} else {
		fmt.Fprintf(&b, "migration %s is %s: %d of %d steps done\n", s.Run, s.Phase, s.StepsDone, s.StepsTotal)
	}
	if s.Current != "" {
		fmt.Fprintf(&b, "step  %s was begun and is not finished\n", s.Current)
	}
	if s.LastError != "" {
		fmt.Fprintf(&b, "error %s\n", s.LastError)
	}
	if s.LockHolder != "" {
		fmt.Fprintf(&b, "lock  %s\n", s.LockHolder)
	}
	loops := make([]string, 0, len(s.Owners))
	for l := range s.Owners {
		if loopNames[l] {
			loops = append(loops, l)
		}
	}
	sort.Strings(loops)
	for _, l := range loops {
		fmt.Fprintf(&b, "loop  %-21s %s\n", l, s.Owners[l])
	}
	fmt.Fprintf(&b, "next: %s\n", s.Next)
	_, err := io.WriteString(w, b.String())
	return err
}
