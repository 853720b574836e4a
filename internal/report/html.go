package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/probe"
	"github.com/transplant-dev/transplant/internal/report/plain"
)

// duration writes seconds for people.
var duration = plain.Duration

//go:embed page.html.tmpl
var pageText string

//go:embed picture.svg.tmpl
var pictureText string

//go:embed page.css
var pageStyle string

// page is parsed once; a mistake in it fails every test of the package.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clock":          clock,
	"dateTime":       dateTime,
	"endOfWait":      endOfWait,
	"duration":       duration,
	"short":          short,
	"successor":      successor,
	"certainty":      certainty,
	"plural":         english.Count,
	"orNone":         orNone,
	"pathTitle":      probe.Title,
	"because":        findings.AcceptedBecause,
	"withoutHint":    func() string { return withoutHint },
	"objectivesHint": func() string { return objectivesHint },
	"pauseHint":      func() string { return pauseHint },
	"spaced":         func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "-", " ") },
}).Parse(pageText + pictureText))

// view is what the page shows.
type view struct {
	v1.Report
	Style     template.CSS
	Name      string
	Headline  string
	Tone      string
	Glyph     string
	Summary   string
	When      string
	Figures   []figure
	Timeline  timeline
	Closeups  []closeup
	LeftOut   int
	GapRows   []gapRow
	PauseRows []gapRow
	Phases    []phaseRows
	Counts    []countRow
	Probed    *disruptionView
	Judged    []objectiveRow
	Expected  []v1.Difference
	Accepted  []v1.Difference
	Surprises []v1.Difference
}

// figure is one of the key figures.
type figure struct {
	Value, Name, Detail, Tone string
	// Words reports whether the value is words, which take more room than a number.
	Words bool
}

// gapRow is a line of the table of gaps.
type gapRow struct {
	v1.Gap
	Title, Width, Length, Lease, LeaseWidth string
}

// phaseRows are the steps of one phase.
type phaseRows struct {
	Phase, Length string
	Steps         []stepRow
}

// stepRow is a line of the table of steps.
type stepRow struct {
	v1.StepReport
	Start, Length, X, Width, Tone string
	Releases                      []string
}

// countRow is a line of the table of the inventory.
type countRow struct {
	What          string
	Before, After string
	Detail, Tone  string
}

// objectiveRow is a line of the table of objectives.
type objectiveRow struct {
	Series, Window, Count, Slow, Densest, Words, Tone string
}

// objectiveRows are the lines of the table of objectives, by series.
func objectiveRows(o *v1.Objectives) []objectiveRow {
	if o == nil {
		return nil
	}
	var out []objectiveRow
	for _, w := range o.Windows {
		for _, s := range w.Series {
			row := objectiveRow{
				Series:  s.Name,
				Window:  w.Name,
				Count:   fmt.Sprint(s.Count),
				Slow:    fmt.Sprint(s.Slow),
				Densest: "–",
			}
			if s.Name == objectives.SeriesErrors {
				row.Slow, row.Densest = "–", fmt.Sprintf("%.3g", s.MostIn15Minutes)
			}
			switch {
			case s.Breach != "":
				row.Words, row.Tone = "breached: "+s.Breach, toneBad
			case s.Count > 0 || s.Name == objectives.SeriesErrors:
				row.Words, row.Tone = "kept", toneGood
			default:
				row.Words = "nothing to judge"
			}
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b objectiveRow) int { return strings.Compare(a.Series, b.Series) })
	return out
}

// Tones of a result or figure; each has a glyph and a colour.
const (
	toneGood = "good"
	toneWarn = "warn"
	toneBad  = "bad"
)

func toneOf(result string) (tone, glyph string) {
	switch result {
	case v1.ResultOK:
		return toneGood, "✓"
	case v1.ResultUnknown:
		return toneWarn, "?"
	case v1.ResultUnfinished, v1.ResultRolledBack:
		return toneWarn, "!"
	}
	return toneBad, "✗"
}

func writeHTML(w io.Writer, r v1.Report) error { return execute(w, "page", viewOf(r)) }

