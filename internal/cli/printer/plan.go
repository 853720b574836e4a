package printer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/cli/printer/settings"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/outline"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/visible"
)

// stepMarks are the marks of a step: what comes, what changes, what goes, what only looks.
var stepMarks = map[v1.StepKind]string{
	v1.StepEnsureObject:    "+",
	v1.StepWriteFile:       "+",
	v1.StepAddManifest:     "+",
	v1.StepEditManifest:    "~",
	v1.StepRestoreManifest: "~",
	v1.StepKubelet:         "~",
	v1.StepDeleteObject:    "-",
	v1.StepRemoveFile:      "-",
	v1.StepRemoveManifest:  "-",
	v1.StepVerify:          "=",
	v1.StepPatchObject:     "~",
	v1.StepUnpatchObject:   "~",
	v1.StepScale:           "~",
	v1.StepEditWorkload:    "~",
	v1.StepEditUnit:        "~",
	v1.StepStopUnit:        "~",
	v1.StepStartUnit:       "~",
	v1.StepCopyFile:        "+",
	v1.StepInitializeNode:  "~",
	v1.StepAwait:           ">", // the operator's turn
}

// PrintPlan prints what a plan means, its steps by phase and host, and its effects.
func PrintPlan(w io.Writer, p *v1.Plan, l Layout) error {
	shown := safe(p)
	l.words = results
	return writePlan(w, shown, planHeader(shown, l), "plan sha256: "+compare.Digest(p)+"\n", l)
}

// PrintUnseen prints the plan of a journal that others may have written, all of it. The results that its records claim
// are printed next to the steps. They leave no step out: a step that the cluster does not show is executed again.
// The digest is left out, which is not always that of the stored plan.
func PrintUnseen(w io.Writer, p *v1.Plan, l Layout) error {
	l.Folded, l.words = false, claims
	return writePlan(w, safe(p), "", "", l)
}

// results are what is printed of the results of a plan that this machine has approved.
var results = map[v1.StepResult]string{
	v1.StepResultDone:        "done",
	v1.StepResultAlreadyDone: "done before",
	v1.StepResultSkipped:     "skipped",
}

// claims are what is printed of the results in the records of a journal that others may have written.
var claims = map[v1.StepResult]string{
	v1.StepResultDone:        "done, as the journal says; executed again where the cluster does not show it",
	v1.StepResultAlreadyDone: "done before, as the journal says; executed where the cluster does not show it",
	v1.StepResultSkipped:     "skipped, as the journal says; executed where its host is not excluded",
}

func writePlan(w io.Writer, p *v1.Plan, header, digest string, l Layout) error {
	var b strings.Builder
	b.WriteString(header)
	writeSteps(&b, p, l)
	for _, e := range p.Effects {
		if header == "" || !strings.HasPrefix(e, effect.RestartsBegin) { // the header has them
			fmt.Fprintln(&b, l.Wrap("effect   ", strings.Repeat(" ", 7), e))
		}
	}
	wrapLines(&b, acceptedLines(p), l)
	add, change, remove := counts(p.Steps)
	fmt.Fprintln(&b, l.Wrap("", "  ", fmt.Sprintf(
		"plan: %d to add, %d to change, %d to remove · %s · valid while its %s hold",
		add,
		change,
		remove,
		english.Count(len(p.Steps), "step"),
		english.Count(len(p.Facts), "fact"),
	)))
	b.WriteString(digest)
	wrapLines(&b, settings.OfManagers(p), l)
	writeDryRuns(&b, safe(l.DryRuns), l)
	_, err := io.WriteString(w, l.Plain(b.String()))
	return err
}

// writeDryRuns writes what the API server says of the objects of a plan, those first that it does not accept.
func writeDryRuns(b *strings.Builder, all []v1.DryRun, l Layout) {
	if all == nil {
		return
	}
	accepted := 0
	var bad strings.Builder
	for _, d := range all {
		mark := l.Mark(v1.Fail)
		switch {
		case d.OK:
			accepted++
			continue
		case d.Unanswered:
			mark = l.Mark(v1.Unknown)
		}
		fmt.Fprintln(&bad, l.Wrap("  "+mark+" ", "    ", d.Verb+" "+d.Ref+": "+d.Error))
	}
	fmt.Fprintln(b, l.Wrap("", "  ", fmt.Sprintf(
		"server dry run: the API server would take %d of %s; files of hosts were not tried",
		accepted,
		english.Count(len(all), "object"),
	)))
	b.WriteString(bad.String())
}

// wrapLines wraps each of several lines.
func wrapLines(b *strings.Builder, text string, l Layout) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(b, l.Wrap("", "  ", strings.TrimRight(line, "\n")))
	}
}

