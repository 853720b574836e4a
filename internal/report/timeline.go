package report

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
)

// Heights of the drawing in pixels.
const (
	headHeight = 20 // of the strip above a loop's rows, where gaps are labelled
	gapTop     = 18
	rowHeight  = 22
	barHeight  = 14
)

// timeline is the drawing of who ran what during the whole run.
type timeline struct {
	Lanes  []loopBand
	Ticks  []tick
	Phases []band
	Marks  []mark
	// Summary describes the drawing in words.
	Summary string
}

// loopBand is one loop.
type loopBand struct {
	Loop   string
	Height int
	Rows   []row
	Gaps   []gapMark
	Title  string
}

// row is one manager in a lane.
type row struct {
	Short, Name, Class string
	Y                  int
	Bars               []bar
}

// bar is a tenure.
type bar struct {
	X, W, Class, Title string
	Y                  int
	Certain            bool
}

// gapMark is a gap, or an overlap.
type gapMark struct {
	X, W, LabelX, Label, Anchor, Title string
	// Class is gap, overlap, or pause: the own start of a manager that keeps the loop.
	Class          string
	Height, Bottom int
}

// pauseHint explains the gaps that are drawn in grey.
const pauseHint = "These loops stay in kube-controller-manager; its process was restarted. What they last is that manager's own start: " +
	"v1.26 sleeps for 10 s before it first lists nodes for node IPAM, at every start, with or without a migration. " +
	"Meanwhile a new node waits for its pod CIDR."

// band is a phase, mark a step.
type band struct {
	X, W, Name, Title string
	// Wide reports whether the name fits into the band, Tight that it does not on a narrow screen.
	Odd, Wide, Tight bool
}

type mark struct {
	X, Title string
	Failed   bool
}

// drawn is the time that the drawing shows: the run, and what is known of owners right before and after.
func drawn(r v1.Report) scale {
	s := scale{from: r.Started, to: r.Ended}
	include := func(t time.Time) {
		if t.IsZero() {
			return
		}
		if s.from.IsZero() || t.Before(s.from) {
			s.from = t
		}
		if t.After(s.to) {
			s.to = t
		}
	}
	for _, g := range allGaps(r) {
		include(g.Start)
		include(g.End)
	}
	for _, t := range r.Tenures {
		include(t.From)
		if t.To != nil {
			include(*t.To)
		}
	}
	return s
}

func drawTimeline(r v1.Report) timeline {
	s := drawn(r)
	t := timeline{Ticks: s.ticks(s.from, 6)}
	for _, loop := range loops(r) {
		t.Lanes = append(t.Lanes, drawLane(r, s, loop))
	}
	t.Phases, t.Marks = drawSteps(r, s)
	t.Summary = fmt.Sprintf(
		"Timeline of %s, starting at %s UTC: which manager ran which of %s, with %s and %s.",
		duration(
			s.length().Seconds(),
		),
		clock(s.from),
		english.Count(len(t.Lanes), "loop"),
		english.Count(len(r.Gaps), "gap"),
		english.Count(len(r.Overlaps), "overlap"),
	)
	return t
}

// loops in the order in which they are reported.
func loops(r v1.Report) []string {
	var out []string
	seen := map[string]bool{}
	for _, t := range r.Tenures {
		if !seen[t.Loop] {
			seen[t.Loop] = true
			out = append(out, t.Loop)
		}
	}
	return out
}

