package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/probe"
	"github.com/transplant-dev/transplant/internal/report/plain"
)

// maxPathLanes are the paths that are drawn: those that were out for longest. The table has them all.
const maxPathLanes = 20

// disruption sums the probes up, and says which steps each outage fell into; nil when the run was not probed.
func disruption(in Input, steps []v1.StepReport) *v1.Disruption {
	d := probe.Sum(in.Probes)
	if d == nil {
		return nil
	}
	for i := range d.Paths {
		for n := range d.Paths[i].Outages {
			d.Paths[i].Outages[n].Steps = stepsDuring(d.Paths[i].Outages[n], steps)
		}
	}
	return d
}

// stepsDuring are the steps that were under way during an outage, in the order of the plan.
func stepsDuring(o v1.Outage, steps []v1.StepReport) []string {
	var out []string
	for _, s := range steps {
		if s.Started == nil || s.Result == v1.StepResultAlreadyDone {
			continue
		}
		end := s.Started.Add(time.Duration(s.DurationSeconds * float64(time.Second)))
		if s.Result == v1.StepResultStarted || s.Result == v1.StepResultInterrupted {
			end = o.End
		}
		if !s.Started.After(o.End) && !end.Before(o.Begin) {
			out = append(out, s.ID)
		}
	}
	return out
}

// disruption judges by the budget.
func (why reasons) disruption(d *v1.Disruption) {
	if d == nil || d.BudgetSeconds == nil {
		return
	}
	kind := v1.ResultUnknown
	if d.Result == v1.DisruptionOver {
		kind = v1.ResultDisrupted
	}
	for _, r := range d.Reasons {
		why.add(kind, "%s", r)
	}
}

// disruptionSource says what the probes were.
func disruptionSource(in Input, d *v1.Disruption) (v1.Source, bool) {
	if d == nil {
		return v1.Source{}, false
	}
	runs := 0
	for _, e := range in.Probes {
		if e.Event == v1.ProbeBegin {
			runs++
		}
	}
	return v1.Source{
		Name:    "disruption log",
		Present: true,
		Detail: fmt.Sprintf(
			"%s, %s to %s UTC, in %s of the probes; %d not probed",
			english.Count(len(d.Paths), "path"),
			d.From.UTC().Format(time.TimeOnly),
			d.To.UTC().Format(time.TimeOnly),
			english.Count(runs, "run"),
			len(d.NotProbed),
		),
	}, true
}

// outageRow is an outage with its path.
type outageRow struct {
	v1.Outage
	Title, Length, Least, Until string
	StepTitles                  []string
}

// outageRows are the outages of all paths in the order of time.
func outageRows(r v1.Report) []outageRow {
	var out []outageRow
	for _, p := range r.Disruption.Paths {
		for _, o := range p.Outages {
			row := outageRow{
				Outage: o,
				Title:  probe.Title(p.Kind, p.Path),
				Length: exactly(o.Seconds),
				Least:  exactly(o.LeastSeconds),
				Until:  clock(o.End),
			}
			if o.Open {
				row.Until = "still out at " + clock(o.End)
			}
			for _, id := range o.Steps {
				row.StepTitles = append(row.StepTitles, title(r, id))
			}
			out = append(out, row)
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].Begin.Before(out[b].Begin) })
	return out
}

// exactly writes the length of an outage, or that there was none.
func exactly(seconds float64) string {
	if seconds == 0 {
		return "–"
	}
	return plain.Outage(seconds)
}

// budgetCell says in a word how a row stands to the budget, and with which tone.
func budgetCell(d *v1.Disruption, result string) (word, tone string) {
	switch {
	case d.BudgetSeconds == nil:
		return "none given", ""
	case result == v1.DisruptionOver:
		return fmt.Sprintf("over %g s", *d.BudgetSeconds), toneBad
	case result == v1.DisruptionUnknown:
		return "unknown", toneWarn
	}
	return fmt.Sprintf("within %g s", *d.BudgetSeconds), toneGood
}

// pathRow is a line of the table of paths, as the page shows it.
type pathRow struct {
	probe.Row
	Longest, Total, Slowest, Budget, Tone string
	Every                                 string
}

func pathRows(d *v1.Disruption) []pathRow {
	var out []pathRow
	for _, r := range probe.Rows(*d) {
		row := pathRow{
			Row:     r,
			Longest: exactly(r.LongestSeconds),
			Total:   exactly(r.TotalSeconds),
			Slowest: exactly(r.SlowestSeconds),
		}
		row.Budget, row.Tone = budgetCell(d, r.Result)
		switch {
		case r.Reconnects == 0:
		case r.Kind == v1.PathTCPKept:
			row.Title += fmt.Sprintf(" (%d closed while idle)", r.Reconnects)
		case r.Of != nil:
			row.Title += " (" + english.Count(r.Of.Reconnects, "reconnect") + ")"
		}
		out = append(out, row)
	}
	return out
}

// pathLane is the drawing of one path.
type pathLane struct {
	Title, Short, Label, Detail string
	Y, TextY                    int
	Marks                       []pathMark
}

// pathMark is an outage, or a time without samples.
type pathMark struct {
	X, W, Class, Title string
}