// planHeader is what a reader decides by: whether the plan is blocked, and for which cluster it is. It also says how
// long it takes, what restarts, how risky it is, and what cannot be undone.
func planHeader(p *v1.Plan, l Layout) string {
	o := outline.Of(p)
	var b strings.Builder
	if len(o.Blocking) > 0 {
		fmt.Fprintln(&b, l.Wrap("", "  ", fmt.Sprintf(
			"BLOCKED by %s: apply refuses this plan; transplant check says what to do",
			strings.Join(o.Blocking, ", "),
		)))
	}
	line := func(label, text string) {
		fmt.Fprintln(&b, l.Wrap(fmt.Sprintf("%-14s", label), strings.Repeat(" ", 12), text))
	}
	name := wording.OrDash(p.Cluster.Name) + " (uid " + wording.Short(p.Cluster.UID) + ")"
	line("cluster", name+" · "+wording.OrDash(p.Cluster.Version))
	line("context", wording.OrDash(p.Cluster.Context))
	line("server", wording.OrDash(p.Cluster.Server))
	line("does", directionWords(p.Direction)+" · strategy "+p.Strategy)
	line("takes", estimateWords(o))
	line("restarts", restartWords(o))
	line("risk", riskWords(o))
	line("irreversible", irreversibleWords(o))
	return b.String()
}

// directionWords say what a plan is for.
func directionWords(direction string) string {
	switch direction {
	case planstep.Forward:
		return "moves the cloud loops to the cloud-controller-manager"
	case planstep.Rollback:
		return "brings the cloud loops back to kube-controller-manager"
	}
	return direction
}

// estimateWords say how long a plan takes.
func estimateWords(o outline.Outline) string {
	return fmt.Sprintf(
		"%s to %s, by estimate",
		wording.CompactDuration(o.Low.Seconds()),
		wording.CompactDuration(o.High.Seconds()),
	)
}

// restartWords say what restarts, and how often.
func restartWords(o outline.Outline) string {
	var out []string
	for _, r := range o.Restarts {
		out = append(out, fmt.Sprintf("%s %d", r.Component, r.Times))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// riskWords say how risky a plan is, and why.
func riskWords(o outline.Outline) string {
	risk := o.Risk
	if len(o.Blocking) > 0 {
		risk += " once nothing blocks"
	}
	if len(o.Reasons) == 0 {
		return risk
	}
	return risk + ": " + strings.Join(o.Reasons, "; ")
}

// irreversibleNamed is how many irreversible changes are named.
const irreversibleNamed = 5

// irreversibleWords say what no rollback takes back.
func irreversibleWords(o outline.Outline) string {
	return cmp.Or(english.FirstOf(irreversibleNamed, o.Irreversible), "nothing: a rollback takes every step back")
}

// writeSteps writes the steps below their phases and hosts.
func writeSteps(b *strings.Builder, p *v1.Plan, l Layout) {
	number := 0
	for i := 0; i < len(p.Steps); i++ {
		s := p.Steps[i]
		begins := i == 0 || s.Phase != p.Steps[i-1].Phase
		if begins {
			number++
			if n := foldedSteps(p, i, l); n > 0 {
				fmt.Fprintln(b, l.Wrap(fmt.Sprintf("phase %d  ", number), "  ", s.Phase+": "+foldedLine(p.Steps[i:i+n])))
				i += n - 1
				continue
			}
			fmt.Fprintf(b, "phase %d  %s\n", number, s.Phase)
		}
		if s.Host != "" && (begins || s.Host != p.Steps[i-1].Host) {
			fmt.Fprintf(b, "  host %s\n", s.Host)
		} else if s.Host == "" && !begins && p.Steps[i-1].Host != "" {
			b.WriteString("  cluster\n")
		}
		writeStep(b, p, i, l)
		if p.Until == s.ID && i+1 < len(p.Steps) {
			fmt.Fprintln(b, l.Wrap("  -- ", "     ", "apply stops here; the next one goes on with "+
				strings.Join(planstep.Remaining(p, i+1), ", ")))
		}
	}
}

// writeStep writes one step: what is done, what changes by it, and where.
func writeStep(b *strings.Builder, p *v1.Plan, i int, l Layout) {
	s := p.Steps[i]
	const indent = "        "
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintln(b, l.Wrap(indent+label, indent, text))
		}
	}
	fmt.Fprintln(b, l.Wrap("    "+stepMarks[s.Kind]+" ", indent, s.Title))
	changes := changeLine(s, l.Wide)
	line("change: ", changes)
	line("at: ", target(s, p.Options, s.Title+" "+changes))
	line("journal: ", l.words[l.Results[s.ID]])
	if l.Wide && (i == 0 || s.Why != p.Steps[i-1].Why) {
		line("why: ", s.Why)
	}
	if l.Wide {
		if s.EstimateSeconds >= 1 {
			line("takes: ", wording.CompactDuration(s.EstimateSeconds)+", by estimate")
		}
		line("undo: ", s.Undo)
	}
	for _, text := range more(s, l.Wide) {
		b.WriteString(indent + text + "\n") // commands among it are to be copied
	}
}