func drawLane(r v1.Report, s scale, loop string) loopBand {
	l := loopBand{Loop: loop}
	rows := map[string]int{}
	var tenures []v1.Tenure
	for _, t := range r.Tenures {
		if t.Loop == loop {
			tenures = append(tenures, t)
		}
	}
	sort.SliceStable(tenures, func(a, b int) bool { return tenures[a].From.Before(tenures[b].From) })
	for _, t := range tenures {
		name := t.Component + "@" + t.Host
		if _, ok := rows[name]; !ok {
			rows[name] = len(l.Rows)
			l.Rows = append(
				l.Rows,
				row{
					Name:  name,
					Short: short(name),
					Class: class(t.Component),
					Y:     headHeight + len(l.Rows)*rowHeight,
				},
			)
		}
		at := &l.Rows[rows[name]]
		at.Bars = append(at.Bars, drawBar(t, s, at.Y+(rowHeight-barHeight)/2))
	}
	l.Height = headHeight + len(l.Rows)*rowHeight + 4
	l.Gaps = drawGaps(r, s, loop, l.Height)
	l.Title = fmt.Sprintf(
		"%s: %s, %s",
		loop,
		english.Count(len(tenures), "tenure"),
		english.Count(len(l.Gaps), "gap or overlap"),
	)
	return l
}

func class(name string) string {
	switch name {
	case component.KCM:
		return "kcm"
	case component.CCM:
		return "ccm"
	}
	return "other"
}

func drawBar(t v1.Tenure, s scale, y int) bar {
	from, to := t.From, s.to
	if t.Earlier {
		from = s.from
	}
	end := "runs it still"
	if t.To != nil {
		to = *t.To
		end = "to " + clock(to) + " (" + t.End + ")"
	}
	begin := "from " + clock(t.From)
	if t.Earlier {
		begin = "since before " + clock(t.From)
	}
	title := fmt.Sprintf("%s: %s@%s (pid %d) %s %s", t.Loop, t.Component, t.Host, t.PID, begin, end)
	if !t.Certain {
		title += "; a look was missing at one end"
	}
	x, w := s.positionAt(from), s.positionAt(to)-s.positionAt(from)
	return bar{
		X:       percent(x),
		W:       percent(max(w, 0.15)),
		Y:       y,
		Class:   class(t.Component),
		Title:   title,
		Certain: t.Certain,
	}
}

// drawGaps marks gaps and overlaps; the largest are labelled first, and labels that would run into each other are left
// to the table.
func drawGaps(r v1.Report, s scale, loop string, height int) []gapMark {
	var out []gapMark
	var places []float64
	var lengths []float64
	add := func(m gapMark, start, end time.Time, weight float64) {
		x := s.positionAt(start)
		least := 0.1
		if m.Class == "overlap" {
			least = 0.3
		}
		m.X, m.W, m.Height, m.Bottom = percent(x), percent(max(s.positionAt(end)-x, least)), height-gapTop, height
		out = append(out, m)
		places, lengths = append(places, (x+s.positionAt(end))/2), append(lengths, weight)
	}
	for _, g := range r.Gaps {
		if g.Loop == loop {
			add(gapMark{Class: "gap", Label: gapLabel(g), Title: gapTitle(g)}, g.Start, g.End, g.Seconds)
		}
	}
	for _, g := range r.Pauses {
		if g.Loop == loop {
			title := gapTitle(g) + "; the loop stays where it is: this is its manager's own start"
			add(gapMark{Class: "pause", Label: gapLabel(g), Title: title}, g.Start, g.End, g.Seconds)
		}
	}
	for _, o := range r.Overlaps {
		if o.Loop != loop {
			continue
		}
		title := fmt.Sprintf(
			"%s: %s and %s both ran it from %s to %s; evidence: %s",
			loop,
			o.Old,
			o.New,
			clock(o.Start),
			clock(o.End),
			o.Evidence,
		)
		add(gapMark{Class: "overlap", Label: "overlap", Title: title}, o.Start, o.End, 1e9)
	}
	byLength := make([]int, len(out))
	for i := range byLength {
		byLength[i] = i
	}
	sort.SliceStable(byLength, func(a, b int) bool { return lengths[byLength[a]] > lengths[byLength[b]] })
	var taken []float64
	for _, i := range byLength {
		label(&out[i], places[i], &taken)
	}
	return out
}

func gapTitle(g v1.Gap) string {
	return fmt.Sprintf(
		"%s: no manager for %s, from %s (%s) to %s; cause: %s; %s",
		g.Loop,
		duration(g.Seconds),
		g.From,
		clock(g.Start),
		successor(g.To),
		g.Cause,
		certainty(g.Certain),
	)
}

