// Package printer decides how answers look: tables, Markdown, JUnit, JSON and YAML, and the width and marks of a
// terminal.
package printer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/english"
)

// CheckInfo is what is known of a check before it has judged anything.
func CheckInfo(k rule.Check) v1.CheckInfo {
	return v1.CheckInfo{
		Code:      k.Code,
		Reason:    k.Reason,
		Category:  k.Category,
		Level:     k.Level,
		Impact:    k.Impact,
		Title:     check.Title(k),
		Mandatory: k.Mandatory,
		Retryable: k.Retryable,
		DependsOn: k.DependsOn,
		LookFor:   k.LookFor,
		OnlyIf:    k.OnlyIf,
		Warning:   k.Warning,
	}
}

// PrintChecks prints the list of checks.
func PrintChecks(w io.Writer, f *Format, l Layout) error {
	var rows []v1.CheckInfo
	for _, k := range check.List() {
		rows = append(rows, CheckInfo(k))
	}
	table := func(wide bool) func() error {
		return func() error {
			for _, r := range rows {
				columns := fmt.Sprintf("%-9s %-9s ", r.Code, r.Level)
				line := l.fold(columns, strings.Repeat(" ", len(columns)), r.Title)
				if wide {
					line = fmt.Sprintf("%s%-22s %-26s %s", columns, wording.OrDash(r.Impact), r.Reason, r.Title)
				}
				if _, err := fmt.Fprintln(w, line); err != nil {
					return err
				}
			}
			return nil
		}
	}
	doc := v1.CheckList{TypeMeta: v1.Type(v1.KindCheckList), Checks: rows}
	return f.Print(w, doc, map[string]func() error{"table": table(false), "wide": table(true)})
}

// PrintCheck prints the verdict, and then the findings with what blocks first. What did not pass says what to do.
func PrintCheck(w io.Writer, r v1.CheckReport, l Layout) error {
	r = safe(r)
	if _, err := io.WriteString(w, l.Plain(verdict(r, l))); err != nil {
		return err
	}
	if err := printSafeFindings(w, r, l); err != nil {
		return err
	}
	next := l.Next
	if blocks := client.BlockingFindings(r, l.Strict); len(blocks) > 0 {
		slices.SortStableFunc(blocks, byLevel)
		next = "transplant explain " + blocks[0].Code
	}
	if next == "" {
		return nil
	}
	_, err := io.WriteString(w, l.Plain("next: "+next+"\n"))
	return err
}

// outcomeGroups are the groups of findings in the order in which they are printed: what blocks comes first.
var outcomeGroups = []struct {
	outcome v1.Outcome
	title   string
}{
	{v1.Fail, "failed"},
	{v1.Unknown, "unknown (blocks like a failure)"},
	{accepted, "accepted: they would block otherwise"},
	{v1.Warn, "warnings"},
	{v1.Skip, "not evaluated"},
	{v1.Pass, "passed"},
}

// accepted stands for the outcome of what failed or is unknown, and was accepted.
const accepted v1.Outcome = "Accepted"

// groupOf is the outcome that a finding is listed under.
func groupOf(f v1.Finding) v1.Outcome {
	if f.Accepted != "" {
		return accepted
	}
	return f.Outcome
}

// levels are the levels of findings, the worst first.
var levels = []string{findings.LevelCritical, findings.LevelError, findings.LevelWarning, findings.LevelInfo}

// byLevel compares findings such that the worst one is first: by level, then by what suffers.
func byLevel(a, b v1.Finding) int {
	return cmp.Or(
		cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level)),
		cmp.Compare(impactRank(a.Impact), impactRank(b.Impact)),
	)
}

// impactRank is the place of an impact among all, the worst one's 0.
func impactRank(impact string) int {
	if i := slices.Index(findings.Impacts, impact); i >= 0 {
		return i
	}
	return len(findings.Impacts)
}

// PrintFindings prints the findings of a report without its verdict, by outcome, the worst first.
func PrintFindings(w io.Writer, r v1.CheckReport, l Layout) error {
	return printSafeFindings(w, safe(r), l)
}

