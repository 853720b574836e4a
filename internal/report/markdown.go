package report

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/report/plain"
	"github.com/transplant-dev/transplant/internal/visible"
)

// md builds a Markdown text; what comes from the cluster is escaped.
type md struct{ strings.Builder }

func (m *md) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// row writes the row of a table.
func (m *md) row(cells ...string) {
	m.WriteString("|")
	for _, c := range cells {
		m.WriteString(" " + escaped(c) + " |")
	}
	m.WriteString("\n")
}

// header writes the first rows of a table; a column whose name begins with > is aligned to the right.
func (m *md) header(columns ...string) {
	rule := "|"
	for i, c := range columns {
		if right, ok := strings.CutPrefix(c, ">"); ok {
			columns[i] = right
			rule += "---:|"
		} else {
			rule += "---|"
		}
	}
	m.line("")
	m.row(columns...)
	m.line("%s", rule)
}

func (m *md) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	m.line("\n## %s\n", title)
	for _, s := range items {
		m.line("- %s", escaped(s))
	}
}

// escaped makes a text safe inside a table and a paragraph: no markup, no line break.
func escaped(s string) string { return visible.Markdown(s) }

// digests names who started the run, and its plans, so that a reader finds those that were approved.
func (m *md) digests(r v1.Report) {
	if r.PlanSHA256 == "" {
		return
	}
	rollback := ""
	if r.RollbackSHA256 != "" {
		rollback = ", of its rollback `" + escaped(r.RollbackSHA256) + "`"
	}
	starter := ""
	if r.User != "" {
		starter = "Started by " + escaped(r.User) + ". "
	}
	m.line("\n%sSHA-256 of the plan `%s`%s.", starter, escaped(r.PlanSHA256), rollback)
}

// markdown renders the report for a pull request, an issue or a terminal.
func markdown(r v1.Report) string {
	m := &md{}
	m.line("# Migration report: %s", escaped(clusterName(r.Cluster)))
	m.line("\n%s", escaped(r.Sentence))
	m.line("\n**%s: %s.**", strings.ToUpper(escaped(r.Result)), escaped(headline(r.Result)))
	if r.Result == v1.ResultOK {
		m.line("\n%s", escaped(summary(r)))
	} else {
		m.line("")
		for _, s := range r.Reasons {
			m.line("- %s", escaped(s))
		}
	}
	m.line(
		"\nRun %s (%s, %s), %s to %s UTC, Kubernetes %s, transplant %s.",
		escaped(r.Run),
		escaped(r.Strategy),
		escaped(r.Direction),
		r.Started.UTC().
			Format(time.DateTime),
		r.Ended.UTC().Format(time.TimeOnly),
		escaped(orNone(r.Cluster.Version)),
		escaped(orNone(r.ToolVersion)),
	)
	m.digests(r)
	m.figures(r)
	m.gaps(r)
	m.disruption(r)
	m.objectives(r.Objectives)
	m.without(r)
	m.idleTimes(r)
	m.inventory(r)
	m.steps(r)
	m.list("What cannot be promised", r.Unpromised)
	m.list("Unknown", r.Unknown)
	m.line("\n## Evidence")
	m.header("source", "there", "what")
	for _, s := range r.Sources {
		m.row(s.Name, yesNo(s.Present), s.Detail)
	}
	m.list("Notes", r.Notes)
	m.findings(r)
	return m.String()
}

func (m *md) figures(r v1.Report) {
	m.header("figure", ">value")
	m.row(figureDowntime, downtime(r))
	m.row(figureGap, plain.GapLength(r))
	m.row("overlapping writes", formatCount(r.Handover.OverlappingWrites))
	m.row("calls that took effect late", formatCount(r.Handover.LateEffects))
	m.row("load balancers recreated", known(r.Inventory.Known, r.Inventory.LoadBalancers.Recreated))
	m.row("nodes changed", known(r.Inventory.Known, surprising(r.Inventory, "Node/")))
	m.row("leases released for a process that had ended", fmt.Sprint(r.Handover.Assisted))
	m.row("duration", plain.TimeTaken(r))
}

// idleTimes lists when the run waited, and when no command executed it.
func (m *md) idleTimes(r v1.Report) {
	if len(r.Waits)+len(r.Stops) == 0 {
		return
	}
	m.line("\n## When the run did not go on")
	m.header("what", "from (UTC)", "to (UTC)", "by", "why")
	for _, w := range r.Waits {
		m.row("paused", dateTime(w.From), endOfWait(w), w.By, w.Reason)
	}
	for _, s := range r.Stops {
		m.row("no command executed it", dateTime(s.From), dateTime(s.To), cmp.Or(s.By, "another command")+" went on", "")
	}
}

