package view

import (
	"fmt"
	"math"
	"slices"
	"time"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
)

// Span is a part of a migration: a bar of the picture. To is zero while it goes on.
type Span struct {
	Name     string
	From, To time.Time
	State    string
}

// States of a span. One that does not go on by itself has the state of its run: paused, stalled or stopped.
const (
	SpanDone     = "done"
	SpanUnderWay = "under way"
	SpanFailed   = "failed"
	SpanBack     = "taken back"
)

// Picture is the timeline of a cluster as a drawing. Places on its axis are in per cent, so that it fits every width;
// heights are pixels. The page chooses the colours.
type Picture struct {
	// Title and Summary say in words what is drawn.
	Title   string        `json:"title"`
	Summary string        `json:"summary"`
	Height  int           `json:"height"`
	AxisY   int           `json:"axisY"`
	Bars    []PictureBar  `json:"bars,omitempty"`
	Marks   []PictureMark `json:"marks,omitempty"`
	// MarksY is the middle of the lane of marks; 0 without any.
	MarksY int           `json:"marksY,omitempty"`
	Ticks  []PictureTick `json:"ticks"`
}

// PictureBar is a span, under a line of text.
type PictureBar struct {
	Text  string  `json:"text"`
	State string  `json:"state"`
	X     float64 `json:"x"`
	Width float64 `json:"width"`
	TextY int     `json:"textY"`
	Y     int     `json:"y"`
}

// PictureMark is an entry of the timeline. Its level is a shape: a circle, a triangle or a cross.
type PictureMark struct {
	Level string  `json:"level"`
	X     float64 `json:"x"`
	Title string  `json:"title"`
}

// PictureTick is a mark of the axis.
type PictureTick struct {
	Label  string  `json:"label"`
	Anchor string  `json:"anchor"`
	X      float64 `json:"x"`
}

// Heights of the picture in pixels.
const (
	spanHeight = 38
	spanText   = 12
	spanTop    = 18
	markHeight = 44
	axisHeight = 22
)

// MachinesSpan is the time in which a cluster's machines are replaced: from the moment when a cloud-controller-manager
// ran every loop. False where that moment is not known.
func MachinesSpan(row v1.FleetCluster) (Span, bool) {
	var ready, machines v1.FleetCondition
	for _, c := range row.Conditions {
		switch c.Type {
		case string(kubermaticv1.ConditionCCMReady):
			ready = c
		case string(kubermaticv1.ConditionMachines):
			machines = c
		}
	}
	if ready.Status != "True" || ready.Since.IsZero() || machines.Status == "" {
		return Span{}, false
	}
	s := Span{Name: "Machines", From: ready.Since, State: SpanUnderWay}
	if machines.Status == "True" && machines.Since.After(ready.Since) {
		s.To, s.State = machines.Since, SpanDone
	}
	return s, true
}

// Draw draws spans as bars, one below the other, and entries as marks below them; nil where there is nothing.
func Draw(spans []Span, entries []v1.TimelineEntry, now time.Time) *Picture {
	spans = slices.DeleteFunc(slices.Clone(spans), func(s Span) bool {
		return isStrange(s.From, now) || !s.To.IsZero() && isStrange(s.To, now)
	})
	entries = slices.DeleteFunc(slices.Clone(entries), func(e v1.TimelineEntry) bool { return isStrange(e.Time, now) })
	if len(spans)+len(entries) == 0 {
		return nil
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return a.From.Compare(b.From) })
	axis := axisOf(spans, entries, now)
	p := &Picture{Ticks: axis.ticks()}
	for i, s := range spans {
		end := s.To
		if end.IsZero() {
			end = axis.to
		}
		x := axis.percentAt(s.From)
		p.Bars = append(p.Bars, PictureBar{
			Text: spanWords(s, end), State: s.State, X: x, Width: places(max(0.6, axis.percentAt(end)-x)),
			TextY: spanHeight*i + spanText, Y: spanHeight*i + spanTop,
		})
	}
	p.AxisY = spanHeight * len(spans)
	if len(entries) > 0 {
		p.MarksY = p.AxisY + markHeight/2
		p.AxisY += markHeight
	}
	warnings := 0
	for _, e := range entries {
		if e.Level != "info" {
			warnings++
		}
		p.Marks = append(p.Marks, PictureMark{
			Level: e.Level, X: axis.percentAt(e.Time),
			Title: fmt.Sprintf("%s %s: %s", e.Time.UTC().Format(time.DateTime), e.Object, e.Message),
		})
	}
	p.Height = p.AxisY + axisHeight
	p.Title = "Timeline of the migration"
	p.Summary = fmt.Sprintf("From %s to %s UTC. ", axis.from.UTC().Format(time.DateTime), axis.to.UTC().Format(time.DateTime))
	for _, b := range p.Bars {
		p.Summary += b.Text + ". "
	}
	p.Summary += fmt.Sprintf("%s, of which %d %s a warning or an error. The table below has the same facts.",
		english.Count(len(entries), "event"), warnings, english.Word(warnings, "is", "are"))
	return p
}