// label places the label of a mark, or drops it where another one is.
func label(g *gapMark, x float64, taken *[]float64) {
	const apart = 15 // per cent: what a label takes on a narrow screen
	for _, t := range *taken {
		if t-apart < x && x < t+apart {
			g.Label = ""
			return
		}
	}
	*taken = append(*taken, x)
	g.LabelX, g.Anchor = percent(x), "middle"
	switch {
	case x < 8:
		g.Anchor = "start"
	case x > 92:
		g.Anchor = "end"
	}
}

func gapLabel(g v1.Gap) string {
	if g.Certain {
		return duration(g.Seconds)
	}
	return "≤ " + duration(g.Seconds)
}

// Sizes of the picture in pixels: the timeline by itself, for a page that shows no HTML.
const (
	pictureTop    = 104
	pictureSteps  = 62
	pictureMargin = 12
	laneGap       = 8
)

// picture is what the picture shows.
type picture struct {
	view
	Lanes          []placedLane
	StepsY, Height int
	Line           string
}

// placedLane is a lane with its place in the picture.
type placedLane struct {
	loopBand
	Top int
}

// writePicture writes the timeline as an SVG image. It says the most important numbers in its first lines.
func writePicture(w io.Writer, r v1.Report) error {
	p := picture{view: viewOf(r)}
	var line []string
	for _, f := range p.Figures[:3] {
		line = append(line, f.Name+": "+f.Value)
	}
	p.Line = strings.Join(line, " · ")
	y := pictureTop
	for _, l := range p.Timeline.Lanes {
		p.Lanes = append(p.Lanes, placedLane{l, y})
		y += l.Height + laneGap
	}
	p.StepsY = y
	p.Height = y + pictureSteps + pictureMargin
	var b bytes.Buffer
	if err := execute(&b, "picture", p); err != nil {
		return err
	}
	_, err := w.Write(bytes.Map(xmlCharacter, b.Bytes()))
	return err
}

// xmlCharacter drops what no XML document may hold, not even escaped.
func xmlCharacter(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' || r == '\uFFFE' || r == '\uFFFF' {
		return -1
	}
	return r
}

// drawSteps draws phases as bands and steps as marks.
func drawSteps(r v1.Report, s scale) ([]band, []mark) {
	type phase struct {
		name     string
		from, to time.Time
		steps    int
	}
	var phases []phase
	var marks []mark
	for _, st := range r.Steps {
		if st.Started == nil {
			continue
		}
		end := st.Started.Add(time.Duration(st.DurationSeconds * float64(time.Second)))
		marks = append(marks, mark{
			X: percent(s.positionAt(*st.Started)), Failed: st.Result == v1.StepResultFailed,
			Title: fmt.Sprintf("%s: %s at %s, %s", st.Title, st.Result, clock(*st.Started), duration(st.DurationSeconds)),
		})
		if n := len(phases); n == 0 || phases[n-1].name != st.Phase {
			phases = append(phases, phase{name: st.Phase, from: *st.Started, to: end})
		}
		last := &phases[len(phases)-1]
		last.steps++
		if st.Started.Before(last.from) { // the owner's host comes last, wherever ownership has gone since the plan was made
			last.from = *st.Started
		}
		if end.After(last.to) {
			last.to = end
		}
	}
	var bands []band
	for i, p := range phases {
		x, w := s.positionAt(p.from), s.positionAt(p.to)-s.positionAt(p.from)
		bands = append(bands, band{
			X: percent(
				x,
			),
			W:     percent(max(w, 0.2)),
			Name:  p.name,
			Odd:   i%2 == 1,
			Wide:  w > 0.8*float64(len(p.name)),
			Tight: w < 3.2*float64(len(p.name)),
			Title: fmt.Sprintf(
				"phase %s: %s, %s from %s",
				p.name,
				english.Count(p.steps, "step"),
				duration(p.to.Sub(p.from).Seconds()),
				clock(p.from),
			),
		})
	}
	return bands, marks
}