// foldedSteps is how many steps from one on are printed as one line. Those are the steps that prepare. None of them may
// wait for the operator, or be the last one of this apply.
func foldedSteps(p *v1.Plan, from int, l Layout) int {
	if !l.Folded || l.Verbose || l.Wide || p.Steps[from].Phase != planstep.PhasePrepare {
		return 0
	}
	n := 0
	for _, s := range p.Steps[from:] {
		if s.Phase != planstep.PhasePrepare {
			break
		}
		if s.Await != nil || s.ID == p.Until {
			return 0
		}
		n++
	}
	return n
}

// foldedLine says in one line what steps do.
func foldedLine(steps []v1.Step) string {
	objects, files, others := 0, 0, 0
	var hosts []string
	for _, s := range steps {
		switch s.Kind {
		case v1.StepEnsureObject:
			objects++
		case v1.StepWriteFile, v1.StepCopyFile:
			files++
		default:
			others++
		}
		if s.Host != "" && !slices.Contains(hosts, s.Host) {
			hosts = append(hosts, s.Host)
		}
	}
	var parts []string
	if objects > 0 {
		parts = append(parts, "create "+english.Count(objects, "object"))
	}
	if files > 0 {
		parts = append(parts, "write "+english.Count(files, "file")+" on "+english.Count(len(hosts), "host"))
	}
	if others > 0 {
		parts = append(parts, english.Count(others, "other change"))
	}
	return english.Count(len(steps), "step") + ": " + strings.Join(parts, ", ") + " (-v shows them)"
}

// acceptedLines are lines with each finding that would block without the reason for which it is accepted.
func acceptedLines(p *v1.Plan) string {
	var out strings.Builder
	for _, f := range compare.Accepted(p) {
		fmt.Fprintf(
			&out,
			"accepted %s (%s): %s · reason: %s\n",
			f.Code,
			f.Outcome,
			wording.OneLine(f.Summary),
			wording.OneLine(findings.AcceptedBecause(f)),
		)
	}
	return out.String()
}

// more is what follows the line of a step. What a step waits for is always shown; what is done by hand is shown if all
// details are requested.
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

func oneLine(s string) string {
	if first, _, more := strings.Cut(s, "\n"); more {
		return visible.Line(first) + " …"
	}
	return visible.Line(s)
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

// target says what a step really changes, by its fields and not by its words, if its printed line does not. The words
// may be an attacker's. It is never cut. Empty when the line says all.
func target(s v1.Step, o v1.Options, line string) string {
	var parts []string
	told := true
	for _, p := range targets(s, o) {
		told = told && strings.Contains(line, p.value)
		parts = append(parts, p.name+wording.OneLine(p.value))
	}
	if told {
		return ""
	}
	return strings.Join(parts, " · ")
}

// part is one field of a step in words.
type part struct{ name, value string }

// targets are the fields of a step that say where it acts, and what it brings there.
func targets(s v1.Step, o v1.Options) []part {
	var out []part
	add := func(name, value string) {
		if value != "" {
			out = append(out, part{name, value})
		}
	}
	if s.Kind == v1.StepVerify || s.Kind == v1.StepAwait {
		return nil // looks, and changes nothing
	}
	add("", s.Path) // the host is in a line of its own above
	for _, at := range s.Files {
		add("", at)
	}
	add("unit ", s.Unit)
	add("", s.Ref)
	if s.Kind == v1.StepCopyFile || s.Kind == v1.StepWriteFile {
		add("from ", s.Source)
	}
	if s.Component == component.CCM && (s.Kind == v1.StepAddManifest || s.Kind == v1.StepEnsureObject) {
		add("image ", o.Image)
	}
	for _, e := range s.Edits {
		if !isTold(s.Changes, e) {
			add(string(e.Op)+" "+e.Name+" ", e.Value)
		}
	}
	return out
}

// isTold reports whether what is printed of a step's changes has an edit as it is. A change to what was there already
// is not printed, and of a text only the first line is.
func isTold(changes []v1.Change, e v1.Edit) bool {
	for _, c := range changes {
		if oneLine(c.Before) == oneLine(c.After) || strings.Contains(c.After, "\n") {
			continue
		}
		if strings.Contains(c.Field, e.Name) && (c.After == e.Value || e.Op == v1.EditUnsetFlag && c.After == "") {
			return true
		}
	}
	return !strings.HasSuffix(string(e.Op), "Flag")
}
