package printer

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/cli/printer/settings"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/outline"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/visible"
)

// PlanMarkdown prints a plan for a change-review ticket. What a reviewer decides by comes first; each step with its
// before and after can be unfolded.
func PlanMarkdown(w io.Writer, p *v1.Plan) error {
	p = safe(p)
	var b strings.Builder
	fmt.Fprintf(&b, "# Migration plan for cluster %s\n\n", visible.Markdown(wording.OrDash(p.Cluster.Name)))
	markdownSummary(&b, p)
	b.WriteString("## Effects\n\n")
	for _, e := range p.Effects {
		fmt.Fprintf(&b, "- %s\n", visible.Markdown(e))
	}
	markdownRisks(&b, p)
	phase, shown := "", map[string]int{}
	for i, s := range p.Steps {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(&b, "\n## %s\n\n", visible.Markdown(phase))
		}
		markdownStep(&b, i+1, s, shown)
		if p.Until == s.ID && i+1 < len(p.Steps) {
			fmt.Fprintf(
				&b,
				"\n**apply stops here**; the next one goes on with %s\n\n",
				visible.Markdown(strings.Join(planstep.Remaining(p, i+1), ", ")),
			)
		}
	}
	if get := settings.OfManagers(p); get != "" {
		fence(&b, "What the managers get:", strings.Split(strings.TrimSpace(get), "\n"))
	}
	markdownRollback(&b, p)
	b.WriteString(
		"\n## Facts\n\nThe plan is valid while these hold; apply looks at each before the step that needs it.\n\n<details><summary>" + english.Count(len(p.Facts), "fact") + "</summary>\n\n| fact | value |\n|---|---|\n",
	)
	for _, f := range p.Facts {
		fmt.Fprintf(&b, "| %s | %s |\n", visible.Markdown(f.ID), code(f.Value))
	}
	b.WriteString("\n</details>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownSummary(b *strings.Builder, p *v1.Plan) {
	add, change, remove := counts(p.Steps)
	o := outline.Of(p)
	if len(o.Blocking) > 0 {
		fmt.Fprintf(b, "**BLOCKED** by %s: apply refuses this plan.\n\n", visible.Markdown(strings.Join(o.Blocking, ", ")))
	}
	rows := [][2]string{
		{
			"cluster uid",
			code(p.Cluster.UID),
		},
		{"context", visible.Markdown(wording.OrDash(p.Cluster.Context))},
		{"server", visible.Markdown(wording.OrDash(p.Cluster.Server))},
		{"version", visible.Markdown(p.Cluster.Version)},
		{"provider", visible.Markdown(wording.OrDash(p.Cluster.Provider))},
		{"strategy", visible.Markdown(p.Strategy + ", " + p.Direction)},
		{
			"image",
			visible.Markdown(p.Options.Image),
		},
		{"steps", fmt.Sprintf("%d (%d to add, %d to change, %d to remove)", len(p.Steps), add, change, remove)},
		{"takes", estimateWords(o)},
		{"restarts", visible.Markdown(restartWords(o))},
		{"risk", visible.Markdown(riskWords(o))},
		{"irreversible", visible.Markdown(irreversibleWords(p, o))},
		{"made", p.Created.Format(time.RFC3339) + " by transplant " + visible.Markdown(wording.OrDash(p.ToolVersion))},
	}
	if p.Until != "" {
		rows = append(rows, [2]string{"apply stops after", code(p.Until)})
	}
	b.WriteString("| | |\n|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %s |\n", r[0], r[1])
	}
	b.WriteString("\n| phase | steps | restarts |\n|---|---|---|\n")
	for _, r := range phaseRows(p) {
		fmt.Fprintf(b, "| %s | %d | %s |\n", visible.Markdown(r.phase), r.steps, visible.Markdown(wording.OrDash(r.restarts())))
	}
	b.WriteString("\n")
}

type phaseRow struct {
	phase string
	steps int
	by    map[string]int
}