// viewOf is what the page, and the picture of it, show of a report.
func viewOf(r v1.Report) view {
	v := view{
		Report:   r,
		Style:    template.CSS(pageStyle),
		Name:     clusterName(r.Cluster),
		Headline: headline(r.Result),
	}
	v.Tone, v.Glyph = toneOf(r.Result)
	if r.Result == v1.ResultOK {
		v.Summary = summary(r)
	}
	v.When = fmt.Sprintf(
		"%s to %s UTC",
		r.Started.UTC().Format("2 January 2006, 15:04:05"),
		r.Ended.UTC().Format(time.TimeOnly),
	)
	v.Figures = figures(r)
	v.Timeline = drawTimeline(r)
	v.Closeups, v.LeftOut = drawCloseups(r)
	v.GapRows, v.PauseRows = gapRows(r, r.Gaps), gapRows(r, r.Pauses)
	v.Phases = stepTable(r)
	v.Counts = countRows(r.Inventory)
	v.Probed = viewDisruption(r)
	v.Judged = objectiveRows(r.Objectives)
	for _, d := range r.Inventory.Differences {
		switch {
		case d.Expected:
			v.Expected = append(v.Expected, d)
		case d.Accepted != "":
			v.Accepted = append(v.Accepted, d)
		default:
			v.Surprises = append(v.Surprises, d)
		}
	}
	return v
}

