package main

import (
	"fmt"
	"io"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// stepMarks are the marks of a step: what comes, what changes, what goes, what only looks.
var stepMarks = map[v1.StepKind]string{
	v1.StepEnsureObject: "+", v1.StepWriteFile: "+", v1.StepAddManifest: "+", v1.StepEditManifest: "~", v1.StepRestoreManifest: "~", v1.StepKubelet: "~",
	v1.StepDeleteObject: "-", v1.StepRemoveFile: "-", v1.StepRemoveManifest: "-", v1.StepVerify: "=",
	v1.StepPatchObject: "~", v1.StepUnpatchObject: "~", v1.StepScale: "~", v1.StepEditWorkload: "~", v1.StepEditUnit: "~", v1.StepStopUnit: "~", v1.StepStartUnit: "~",
	v1.StepCopyFile: "+", v1.StepInitializeNode: "~", v1.StepAwait: ">", // the operator's turn
}

// printPlan prints the steps, a line each: what is done, and what changes by it.
func printPlan(w io.Writer, p *v1.Plan, l layout) error {
	var b strings.Builder
	number := 0
	for i, s := range p.Steps {
		if i == 0 || s.Phase != p.Steps[i-1].Phase {
			number++
			fmt.Fprintf(&b, "phase %d  %s\n", number, s.Phase)
		}
		line := fmt.Sprintf("  %s %s", stepMarks[s.Kind], s.Title)
		if changes := changeLine(s, l.wide); changes != "" {
			line = fmt.Sprintf("  %s %-*s   %s", stepMarks[s.Kind], titleWidth(p.Steps, s.Phase, l.wide), s.Title, changes)
		}
		line = l.cut(line)
		fmt.Fprintln(&b, line)
		if at := target(s, p.Options, line); at != "" {
			fmt.Fprintf(&b, "      %s\n", at)
		}
		if l.wide && s.Why != "" && (i == 0 || s.Why != p.Steps[i-1].Why) {
			fmt.Fprintf(&b, "      %s\n", s.Why)
		}
		for _, line := range more(s, l.wide) {
			fmt.Fprintf(&b, "      %s\n", line)
		}
		if p.Until == s.ID && i+1 < len(p.Steps) {
			fmt.Fprintf(&b, "  -- apply stops here; the next one goes on with %s\n", strings.Join(planstep.Remaining(p, i+1), ", "))
		}
	}
	for _, e := range p.Effects {
		fmt.Fprintf(&b, "effect   %s\n", e)
	}
	b.WriteString(acceptedLines(p))
	add, change, remove := counts(p.Steps)
	undone := "every one can be undone"
	if p.Options.Part == v1.PartFinish {
		undone = "none is undone by a rollback"
	}
	fmt.Fprintf(&b, "plan: %d to add, %d to change, %d to remove · %s, %s · valid while what it was made from holds (%s)\n",
		add, change, remove, count(len(p.Steps), "step"), undone, count(len(p.Facts), "fact"))
	fmt.Fprintf(&b, "plan sha256: %s\n", compare.Digest(p))
	b.WriteString(managersGet(p))
	_, err := io.WriteString(w, l.plain(b.String()))
	return err
}

// acceptedLines are lines with each finding that would block without the reason for which it is accepted.
func acceptedLines(p *v1.Plan) string {
	var out strings.Builder
	for _, f := range compare.Accepted(p) {
		fmt.Fprintf(&out, "accepted %s (%s): %s because: %s\n", f.Code, f.Outcome, unbroken(f.Summary), unbroken(f.Accepted))
	}
	return out.String()
}

// more is what follows the line of a step: what a step waits for has to be read to be made; what is done by hand, by those who ask for all.
func more(s v1.Step, wide bool) []string {
	var out []string
	if s.Await != nil {
		out = append(out, s.Await.Instructions...)
	}
	if wide {
		if s.Drain {
			out = append(out, "the node is drained before and made schedulable after it")
		}
		for _, m := range s.Manual {
			out = append(out, "by hand: "+m)
		}
	}
	return out
}

// titleWidth is that of the longest title of a phase that has changes printed behind it.
func titleWidth(steps []v1.Step, phase string, wide bool) int {
	width := 0
	for _, s := range steps {
		if s.Phase == phase && changeLine(s, wide) != "" {
			width = max(width, len([]rune(s.Title)))
		}
	}
	return width
}

// changeLine says what a step changes and its title does not say already; in full with what was there before.
func changeLine(s v1.Step, full bool) string {
	var out []string
	for _, c := range s.Changes {
		before, after := oneLine(c.Before), oneLine(c.After)
		switch {
		case c.Field == s.Path && s.Derive != "":
			out = append(out, after) // what the derivation changes
		case c.Field == s.Path, c.Field == s.Ref, before == after:
		case before == "":
			out = append(out, c.Field+"="+after)
		case after == "" && full:
			out = append(out, c.Field+": "+before+" -> (none)")
		case after == "":
			out = append(out, "no "+c.Field)
		default:
			out = append(out, c.Field+": "+before+" -> "+after)
		}
	}
	if s.Derive != "" {
		return strings.Join(out, "; ") // sentences
	}
	return strings.Join(out, ", ")
}

// count puts a number before its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