func (r phaseRow) restarts() string {
	var out []string
	for c, n := range r.by {
		out = append(out, fmt.Sprintf("%s %d", c, n))
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

func phaseRows(p *v1.Plan) []phaseRow {
	var out []phaseRow
	for i, s := range p.Steps {
		if i == 0 || p.Steps[i-1].Phase != s.Phase {
			out = append(out, phaseRow{phase: s.Phase, by: map[string]int{}})
		}
		last := &out[len(out)-1]
		last.steps++
		if s.Component != "" && s.Kind != v1.StepAwait && s.Kind != v1.StepPatchObject && s.Kind != v1.StepUnpatchObject {
			last.by[s.Component]++
		}
	}
	return out
}

// markdownRisks are the findings that were not passed: who approves the plan approves them.
func markdownRisks(b *strings.Builder, p *v1.Plan) {
	b.WriteString("\n## Risks\n\n")
	if len(p.Findings) == 0 {
		b.WriteString("Every check passed when the plan was made.\n")
		return
	}
	b.WriteString("| check | outcome | finding | accepted because |\n|---|---|---|---|\n")
	for _, f := range p.Findings {
		fmt.Fprintf(
			b,
			"| %s | %s | %s | %s |\n",
			visible.Markdown(f.Code),
			visible.Markdown(string(f.Outcome)),
			visible.Markdown(f.Summary),
			visible.Markdown(wording.OrDash(findings.AcceptedBecause(f))),
		)
	}
}

// markdownStep prints a step to unfold. Contents that were shown are shown once: shown has the number of the step that
// did.
func markdownStep(b *strings.Builder, number int, s v1.Step, shown map[string]int) {
	fmt.Fprintf(b, "<details><summary>%d. %s</summary>\n\n", number, html.EscapeString(s.Title))
	if s.Why != "" {
		fmt.Fprintf(b, "Why: %s\n\n", visible.Markdown(s.Why))
	}
	if s.Drain {
		b.WriteString("The node is drained before and made schedulable after it.\n\n")
	}
	if len(s.Changes) > 0 {
		b.WriteString("| what | before | after |\n|---|---|---|\n")
		for _, c := range s.Changes {
			fmt.Fprintf(
				b,
				"| %s | %s | %s |\n",
				visible.Markdown(c.Field),
				visible.Markdown(wording.OrDash(oneLine(c.Before))),
				visible.Markdown(wording.OrDash(oneLine(c.After))),
			)
		}
		b.WriteString("\n")
	}
	markdownContent(b, number, s, shown)
	if len(s.Expect) > 0 {
		fmt.Fprintf(b, "Waits until: %s\n\n", visible.Markdown(expected(s.Expect)))
	}
	if s.Await != nil {
		fence(b, "Waits for the operator:", s.Await.Instructions)
	}
	if s.Undo != "" {
		fmt.Fprintf(b, "Undo: %s\n\n", visible.Markdown(s.Undo))
	}
	fence(b, "By hand:", s.Manual)
	b.WriteString("</details>\n")
}

// markdownContent prints the object or the file that a step makes. So a reviewer sees the rights that it gives and the
// flags that it sets.
func markdownContent(b *strings.Builder, number int, s v1.Step, shown map[string]int) {
	title, text := "The file:", s.Content
	switch s.Kind {
	case v1.StepEnsureObject:
		title, text = "The object:", s.Object
		if y, err := yaml.JSONToYAML([]byte(s.Object)); err == nil {
			text = string(y)
		}
	case v1.StepWriteFile, v1.StepAddManifest:
		if s.Derive == layout.DeriveCredentialConfig {
			title = "The provider that is added, as a configuration of its own:"
		}
	default:
		return
	}
	if at := shown[text]; at > 0 {
		fmt.Fprintf(b, "%s as in step %d\n\n", title, at)
	} else if text != "" {
		shown[text] = number
		fence(b, title, strings.Split(strings.TrimSpace(mask.Lines(text)), "\n"))
	}
}

// expected says in words who runs which loops after a step.
func expected(owners map[string]string) string {
	by := map[string][]string{}
	for loop, owner := range owners {
		if other, is := strings.CutPrefix(owner, v1.NotIn("")); is {
			owner = "no " + other
		}
		owner = cmp.Or(owner, "exactly one manager")
		by[owner] = append(by[owner], loop)
	}
	var out []string
	for _, owner := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[owner])
		out = append(out, owner+" runs "+strings.Join(by[owner], ", "))
	}
	return strings.Join(out, "; ")
}

// fence prints lines as they are. The fence is longer than any in them, which would end it.
func fence(b *strings.Builder, title string, lines []string) {
	if len(lines) > 0 {
		text := Visible(strings.Join(lines, "\n"))
		marks := backticks(text, 3)
		fmt.Fprintf(b, "%s\n\n%s\n%s\n%s\n\n", title, marks, text, marks)
	}
}

// code prints a text as code in a line, also in a cell of a table.
func code(s string) string {
	s = strings.ReplaceAll(wording.OneLine(s), "|", `\|`)
	marks, blank := backticks(s, 1), ""
	if len(marks) > 1 {
		blank = " "
	}
	return marks + blank + s + blank + marks
}

// backticks are more than a text has in a row, and at least some.
func backticks(text string, least int) string {
	marks := strings.Repeat("`", least)
	for strings.Contains(text, marks) {
		marks += "`"
	}
	return marks
}

func markdownRollback(b *strings.Builder, p *v1.Plan) {
	if p.Direction == planstep.Rollback {
		return
	}
	b.WriteString(
		"\n## Rollback\n\nFrom any step, also days later: `transplant rollback` with the same --host-access. What the steps changed is kept on the hosts and in the journal, and each step is undone as it says.\n",
	)
}