// execute executes a template of the page. A failure leaves nothing that is written in part.
func execute(w io.Writer, name string, v any) error {
	var out bytes.Buffer
	if err := page.ExecuteTemplate(&out, name, v); err != nil {
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}

// Names of figures, which the page and the Markdown share.
const (
	figureDowntime = "clients' downtime"
	figureGap      = "longest time without a manager"
)

const notMeasured = "not measured"

// downtime is the first number: for how long clients were out, by the probes.
func downtime(r v1.Report) string {
	c := plain.Noticed(r.Disruption)
	switch {
	case !c.Measured():
		return notMeasured
	case c.Open():
		return "≥ " + plain.Outage(c.Seconds)
	}
	return plain.Outage(c.Seconds)
}

func downtimeFigure(r v1.Report) figure {
	f, c := figure{Value: downtime(r), Name: figureDowntime}, plain.Noticed(r.Disruption)
	if !c.Measured() {
		f.Tone, f.Words, f.Detail = toneWarn, true, "no probe ran: apply --probe measures it"
		return f
	}
	_, f.Tone = budgetCell(r.Disruption, r.Disruption.Result)
	f.Detail = "no outage of " + english.Count(c.ServicePaths+c.APIPaths, "path")
	if c.Seconds > 0 {
		f.Detail = "longest outage: " + c.Where
		if c.ServicePaths > 0 && c.Services < c.Seconds {
			f.Detail += fmt.Sprintf("; Services: %s", plain.Outage(c.Services))
		}
	}
	if c.ServicePaths == 0 {
		f.Detail += "; no Service was probed"
	}
	return f
}

func figures(r v1.Report) []figure {
	inv := r.Inventory
	gap := figure{
		Value:  plain.GapLength(r),
		Name:   figureGap,
		Detail: english.Count(len(r.Gaps), "gap") + " in all, " + english.Count(len(clusters(r.Gaps)), "handover"),
	}
	if gap.Value == "unknown" {
		gap.Tone, gap.Detail = toneWarn, "there is no ownership log"
	}
	for _, g := range r.Gaps {
		if g.To == "" {
			gap.Tone, gap.Detail = toneBad, g.Loop+" has no owner"
		}
	}
	writes := figure{
		Value:  formatCount(r.Handover.OverlappingWrites),
		Name:   "overlapping writes",
		Detail: "by the cloud's audit log",
	}
	switch {
	case r.Handover.OverlappingWrites == nil && len(r.Overlaps) == 0:
		writes.Value, writes.Tone, writes.Detail = "–", toneWarn, "not counted: no audit log"
	case r.Handover.OverlappingWrites == nil:
		writes.Value, writes.Tone, writes.Detail = "–", toneBad, english.Count(len(r.Overlaps), "overlap")+" by gauges"
	case *r.Handover.OverlappingWrites > 0 || len(r.Overlaps) > 0:
		writes.Tone, writes.Detail = toneBad, english.Count(len(r.Overlaps), "overlap")
	default:
		writes.Tone = toneGood
		if n := *r.Handover.LateEffects; n > 0 {
			writes.Detail = english.Count(n, "call") + " took effect late"
		}
	}
	balancers := figure{
		Value: known(
			inv.Known,
			inv.LoadBalancers.Recreated,
		),
		Name: "load balancers recreated",
		Tone: good(inv.Known, inv.LoadBalancers.Recreated+inv.LoadBalancers.AddressChanged),
		Detail: fmt.Sprintf(
			"%d before, %d after, %s changed",
			inv.LoadBalancers.Before,
			inv.LoadBalancers.After,
			english.Count(inv.LoadBalancers.AddressChanged, "address"),
		),
	}
	nodes := figure{
		Value: known(
			inv.Known,
			surprising(inv, "Node/"),
		),
		Name:   "nodes changed",
		Tone:   good(inv.Known, surprising(inv, "Node/")),
		Detail: fmt.Sprintf("%d before, %d after", inv.Nodes.Before, inv.Nodes.After),
	}
	return []figure{downtimeFigure(r), gap, writes, balancers, nodes, lengthFigure(r)}
}

// lengthFigure is how long a run took, and how much of it is done.
func lengthFigure(r v1.Report) figure {
	done := 0
	for _, s := range r.Steps {
		if s.Result != v1.StepResultPending && s.Result != v1.StepResultFailed && s.Result != v1.StepResultStarted &&
			s.Result != v1.StepResultInterrupted {
			done++
		}
	}
	length := figure{
		Value:  duration(r.DurationSeconds - r.IdleSeconds),
		Name:   "duration",
		Detail: fmt.Sprintf("%d of %s done", done, english.Count(len(r.Steps), "step")),
	}
	if r.IdleSeconds >= 1 {
		length.Detail += fmt.Sprintf(", and %s paused or stopped", duration(r.IdleSeconds))
	}
	return length
}

func good(known bool, n int) string {
	switch {
	case !known:
		return toneWarn
	case n > 0:
		return toneBad
	}
	return toneGood
}

func gapRows(r v1.Report, gaps []v1.Gap) []gapRow {
	longest := 0.0
	for _, g := range gaps {
		longest = max(longest, g.Seconds)
	}
	var out []gapRow
	for _, g := range gaps {
		row := gapRow{
			Gap:    g,
			Title:  title(r, g.Cause),
			Length: gapLabel(g),
			Lease:  "–",
		}
		if longest > 0 {
			row.Width = percent(100 * g.Seconds / longest)
			if g.LeaseSeconds != nil {
				row.Lease, row.LeaseWidth = duration(*g.LeaseSeconds), percent(100**g.LeaseSeconds/longest)
			}
		}
		out = append(out, row)
	}
	return out
}

// stepTable groups the steps by phase, in the order in which they ran, and draws each as a bar on the run's own axis.
func stepTable(r v1.Report) []phaseRows {
	s := scale{from: r.Started, to: r.Ended}
	var out []phaseRows
	lengths := []float64{}
	for _, st := range inOrder(r.Steps) {
		if n := len(out); n == 0 || out[n-1].Phase != st.Phase {
			out, lengths = append(out, phaseRows{Phase: st.Phase}), append(lengths, 0)
		}
		row := stepRow{StepReport: st, Tone: stepTone(st.Result)}
		if st.Started != nil {
			x := s.positionAt(*st.Started)
			end := s.positionAt(st.Started.Add(time.Duration(st.DurationSeconds * float64(time.Second))))
			row.Start, row.Length = "+"+duration(st.Started.Sub(r.Started).Seconds()), duration(st.DurationSeconds)
			row.X, row.Width = percent(min(x, 99.5)), percent(max(end-x, 0.5))
		}
		for _, h := range st.Handovers {
			row.Releases = append(row.Releases, release(h))
		}
		last := len(out) - 1
		out[last].Steps = append(out[last].Steps, row)
		lengths[last] += st.DurationSeconds
		out[last].Length = duration(lengths[last])
	}
	return out
}

// inOrder are the steps of each phase by when they started: the owner's host comes last, wherever ownership has gone
// since the plan was made. Those that did not start come after those that did.
func inOrder(steps []v1.StepReport) []v1.StepReport {
	out := slices.Clone(steps)
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && out[to].Phase == out[from].Phase {
			to++
		}
		slices.SortStableFunc(out[from:to], func(a, b v1.StepReport) int {
			switch {
			case a.Started != nil && b.Started != nil:
				return a.Started.Compare(*b.Started)
			case a.Started != nil:
				return -1
			case b.Started != nil:
				return 1
			}
			return 0
		})
		from = to
	}
	return out
}