// disruptionView is what the page shows of the probes.
type disruptionView struct {
	*v1.Disruption
	Rows     []pathRow
	Outages  []outageRow
	Lanes    []pathLane
	Ticks    []tick
	Height   int
	AxisY    int
	Summary  string
	Phases   []band
	BandY    int
	LeftOut  int
	Headline string
	Tone     string
}

const laneHeight = 24

func viewDisruption(r v1.Report) *disruptionView {
	d := r.Disruption
	if d == nil {
		return nil
	}
	v := &disruptionView{
		Disruption: d,
		Rows:       pathRows(d),
		Outages:    outageRows(r),
		Headline:   probe.Summary(*d),
	}
	_, v.Tone = budgetCell(d, d.Result)
	s := scale{from: d.From, to: d.To}
	v.Ticks = s.ticks(d.From, 6)
	drawn := drawnPaths(d)
	if len(drawn) > maxPathLanes {
		v.LeftOut = len(drawn) - maxPathLanes
		drawn = drawn[:maxPathLanes]
	}
	for i, p := range drawn {
		v.Lanes = append(v.Lanes, drawPath(d, p, s, i))
	}
	v.AxisY = laneHeight * len(v.Lanes)
	v.Phases, _ = drawSteps(r, s)
	v.BandY = v.AxisY + 6
	v.Height = v.BandY + 20 + 22
	v.Summary = fmt.Sprintf(
		"Outages of %s over %s, starting at %s UTC. The same facts are in the tables below.",
		english.Count(len(drawn), "path"),
		duration(s.length().Seconds()),
		clock(d.From),
	)
	return v
}

// drawnPaths are those that have something to show, and those of the API; the longest outage first.
func drawnPaths(d *v1.Disruption) []v1.PathDisruption {
	var out []v1.PathDisruption
	for _, p := range d.Paths {
		if p.Kind == v1.PathAPIRead || p.Kind == v1.PathAPIWatch || len(p.Outages) > 0 {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b v1.PathDisruption) int {
		switch {
		case a.LongestSeconds > b.LongestSeconds:
			return -1
		case a.LongestSeconds < b.LongestSeconds:
			return 1
		}
		return 0
	})
	return out
}

func drawPath(d *v1.Disruption, p v1.PathDisruption, s scale, i int) pathLane {
	l := pathLane{
		Title: probe.Title(p.Kind, p.Path),
		Y:     laneHeight*i + 5,
		TextY: laneHeight*i + 16,
		Label: exactly(p.LongestSeconds),
	}
	l.Short = l.Title
	l.Detail = fmt.Sprintf(
		"%s: %s, the longest %s, %s in all",
		l.Title,
		english.Count(len(p.Outages), "outage"),
		exactly(p.LongestSeconds),
		exactly(p.TotalSeconds),
	)
	for _, u := range slices.Concat(d.Unobserved, p.Unobserved) {
		x := s.positionAt(u.From)
		l.Marks = append(l.Marks, pathMark{
			X: percent(
				x,
			),
			W:     percent(max(s.positionAt(u.To)-x, 0.2)),
			Class: "unseen",
			Title: fmt.Sprintf("no sample for %s from %s: %s", duration(u.Seconds), clock(u.From), u.Why),
		})
	}
	for _, o := range p.Outages {
		x := s.positionAt(o.Begin)
		during := ""
		if len(o.Steps) > 0 {
			during = "; during " + strings.Join(o.Steps, ", ")
		}
		l.Marks = append(l.Marks, pathMark{
			X:     percent(min(x, 99.6)),
			W:     percent(max(s.positionAt(o.End)-x, 0.4)),
			Class: "outage",
			Title: fmt.Sprintf(
				"%s was out for %s from %s to %s: %s%s",
				l.Title,
				exactly(o.Seconds),
				clock(o.Begin),
				clock(o.End),
				o.Error,
				during,
			),
		})
	}
	return l
}

// disruption writes the section of the Markdown report.
func (m *md) disruption(r v1.Report) {
	d := r.Disruption
	if d == nil {
		return
	}
	m.line("\n## Disruption")
	m.line("\n%s.", escaped(probe.Summary(*d)))
	m.header("path", ">probes", ">outages", ">longest", ">total", "budget")
	for _, row := range pathRows(d) {
		m.row(row.Title, fmt.Sprint(row.Looks), fmt.Sprint(row.Outages), row.Longest, row.Total, row.Budget)
	}
	if rows := outageRows(r); len(rows) > 0 {
		m.header("out", "from (UTC)", "to (UTC)", ">seconds", ">at least", "first error", "during")
		for _, o := range rows {
			m.row(
				o.Title,
				clock(o.Begin),
				o.Until,
				fmt.Sprintf("%.3f", o.Seconds),
				fmt.Sprintf("%.3f", o.LeastSeconds),
				o.Error,
				strings.Join(o.Steps, ", "),
			)
		}
	}
	if len(d.Unobserved) > 0 {
		m.header("no sample from (UTC)", "to (UTC)", ">seconds", "because")
		for _, u := range d.Unobserved {
			m.row(clock(u.From), clock(u.To), fmt.Sprintf("%.1f", u.Seconds), u.Why)
		}
	}
	if len(d.NotProbed) > 0 {
		m.header("not probed", "because")
		for _, n := range d.NotProbed {
			m.row(probe.Title(n.Kind, n.Path), n.Why)
		}
	}
}