func spanWords(s Span, end time.Time) string {
	length := max(0, end.Sub(s.From)).Round(time.Second)
	switch s.State {
	case SpanDone:
		return fmt.Sprintf("%s: done in %s", s.Name, length)
	case SpanBack:
		return fmt.Sprintf("%s: taken back within %s", s.Name, length)
	}
	return fmt.Sprintf("%s: %s for %s", s.Name, s.State, length)
}

// axis is the time that is drawn.
type axis struct{ from, to time.Time }

func axisOf(spans []Span, entries []v1.TimelineEntry, now time.Time) axis {
	var a axis
	include := func(t time.Time) {
		if t.IsZero() {
			return
		}
		if a.from.IsZero() || t.Before(a.from) {
			a.from = t
		}
		if t.After(a.to) {
			a.to = t
		}
	}
	for _, s := range spans {
		include(s.From)
		include(s.To)
		if s.To.IsZero() {
			include(now)
		}
	}
	for _, e := range entries {
		include(e.Time)
	}
	return a
}

// percentAt is the place of a moment in per cent.
func (a axis) percentAt(t time.Time) float64 {
	length := max(a.to.Sub(a.from), time.Second)
	return places(100 * min(1, max(0, float64(t.Sub(a.from))/float64(length))))
}

// isStrange reports whether no migration has a time. Others write the times of journals and events. One of the year
// 9999 would leave nothing of the rest to be seen.
func isStrange(t, now time.Time) bool {
	return t.IsZero() || now.Sub(t).Abs() > maxAge
}

// maxAge is how far from now a time may be that is drawn.
const maxAge = 10 * 365 * 24 * time.Hour

// places rounds to what a browser can show.
func places(x float64) float64 { return math.Round(100*x) / 100 }

// ticks are at most five marks at round times since the beginning.
func (a axis) ticks() []PictureTick {
	length := max(a.to.Sub(a.from), time.Second)
	step := 24 * time.Hour
	for _, s := range []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
		3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if length/s <= 4 {
			step = s
			break
		}
	}
	for length/step > 4 {
		step *= 2
	}
	var out []PictureTick
	for i := range length/step + 1 { // a sum of steps would overflow behind the last one
		at := i * step
		tick := PictureTick{X: a.percentAt(a.from.Add(at)), Anchor: "middle", Label: tickLabel(at, step)}
		switch {
		case at == 0:
			tick.Anchor, tick.Label = "start", a.from.UTC().Format("2 Jan 15:04:05")
		case tick.X > 94:
			tick.Anchor = "end"
		}
		out = append(out, tick)
	}
	return out
}

func tickLabel(at, step time.Duration) string {
	switch {
	case step >= 24*time.Hour:
		return fmt.Sprintf("+%.0f d", at.Hours()/24)
	case step >= time.Hour:
		return fmt.Sprintf("+%.0f h", at.Hours())
	case step >= time.Minute:
		return fmt.Sprintf("+%.0f min", at.Minutes())
	}
	return fmt.Sprintf("+%.0f s", at.Seconds())
}