// endOfWait is when a run went on; an open end where it did not.
func endOfWait(w v1.PauseRecord) string {
	if w.To == nil {
		return "-"
	}
	return dateTime(*w.To)
}

// dateTime is a time of a run that may go on for days.
func dateTime(t time.Time) string { return t.UTC().Format(time.DateTime) }

func (m *md) gapTable(gaps []v1.Gap) {
	m.header("loop", "from", "to", "step", "at (UTC)", ">seconds", ">lease taken after", "measured")
	for _, g := range gaps {
		m.row(
			g.Loop,
			g.From,
			successor(g.To),
			g.Cause,
			clock(g.Start),
			fmt.Sprintf("%.3f", g.Seconds),
			leaseSeconds(g),
			certainty(g.Certain),
		)
	}
}

func (m *md) gaps(r v1.Report) {
	m.line("\n## Gaps")
	if len(r.Gaps) == 0 {
		m.line("\nNone was seen.")
	} else {
		m.gapTable(r.Gaps)
	}
	if len(r.Pauses) > 0 {
		m.line("\n## Pauses of loops that stay")
		m.line(
			"\n%s",
			pauseHint,
		)
		m.gapTable(r.Pauses)
	}
	if len(r.Overlaps) > 0 {
		m.line("\n## Overlaps")
		m.header("loop", "old owner", "new owner", "from (UTC)", "to (UTC)", ">calls", "evidence")
		for _, o := range r.Overlaps {
			m.row(o.Loop, o.Old, o.New, clock(o.Start), clock(o.End), fmt.Sprint(len(o.Calls)), o.Evidence)
		}
	}
	if len(r.LateEffects) > 0 {
		m.line("\n## Calls that took effect late")
		m.header("call", "loop", "owner", "action", "arrived (UTC)", "took effect (UTC)")
		for _, l := range r.LateEffects {
			m.row(fmt.Sprint(l.Seq), l.Loop, l.Owner, l.Service+" "+l.Action, clock(l.Arrived), clock(l.Effect))
		}
	}
}

// objectivesHint says what the table of objectives is about.
const objectivesHint = "What the managers counted themselves. KEP-2395 asks that 99% take less than 60 s, " +
	"and for less than 1 error of node syncs in 15 minutes."

func (m *md) objectives(o *v1.Objectives) {
	if o == nil {
		return
	}
	m.line("\n## Objectives of KEP-2395")
	m.line("\n%s", objectivesHint)
	m.header("series", "when", ">counted", ">over 60 s", ">most in 15 min", "objective")
	for _, row := range objectiveRows(o) {
		m.row(row.Series, row.Window, row.Count, row.Slow, row.Densest, row.Words)
	}
}

func (m *md) without(r v1.Report) {
	if len(r.Without) == 0 {
		return
	}
	m.line("\n## Hosts that were excluded")
	m.line("\n%s", withoutHint)
	m.header("host", "node", "by", "at (UTC)", "evidence")
	for _, h := range r.Without {
		m.row(h.Name, h.Node, h.By, h.At.UTC().Format(time.DateTime), strings.Join(h.Evidence, "; "))
	}
}

// withoutHint is what holds of every host that was excluded.
const withoutHint = "These hosts were gone for good: their steps were skipped, and what they run is not known. None may come back as it was."

func (m *md) inventory(r v1.Report) {
	inv := r.Inventory
	m.line("\n## Inventory")
	if !inv.Known {
		m.line("\nIncomplete: the counts prove nothing.")
	}
	m.header("what", ">before", ">after", "")
	m.row(
		"load balancers",
		fmt.Sprint(inv.LoadBalancers.Before),
		fmt.Sprint(inv.LoadBalancers.After),
		fmt.Sprintf(
			"%d recreated, %s",
			inv.LoadBalancers.Recreated,
			english.Count(inv.LoadBalancers.AddressChanged, "address")+" changed",
		),
	)
	m.row(
		"routes",
		fmt.Sprint(inv.Routes.Before),
		fmt.Sprint(inv.Routes.After),
		fmt.Sprintf("%d lost or changed", surprising(inv, "Route/")),
	)
	m.row("nodes", fmt.Sprint(inv.Nodes.Before), fmt.Sprint(inv.Nodes.After),
		fmt.Sprintf(
			"%d recreated, %s changed",
			inv.Nodes.Recreated,
			english.Count(inv.Nodes.ChangedProviderID, "providerID"),
		))
	for _, row := range countRows(inv)[3:] {
		m.row(row.What, row.Before, row.After, row.Detail)
	}
	if len(inv.Differences) == 0 {
		return
	}
	m.header("object", "field", "before", "after", "expected")
	for _, d := range inv.Differences {
		why := "no"
		switch {
		case d.Expected:
			why = "yes: " + d.Why
		case d.Accepted != "":
			why = "accepted: " + d.Accepted
		}
		m.row(d.Object, d.Field, d.Before, d.After, why)
	}
}

