package printer

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/english"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
)

// column is a column of a table of clusters.
type column struct {
	head string
	// from is the width of the terminal from which on the column is shown.
	from int
	of   func(r v1.FleetCluster, at time.Time) string
}

// fleetColumns are the columns of fleet status, the widest last. A terminal that is too narrow for all leaves those out
// that are read elsewhere.
var fleetColumns = []column{
	{"NAME", 0, func(r v1.FleetCluster, _ time.Time) string { return fleet.Key{Group: r.Group, Name: r.Name}.String() }},
	{"PROVIDER", 110, func(r v1.FleetCluster, _ time.Time) string { return wording.OrDash(r.Provider) }},
	{"VERSION", 120, func(r v1.FleetCluster, _ time.Time) string { return wording.OrDash(r.Version) }},
	{"PHASE", 0, func(r v1.FleetCluster, _ time.Time) string { return wording.FleetPhase(r) }},
	{"LOOPS", 90, func(r v1.FleetCluster, _ time.Time) string { return wording.OrDash(fleet.OwnersWords(r.Owners)) }},
	{"MACHINES", 80, func(r v1.FleetCluster, _ time.Time) string { return fleetMachines(r.Machines) }},
	{"SINCE", 0, func(r v1.FleetCluster, at time.Time) string { return fleetAge(r.Since, at) }},
}

// wideColumns are further ones of -o wide, which is never cut.
var wideColumns = []column{
	{"CALLED", 0, func(r v1.FleetCluster, _ time.Time) string { return wording.OrDash(r.HumanName) }},
	{"NAMESPACE", 0, func(r v1.FleetCluster, _ time.Time) string { return wording.OrDash(r.Namespace) }},
}

func fleetMachines(m *v1.FleetMachines) string {
	if m == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", m.Migrated, m.Total)
}

func fleetAge(since, at time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return wording.CompactDuration(max(0, at.Sub(since).Seconds()))
}

// fleetMark is the mark of a cluster: who has to do something sees it.
func fleetMark(r v1.FleetCluster) v1.Outcome {
	switch {
	case r.Standing == v1.StandingFailed || r.Standing == v1.StandingBlocked || r.Owners == fleet.OwnersBoth:
		return v1.Fail
	case r.Stuck != "" || r.Owners == fleet.OwnersUnknown ||
		r.Standing == v1.StandingWaiting && (r.Hold != "" || r.Paused != ""):
		return v1.Warn
	case r.Standing == v1.StandingCompleted:
		return v1.Pass
	}
	return v1.Skip
}

// FleetText is the table of a fleet, the worst cluster first, with what it comes to below.
func FleetText(s v1.FleetStatus, l Layout) string {
	s = safe(s)
	p := Page{Layout: l}
	rows := fleet.Worst(s.Clusters)
	columns := fleetShown(l)
	widths := fleetWidths(columns, rows, s.Time, l)
	if len(rows) > 0 {
		indent := strings.Repeat(" ", utf8.RuneCountInString(p.Mark(v1.Pass))+1)
		cells := make([]string, 0, len(columns)+1)
		for _, c := range columns {
			cells = append(cells, c.head)
		}
		head := Page{Layout: l}
		head.Width = max(l.Width, MinWidth) - len(indent)
		head.row("", widths, append(cells, "MESSAGE")...)
		fmt.Fprintln(&p.B, p.Cut(indent+strings.TrimRight(head.B.String(), "\n")))
	}
	for _, r := range rows {
		cells := make([]string, 0, len(columns)+1)
		for _, c := range columns {
			cells = append(cells, c.of(r, s.Time))
		}
		p.row(fleetMark(r), widths, append(cells, wording.OrDash(r.Message))...)
	}
	p.whole(fleet.Sentence(s.Summary))
	p.whole(progressBar(s.Progress, l.Ascii) + fleet.ProgressSentence(s.Progress))
	for _, rollout := range s.Progress.Rollouts {
		for _, w := range rollout.Waves {
			p.whole("  rollout " + rollout.ID + " · " + fleet.WaveSentence(w, len(rollout.Waves)))
		}
	}
	if n := s.Progress.TwoOwners; n > 0 {
		p.whole(fmt.Sprintf("%s have TWO MANAGERS at once: stop one of them first", english.Count(n, "cluster")))
	}
	p.notRead(s.NotRead)
	p.line("next: %s", fleetNext(rows))
	return p.B.String()
}