// printSafeFindings prints the findings of a report whose texts are safe to print.
func printSafeFindings(w io.Writer, r v1.CheckReport, l Layout) error {
	var b strings.Builder
	for _, group := range outcomeGroups {
		in := slices.DeleteFunc(slices.Clone(r.Findings), func(f v1.Finding) bool { return groupOf(f) != group.outcome })
		if len(in) == 0 || !l.shows(group.outcome) {
			continue
		}
		if group.outcome == v1.Skip && !l.Wide {
			fmt.Fprintf(&b, "%s\n", group.title)
			for _, codes := range sameSkips(in) {
				why := strings.TrimPrefix(codes.summary, group.title+": ")
				b.WriteString(l.findingLine(v1.Skip, strings.Join(codes.codes, ", ")+"  "+why))
			}
			continue
		}
		if group.outcome == v1.Pass || group.outcome == v1.Skip {
			fmt.Fprintf(&b, "%s\n", group.title)
		} else {
			slices.SortStableFunc(in, byLevel)
			byCategory(in)
		}
		l.writeFindings(&b, group.title, in, r.TakenAt)
	}
	_, err := io.WriteString(w, l.Plain(b.String()))
	return err
}

// writeFindings writes findings of one outcome. Above those that did not pass it says who has to act.
func (l Layout) writeFindings(b *strings.Builder, title string, in []v1.Finding, taken time.Time) {
	category := ""
	for i, same := range l.sameCauses(in) {
		f, level := same[0], ""
		hasPassed := f.Outcome == v1.Pass || f.Outcome == v1.Skip
		if !hasPassed {
			level = fmt.Sprintf("%-8s  ", f.Level)
		}
		if !hasPassed && (i == 0 || f.Category != category) {
			category = f.Category
			b.WriteString(strings.TrimSuffix(title+" · "+category, " · ") + "\n")
		}
		line := fmt.Sprintf("%-11s  %s%s%s", f.Code, level, f.Summary, alsoOf(same))
		b.WriteString(l.findingLine(f.Outcome, line))
		for _, d := range details(f, taken, l) {
			b.WriteString(l.detailLines(d))
		}
	}
}

// byCategory brings the findings of one category together, which is who has to act. The category of the first finding
// comes first.
func byCategory(sorted []v1.Finding) {
	first := map[string]int{}
	for i, f := range sorted {
		if _, seen := first[f.Category]; !seen {
			first[f.Category] = i
		}
	}
	slices.SortStableFunc(sorted, func(a, b v1.Finding) int { return cmp.Compare(first[a.Category], first[b.Category]) })
}

// sameCauses returns the findings of one outcome in order. Those that are unknown for one reason are one entry, if they
// say nothing else. A list that may not be read leaves dozens of checks without an answer.
func (l Layout) sameCauses(in []v1.Finding) [][]v1.Finding {
	var out [][]v1.Finding
	for _, f := range in {
		isBare := f.Outcome == v1.Unknown && f.Accepted == "" && len(f.Problems) == 0
		i := slices.IndexFunc(out, func(same []v1.Finding) bool {
			return same[0].Summary == f.Summary && same[0].Fix == f.Fix && same[0].Accepted == "" && len(same[0].Problems) == 0
		})
		if l.Wide || !isBare || i < 0 {
			out = append(out, []v1.Finding{f})
			continue
		}
		out[i] = append(out[i], f)
	}
	return out
}

// alsoOf names the checks that have no answer for the same reason; nothing if there is only one.
func alsoOf(same []v1.Finding) string {
	if len(same) < 2 {
		return ""
	}
	var codes []string
	for _, f := range same {
		codes = append(codes, f.Code)
	}
	return fmt.Sprintf(" (the same for %d checks: %s)", len(codes), english.FirstOf(namedObjects, codes))
}

// shows reports whether findings of an outcome are printed.
func (l Layout) shows(o v1.Outcome) bool {
	switch o {
	case v1.Pass:
		return !l.Problems && (l.Verbose || l.Wide)
	case v1.Skip:
		return !l.Problems
	default:
		return true
	}
}

// findingLine sets the line of a finding behind its mark.
func (l Layout) findingLine(o v1.Outcome, text string) string {
	mark := l.Mark(o)
	line := l.Wrap("  "+mark+" ", detailIndent, text)
	return strings.Replace(line, mark, l.paint(o, mark), 1) + "\n"
}

// skips are checks that were skipped for one reason.
type skips struct {
	summary string
	codes   []string
}

// sameSkips returns the checks that were skipped by their reason: checks with the same one are one line.
func sameSkips(in []v1.Finding) []skips {
	var out []skips
	for _, f := range in {
		i := slices.IndexFunc(out, func(s skips) bool { return s.summary == f.Summary })
		if i < 0 {
			i, out = len(out), append(out, skips{summary: f.Summary})
		}
		out[i].codes = append(out[i].codes, f.Code)
	}
	return out
}

