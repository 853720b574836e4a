package printer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/cli/printer/fold"
	"github.com/transplant-dev/transplant/internal/cli/printer/settings"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/effect"
	"github.com/transplant-dev/transplant/internal/plan/options"
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
	v1.StepReplacePod:      "~",
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
	l.words, l.judged = results, true
	return writePlan(w, shown, planHeader(shown, l), "plan sha256: "+compare.Digest(p)+"\n", l)
}

// PrintUnseen prints the plan of a journal that others may have written, all of it. The results that its records claim
// are printed next to the steps. They leave no step out: a step that the cluster does not show is executed again.
// The digest is left out, which is not always that of the stored plan.
func PrintUnseen(w io.Writer, p *v1.Plan, l Layout) error {
	l.Folded, l.words, l.judged = false, claims, false
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
		"plan: %d to add, %d to change, %d to remove · %s · valid while its %d %s",
		add,
		change,
		remove,
		stepsWords(p, l),
		len(p.Facts),
		english.Word(len(p.Facts), "fact holds", "facts hold"),
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
	line("irreversible", irreversibleWords(p, o))
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

// irreversibleWords say what no rollback takes back; of a rollback, what no other plan does again.
func irreversibleWords(p *v1.Plan, o outline.Outline) string {
	nothing := "nothing: rollback reverts every step"
	if p.Direction == planstep.Rollback {
		nothing = "nothing: you can migrate again"
	}
	return cmp.Or(english.FirstOf(irreversibleNamed, o.Irreversible), nothing)
}

// stepsWords count the steps of a plan, and those that a rollback takes back. Nothing is taken back of a verification
// or a wait, so that these count as such.
func stepsWords(p *v1.Plan, l Layout) string {
	all := english.Count(len(p.Steps), "step")
	if !l.saysReversal(p) {
		return all
	}
	return fmt.Sprintf("%s, %d reversible", all, len(p.Steps)-outline.ReversalOf(p, p.Steps).Lasting)
}

// saysReversal reports whether it is printed what of a plan can be taken back. A rollback is made to take things back.
// A plan that others may have written is not judged by what it says of itself.
func (l Layout) saysReversal(p *v1.Plan) bool { return l.judged && p.Direction != planstep.Rollback }

// writeSteps writes the steps below their phases and hosts. Those that are folded are written together.
func writeSteps(b *strings.Builder, p *v1.Plan, l Layout) {
	parts := fold.Single(p)
	if l.Folded && !l.Verbose && !l.Wide {
		parts = fold.Together(p)
	}
	number, host := 0, ""
	for _, part := range parts {
		first, last := p.Steps[part.First], p.Steps[part.End-1]
		if part.First == 0 || first.Phase != p.Steps[part.First-1].Phase {
			number++
			fmt.Fprintln(b, l.Wrap(fmt.Sprintf("phase %d  ", number), "  ", phaseWords(p, part, l)))
			host = ""
		}
		switch {
		case part.Prepares: // its words are in the line of the phase
		case len(part.Workers) > 0:
			writeWorkers(b, p, part, l)
		default:
			writeHost(b, first.Host, host)
			writeStep(b, p, part.First, l)
		}
		host = last.Host
		if p.Until == last.ID && part.End < len(p.Steps) {
			fmt.Fprintln(b, l.Wrap("  -- ", "     ", "apply stops here; the next one goes on with "+
				strings.Join(planstep.Remaining(p, part.End), ", ")))
		}
	}
}

// writeHost writes where a step acts, if the step before acts in another place.
func writeHost(b *strings.Builder, host, before string) {
	switch {
	case host == before:
	case host == "":
		b.WriteString("  cluster\n")
	default:
		fmt.Fprintf(b, "  host %s\n", host)
	}
}

// phaseWords are the name of the phase that begins with a part, whether it can be taken back, and how its workers are
// spared. What a part that is folded does follows.
func phaseWords(p *v1.Plan, part fold.Part, l Layout) string {
	steps := p.Steps[part.First:]
	if next := slices.IndexFunc(steps, func(s v1.Step) bool { return s.Phase != steps[0].Phase }); next > 0 {
		steps = steps[:next]
	}
	words := []string{steps[0].Phase}
	if l.saysReversal(p) {
		words = append(words, reversalWords(outline.ReversalOf(p, steps))...)
		words = append(words, canaryWords(p, steps)...)
	}
	if part.Prepares {
		words = append(words, fold.DescribePreparation(p.Steps[part.First:part.End]))
	}
	return strings.Join(words, " · ")
}

// reversalWords say whether a rollback takes all of a phase back; none where it changes nothing.
func reversalWords(r outline.Reversal) []string {
	switch {
	case r.Changes == 0:
		return nil
	case r.Lasting == 0:
		return []string{"reversible"}
	}
	return []string{"not reversible: " + english.Count(r.Lasting, "step")}
}

// canariesNamed is how many canaries are named.
const canariesNamed = 3

// canaryWords say which workers change first, for how long each is watched, and how many nodes may be away at a time.
// There are none where no worker changes.
func canaryWords(p *v1.Plan, steps []v1.Step) []string {
	var hosts []string
	for _, s := range steps {
		if s.Canary {
			hosts = append(hosts, s.Host)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	first := english.Word(len(hosts), "canary ", "canaries ") + english.FirstOf(canariesNamed, hosts)
	if soak := options.Soak(p.Options).Seconds(); soak > 0 {
		first += english.Word(len(hosts), ", watched for ", ", each watched for ") + wording.CompactDuration(soak)
	}
	return []string{first, "maxUnavailable " + cmp.Or(p.Options.MaxUnavailable, options.DefaultMaxUnavailable)}
}

// writeWorkers writes the steps of workers, those that change the same together.
func writeWorkers(b *strings.Builder, p *v1.Plan, part fold.Part, l Layout) {
	all := fold.DescribeWorkers(p.Steps[part.First:part.End])
	if len(part.Workers) == 1 {
		s := fold.WithoutHost(p.Steps[part.First])
		text := all + drainWords(s) + ": " + changeLine(s, false) + fold.Hidden
		fmt.Fprintln(b, l.Wrap("  ", "    ", text))
		return
	}
	fmt.Fprintln(b, l.Wrap("  ", "    ", all+fold.Hidden))
	for _, same := range part.Workers {
		if len(same) == 1 {
			writeStep(b, p, same[0], l)
			continue
		}
		s := fold.WithoutHost(p.Steps[same[0]])
		writeChange(b, s, english.Count(len(same), "worker")+drainWords(s), p.Options, l)
	}
}

// drainWords say of several workers that each is drained, after their number.
func drainWords(s v1.Step) string {
	if s.Drain {
		return ", each drained before its change"
	}
	return ""
}

// indent begins the lines below that of a step.
const indent = "        "

// writeStep writes one step: what is done, what changes by it, and where.
func writeStep(b *strings.Builder, p *v1.Plan, i int, l Layout) {
	s := p.Steps[i]
	line := func(label, text string) { writeDetail(b, label, text, l) }
	writeChange(b, s, s.Title, p.Options, l)
	line("journal: ", l.words[l.Results[s.ID]])
	if l.Wide && (i == 0 || s.Why != p.Steps[i-1].Why) {
		line("why: ", s.Why)
	}
	if l.Wide && s.EstimateSeconds >= 1 {
		line("takes: ", wording.CompactDuration(s.EstimateSeconds)+", by estimate")
	}
	if l.Wide || l.Verbose {
		line("verified: ", verifiedWords(s))
	}
	if l.Wide {
		line("undo: ", s.Undo)
	}
	for _, text := range more(s, l.Wide) {
		b.WriteString(indent + text + "\n") // commands among it are to be copied
	}
}

// writeChange writes a title, what a step changes, and where.
func writeChange(b *strings.Builder, s v1.Step, title string, o v1.Options, l Layout) {
	fmt.Fprintln(b, l.Wrap("    "+stepMarks[s.Kind]+" ", indent, title))
	changes := changeLine(s, l.Wide)
	writeDetail(b, "change: ", changes, l)
	writeDetail(b, "at: ", target(s, o, title+" "+changes), l)
}

// writeDetail writes a line below that of a step, if it has a text.
func writeDetail(b *strings.Builder, label, text string, l Layout) {
	if text != "" {
		fmt.Fprintln(b, l.Wrap(indent+label, indent, text))
	}
}

// verifiedWords say what has to hold after a step, before the next one is executed.
func verifiedWords(s v1.Step) string {
	var out []string
	if s.Kind == v1.StepKubelet {
		out = append(out, "the kubelet runs with these flags, and its node is Ready with the uid, providerID, addresses, "+
			"labels and taints that it had")
	}
	if len(s.Expect) > 0 {
		out = append(out, expected(s.Expect))
	}
	return strings.Join(out, "; ")
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

// more is what follows the line of a step. What a step waits for is always shown, and that its node is drained. What is
// done by hand is shown if all details are requested.
func more(s v1.Step, wide bool) []string {
	var out []string
	if s.Await != nil {
		out = append(out, s.Await.Instructions...)
	}
	if s.Drain {
		out = append(out, "the node is drained before and made schedulable after it")
	}
	if wide {
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