func stepTone(result v1.StepResult) string {
	switch result {
	case v1.StepResultFailed:
		return toneBad
	case v1.StepResultStarted, v1.StepResultInterrupted, v1.StepResultPending:
		return toneWarn
	default:
		return toneGood
	}
}

// release says what became of a lease when its holder had ended.
func release(h v1.HandoverRecord) string {
	who := fmt.Sprintf("%s@%s (pid %d)", h.Component, h.Host, h.PID)
	if h.Released == nil {
		return fmt.Sprintf("lease %s of %s left to expire: %s", h.Lease, who, orNone(h.Note))
	}
	s := fmt.Sprintf("lease %s released for %s", h.Lease, who)
	if h.Ended != nil {
		s += fmt.Sprintf(", %.3f s after its process was seen to have ended", h.Released.Sub(*h.Ended).Seconds())
	}
	return s
}

// countRowOf is the line of a part whose absence is among the unknown ones.
func countRowOf(inv v1.InventoryReport, what string, d v1.CountDiff, part, objects string) countRow {
	for _, u := range inv.Unknown {
		if strings.HasPrefix(u, part) {
			return countRow{what, "?", "?", "unknown: " + u, toneWarn}
		}
	}
	n := surprising(inv, objects)
	return countRow{
		what,
		fmt.Sprint(d.Before),
		fmt.Sprint(d.After),
		fmt.Sprintf("%d lost or changed", n),
		good(inv.Known || n > 0, n),
	}
}

func countRows(inv v1.InventoryReport) []countRow {
	n := func(i int) string { return fmt.Sprint(i) }
	lb := inv.LoadBalancers
	return []countRow{
		{
			"load balancers",
			n(lb.Before),
			n(lb.After),
			fmt.Sprintf("%d recreated, %s changed", lb.Recreated, english.Count(lb.AddressChanged, "address")),
			good(inv.Known, lb.Recreated+lb.AddressChanged+lb.Before-min(lb.Before, lb.After)),
		},
		{
			"routes",
			n(inv.Routes.Before),
			n(inv.Routes.After),
			fmt.Sprintf("%d lost or changed", surprising(inv, "Route/")),
			good(inv.Known, surprising(inv, "Route/")),
		},
		{
			"nodes",
			n(inv.Nodes.Before),
			n(inv.Nodes.After),
			fmt.Sprintf(
				"%d recreated, %s changed",
				inv.Nodes.Recreated,
				english.Count(inv.Nodes.ChangedProviderID, "providerID"),
			),
			good(inv.Known, surprising(inv, "Node/")),
		},
		countRowOf(inv, "Services with ready endpoints", inv.Serving, "endpointslices", "Service/"),
		countRowOf(inv, "persistent volumes", inv.Volumes, "persistentvolume", "PersistentVolume"),
		countRowOf(inv, "attached volumes", inv.Attachments, "volumeattachments", "VolumeAttachment/"),
		countRowOf(inv, "CSI drivers on nodes", inv.Drivers, "csinodes", "CSINode/"),
	}
}