func (m *md) steps(r v1.Report) {
	m.line("\n## Steps")
	m.header("phase", "step", "result", ">started after", ">seconds")
	for _, s := range inOrder(r.Steps) {
		result, started, took := string(s.Result), "–", "–"
		if s.Error != "" {
			result += ": " + s.Error
		}
		if s.Started != nil {
			started = duration(s.Started.Sub(r.Started).Seconds())
			took = fmt.Sprintf("%.2f", s.DurationSeconds)
		}
		m.row(s.Phase, s.Title, result, started, took)
	}
}

func (m *md) findings(r v1.Report) {
	if len(r.Findings) == 0 {
		return
	}
	m.line("\n## Findings of the check")
	m.header("code", "outcome", "finding", "accepted")
	for _, f := range r.Findings {
		m.row(f.Code, string(f.Outcome), f.Summary, findings.AcceptedBecause(f))
	}
}

// leaseSeconds writes the part of a gap that is the handover.
func leaseSeconds(g v1.Gap) string {
	if g.LeaseSeconds == nil {
		return ""
	}
	return fmt.Sprintf("%.3f", *g.LeaseSeconds)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// known writes a count of an inventory that may be incomplete.
func known(is bool, n int) string {
	if !is {
		return "unknown"
	}
	return fmt.Sprint(n)
}

// surprising counts the objects of a kind of which something that was not to change did.
func surprising(inv v1.InventoryReport, kind string) int {
	changed := map[string]bool{}
	for _, d := range inv.Differences {
		if strings.HasPrefix(d.Object, kind) && !d.Expected {
			changed[d.Object] = true
		}
	}
	return len(changed)
}

// headlines say in a few words what each result means.
var headlines = map[string]string{
	v1.ResultOK:         "One owner at a time, and nothing lost",
	v1.ResultFailed:     "The run failed",
	v1.ResultOverlap:    "Two managers acted on one loop",
	v1.ResultLost:       "Something is not as it was",
	v1.ResultDisrupted:  "Clients noticed more than the budget allows",
	v1.ResultUnknown:    "Not proven: evidence is missing",
	v1.ResultUnfinished: "Not finished",
	v1.ResultRolledBack: "Rolled back",
}

func headline(result string) string {
	if h := headlines[result]; h != "" {
		return h
	}
	return result
}

// summary is the sentence under the headline of a good result.
func summary(r v1.Report) string {
	s := fmt.Sprintf(
		"%s handed over in %s without two managers running one loop",
		english.Count(len(movedLoops(r)), "cloud loop"),
		plain.TimeTaken(r),
	)
	if r.Handover.OverlappingWrites != nil {
		s += ", which the cloud's own audit log confirms"
	}
	return s + fmt.Sprintf(
		". No loop was without a manager for longer than %s at a time. %s and %s are what they were.",
		duration(
			r.Handover.GapSeconds,
		),
		english.Count(r.Inventory.LoadBalancers.After, "load balancer"),
		english.Count(r.Inventory.Nodes.After, "node"),
	)
}

// movedLoops are the loops that changed their component.
func movedLoops(r v1.Report) map[string]bool {
	first, moved := map[string]string{}, map[string]bool{}
	for _, t := range r.Tenures {
		if first[t.Loop] == "" {
			first[t.Loop] = t.Component
		} else if first[t.Loop] != t.Component {
			moved[t.Loop] = true
		}
	}
	return moved
}

// short abbreviates a manager, component@host. Hosts of clouds that are named by their DNS name share its domain,
// behind which a narrow label would hide what tells them apart.
func short(manager string) string {
	component, host, ok := strings.Cut(manager, "@")
	if !ok {
		return manager
	}
	if net.ParseIP(host) == nil {
		host, _, _ = strings.Cut(host, ".")
	}
	return abbreviated(component) + " " + host
}

func abbreviated(name string) string {
	switch name {
	case component.KCM:
		return "KCM"
	case component.CCM:
		return "CCM"
	}
	return name
}

// successor names who took a loop over, if anybody.
func successor(manager string) string {
	if manager == "" {
		return "nobody"
	}
	return manager
}

// formatCount writes a number that may not have been counted.
func formatCount(n *int) string {
	if n == nil {
		return "not counted"
	}
	return fmt.Sprint(*n)
}

// certainty says how exact a gap is.
func certainty(certain bool) string {
	if certain {
		return "measured"
	}
	return "at most: a look was missing"
}

// clusterName is the best name that the cluster has.
func clusterName(c v1.Cluster) string {
	for _, name := range []string{c.Name, c.Context, c.UID} {
		if name != "" {
			return name
		}
	}
	return "cluster"
}