// progressBar is a bar of twenty characters; empty where there is nothing to do.
func progressBar(p v1.FleetProgress, ascii bool) string {
	if p.Total <= 0 {
		return ""
	}
	const width = 20
	done := min(width, max(0, width*p.Done/p.Total))
	full, rest := "█", "░"
	if ascii {
		full, rest = "#", "."
	}
	return "[" + strings.Repeat(full, done) + strings.Repeat(rest, width-done) + "] "
}

// whole writes a text that is never cut: what a line has no room for goes on in the next.
func (p *Page) whole(text string) { fmt.Fprintln(&p.B, p.Wrap("", "  ", p.Plain(text))) }

func fleetShown(l Layout) []column {
	var out []column
	for _, c := range fleetColumns {
		if l.Wide || l.Width >= c.from {
			out = append(out, c)
		}
	}
	if l.Wide {
		out = append(out, wideColumns...)
	}
	return out
}

// fleetWidths are those of what is in the columns; the first one gives way on a narrow terminal.
func fleetWidths(columns []column, rows []v1.FleetCluster, at time.Time, l Layout) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = len(c.head)
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.of(r, at)))
		}
	}
	if !l.Wide && len(widths) > 0 {
		widths[0] = min(widths[0], 20+max(0, l.Width-DefaultWidth))
	}
	return widths
}

// fleetNext is what to do about the worst cluster.
func fleetNext(worst []v1.FleetCluster) string {
	if len(worst) == 0 {
		return "transplant-operator migrates the Clusters of this seed; there are none"
	}
	enable := false
	for _, r := range worst {
		enable = enable || r.Standing == v1.StandingNotEnabled
	}
	switch r := worst[0]; {
	case fleetMark(r) == v1.Fail || r.Stuck != "":
		return fmt.Sprintf("transplant fleet status %s -o yaml   (all its conditions)", r.Name)
	case r.Standing == v1.StandingMigrating || r.Standing == v1.StandingWaiting:
		return "transplant fleet status --watch"
	case enable:
		return "transplant fleet plan"
	}
	return "nothing is left to be done"
}

// fleetDone are the words for members to which nothing is done.
var fleetDone = map[string]string{
	v1.StandingMigrating: "under way",
	v1.StandingWaiting:   "asked for",
	v1.StandingCompleted: "done",
	v1.StandingBlocked:   "blocked",
	v1.StandingFailed:    "failed",
}

// PrintFleetPlan prints the waves, a line for each cluster; with whole, each plan below its cluster.
func PrintFleetPlan(w io.Writer, f *v1.FleetPlan, l Layout, whole bool) error {
	shown := safe(*f)
	p := Page{Layout: l}
	total, before := 0, 0
	for _, wave := range shown.Waves {
		total += len(wave.Clusters)
	}
	for i, wave := range shown.Waves {
		for j, m := range f.Waves[i].Clusters {
			wave.Clusters[j].Plan = m.Plan // its digest is that of what it is, and PrintPlan sets it
		}
		before += len(wave.Clusters)
		p.line(
			"wave %d · up to %s · %s, %d of %d by its end",
			wave.Number,
			wave.Upto,
			english.Count(len(wave.Clusters), "cluster"),
			before,
			total,
		)
		if err := p.fleetMembers(wave.Clusters, whole); err != nil {
			return err
		}
	}
	p.fleetLeft(shown.Left)
	p.notRead(shown.NotRead)
	p.whole(fleetPlanSum(&shown))
	_, err := io.WriteString(w, p.B.String())
	return err
}