// consequence is what suffers, and since when.
func consequence(f v1.Finding, taken time.Time) string {
	var parts []string
	if f.Impact != "" && f.Impact != findings.ImpactNone {
		parts = append(parts, "impact: "+f.Impact)
	}
	if f.Since != nil && taken.After(*f.Since) {
		parts = append(parts, "since "+duration.HumanDuration(taken.Sub(*f.Since)))
	}
	return strings.Join(parts, " · ")
}

// detailIndent is before each line below that of a finding.
const detailIndent = "      "

// detail is a line below a finding, or several. A command or an address is printed as it is, since it is to be copied;
// the rest is wrapped.
type detail struct {
	text     string
	isCopied bool
}

// detailLines sets a detail in lines of the terminal.
func (l Layout) detailLines(d detail) string {
	var b strings.Builder
	for line := range strings.Lines(d.text) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimLeft(line, " ")
		indent := detailIndent + line[:len(line)-len(text)]
		if d.isCopied {
			b.WriteString(indent + text + "\n")
			continue
		}
		b.WriteString(l.Wrap(indent, indent, text) + "\n")
	}
	return b.String()
}

// details are the lines below a finding. The last one is where its page is.
func details(f v1.Finding, taken time.Time, l Layout) []detail {
	if (f.Outcome == v1.Skip || f.Outcome == v1.Pass) && !l.Wide {
		return nil
	}
	var out []detail
	add := func(copied bool, label, text string) {
		if text != "" {
			out = append(out, detail{label + text, copied})
		}
	}
	if f.Outcome != v1.Pass && f.Outcome != v1.Skip {
		add(false, "", consequence(f, taken))
	}
	found := compared(f, l)
	add(false, "objects: ", unnamedObjects(f, found, l))
	add(false, "", found)
	if l.Wide {
		add(false, "source: ", f.Source)
	}
	if f.Outcome != v1.Pass {
		add(false, "warning: ", f.Warning)
		add(false, "only if ", f.OnlyIf)
		label := "fix: " // also of a report whose writer says no kind, or one that is not known
		if f.FixKind == v1.FixLook {
			label = "look: "
		}
		fix := strings.ReplaceAll(Visible(strings.TrimSpace(f.Fix)), "\n", "\n"+strings.Repeat(" ", len(label)))
		if fix != "" {
			add(true, label, fix)
		}
		add(false, "in its output: ", f.LookFor)
	}
	add(false, "accepted: ", findings.AcceptedBecause(f))
	if f.Outcome != v1.Pass && f.Outcome != v1.Skip {
		add(true, "docs: ", client.DocsURL(f.Code)+" (offline: transplant explain "+f.Code+")")
	}
	return out
}

// namedObjects is how many objects of a finding are named; -o wide and JSON have all.
const namedObjects = 5

// unnamedObjects are the objects of a finding; empty where what was found names them already.
func unnamedObjects(f v1.Finding, found string, l Layout) string {
	if l.Wide {
		return strings.Join(f.Objects, ", ")
	}
	named := func(object string) bool { return strings.Contains(found, object) }
	isGrouped := len(f.Problems) == 1 && len(f.Problems[0].Objects) == len(f.Objects)
	if isGrouped || !slices.ContainsFunc(f.Objects, func(object string) bool { return !named(object) }) {
		return ""
	}
	return english.FirstOf(namedObjects, f.Objects)
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

// verdict sums a report up in its first line.
func verdict(r v1.CheckReport, l Layout) string {
	s, word := r.Summary, "nothing blocks"
	switch {
	case s.Blocked && l.Strict:
		word = "blocked (--strict)"
	case s.Blocked:
		word = "blocked"
	}
	accepted, hidden := "", ""
	for _, f := range r.Findings {
		switch {
		case f.Accepted == "":
		case f.Outcome == v1.Fail:
			s.Failed--
		case f.Outcome == v1.Unknown:
			s.Unknown--
		}
	}
	if s.Accepted > 0 {
		accepted = fmt.Sprintf(", %d accepted", s.Accepted)
	}
	if s.Passed > 0 && !l.shows(v1.Pass) && !l.Problems {
		hidden = " (-v shows them)"
	}
	return l.Wrap("", "  ", fmt.Sprintf(
		"%s: %d failed, %d unknown%s, %s, %d not evaluated, %d passed%s",
		word,
		s.Failed,
		s.Unknown,
		accepted,
		english.Count(s.Warned, "warning"),
		s.Skipped,
		s.Passed,
		hidden,
	)) + "\n"
}