func (p *Page) fleetMembers(members []v1.FleetMember, whole bool) error {
	name := func(m v1.FleetMember) string { return fleet.Key{Group: m.Group, Name: m.Name}.String() }
	widths := []int{0, 0, 0, 9}
	for _, m := range members {
		for i, text := range []string{name(m), wording.OrDash(m.Provider), wording.OrDash(m.Version)} {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	widths[0] = min(widths[0], nameWidth+max(0, p.Width-80))
	for _, m := range members {
		mark, do := "=", fleetDone[m.Standing]
		if m.Do != "" {
			mark, do = map[string]string{v1.FleetEnable: "+", v1.FleetRelease: "~"}[m.Do], m.Do
		}
		words := fleetPlanWords(m)
		if m.Do == v1.FleetRelease {
			words = strings.TrimSuffix("takes off the hold of "+m.Hold+" · "+words, " · ")
		}
		row := Page{Layout: p.Layout}
		row.Width = max(p.Width, MinWidth) - 4
		row.row("", widths, name(m), wording.OrDash(m.Provider), wording.OrDash(m.Version), do, words)
		fmt.Fprintln(&p.B, p.Cut("  "+mark+" "+strings.TrimRight(row.B.String(), "\n")))
		if whole && m.Plan != nil {
			var steps strings.Builder
			if err := PrintPlan(&steps, m.Plan, p.Layout); err != nil {
				return err
			}
			for line := range strings.Lines(steps.String()) {
				p.B.WriteString("      " + line)
			}
		}
		if whole && m.Report != nil && m.Report.Summary.Blocked {
			var findings strings.Builder
			if err := PrintFindings(&findings, *m.Report, p.Layout); err != nil {
				return err
			}
			for line := range strings.Lines(findings.String()) {
				p.B.WriteString("      " + line)
			}
		}
	}
	return nil
}

// fleetLeft names those that are left out, those of one reason together.
func (p *Page) fleetLeft(left []v1.FleetLeft) {
	var reasons []string
	names := map[string][]string{}
	for _, l := range left {
		if names[l.Reason] == nil {
			reasons = append(reasons, l.Reason)
		}
		names[l.Reason] = append(names[l.Reason], fleet.Key{Group: l.Group, Name: l.Name}.String())
	}
	for i, reason := range reasons {
		if i == 0 {
			p.line("left out")
		}
		p.whole(fmt.Sprintf("  - %s: %s", reason, strings.Join(names[reason], ", ")))
	}
}

func fleetPlanSum(f *v1.FleetPlan) string {
	start, inWaves := 0, 0
	for _, w := range f.Waves {
		inWaves += len(w.Clusters)
		for _, m := range w.Clusters {
			if m.Do != "" {
				start++
			}
		}
	}
	parts := []string{
		fmt.Sprintf(
			"plan: %d of %s to start in %s, at most %d at a time",
			start,
			english.Count(inWaves, "cluster"),
			english.Count(len(f.Waves), "wave"),
			f.Options.MaxParallel,
		),
	}
	if f.Options.SoakSeconds > 0 {
		parts = append(parts, fmt.Sprintf("each wave watched for %s", wording.CompactDuration(f.Options.SoakSeconds)))
	}
	parts = append(
		parts,
		"a cluster is done with "+map[string]string{
			fleet.UntilCompleted: "its migration completed",
			fleet.UntilHandover:  "its handover",
		}[f.Options.Until],
	)
	if n := f.Options.MaxFailures; n == 0 {
		parts = append(parts, "stops at the first failure")
	} else {
		parts = append(parts, fmt.Sprintf("stops when more than %d have failed", n))
	}
	if f.Options.RestartMachines {
		parts = append(parts, "transplant-operator replaces the machines")
	}
	return strings.Join(parts, " · ")
}

// fleetPlanWords are a member's plan in short.
func fleetPlanWords(m v1.FleetMember) string {
	switch {
	case m.Error != "":
		return "unknown: " + m.Error
	case m.Report != nil && m.Report.Summary.Blocked:
		var codes []string
		for _, f := range client.BlockingFindings(*m.Report, false) {
			codes = append(codes, f.Code)
		}
		return fmt.Sprintf("blocked by %s: %s", client.Blocking(*m.Report), strings.Join(codes, ", "))
	case m.Plan == nil:
		return ""
	}
	seconds := 0.0
	for _, s := range m.Plan.Steps {
		seconds += s.EstimateSeconds
	}
	words := fmt.Sprintf("%s, %s", english.Count(len(m.Plan.Steps), "step"), m.Plan.Strategy)
	if seconds > 0 {
		words += ", about " + wording.CompactDuration(seconds)
	}
	if m.Report != nil && m.Report.Summary.Warned > 0 {
		words += ", " + english.Count(m.Report.Summary.Warned, "warning")
	}
	return words
}
