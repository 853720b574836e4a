package report

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// maxCloseups bounds how many handovers are drawn; the table has them all.
const maxCloseups = 8

// closeup is the drawing of one handover: gaps that belong together, seconds wide where the timeline is minutes.
type closeup struct {
	From, To, Cause, At, Longest string
	Rows                         []closeRow
	Ticks                        []tick
	Moments                      []moment
	RowsTop, Height, AxisY       int
	Summary                      string
}

// closeRow is one loop of a handover.
type closeRow struct {
	Loop, Old, New, Title string
	OldClass, NewClass    string
	// The old owner's bar ends and the new one's begins at these places.
	OldEnd, NewX, NewW, GapX, GapW string
	Label, LabelX                  string
	Y, TextY, LabelY               int
	HasNew                         bool
}

// moment is something that happened during a handover.
type moment struct {
	X, TextX, Text, Title, Anchor string
	Y                             int
}

// cluster is a group of gaps that overlap in time.
type cluster struct {
	gaps       []v1.Gap
	start, end time.Time
	longest    float64
}

func clusters(gaps []v1.Gap) []cluster {
	gaps = slices.Clone(gaps)
	sort.SliceStable(gaps, func(a, b int) bool { return gaps[a].Start.Before(gaps[b].Start) })
	var out []cluster
	for _, g := range gaps {
		if n := len(out); n > 0 && !g.Start.After(out[n-1].end) {
			c := &out[n-1]
			c.gaps, c.longest = append(c.gaps, g), max(c.longest, g.Seconds)
			if g.End.After(c.end) {
				c.end = g.End
			}
			continue
		}
		out = append(out, cluster{
			gaps:    []v1.Gap{g},
			start:   g.Start,
			end:     g.End,
			longest: g.Seconds,
		})
	}
	return out
}

// drawCloseups draws the handovers with the longest gaps, in the order of time.
func drawCloseups(r v1.Report) (drawings []closeup, left int) {
	all := clusters(r.Gaps)
	byLength := slices.Clone(all)
	sort.SliceStable(byLength, func(a, b int) bool { return byLength[a].longest > byLength[b].longest })
	if len(byLength) > maxCloseups {
		byLength = byLength[:maxCloseups]
	}
	sort.SliceStable(byLength, func(a, b int) bool { return byLength[a].start.Before(byLength[b].start) })
	for _, c := range byLength {
		drawings = append(drawings, drawCloseup(r, c))
	}
	return drawings, len(all) - len(byLength)
}

func drawCloseup(r v1.Report, c cluster) closeup {
	pad := max(c.end.Sub(c.start)*35/100, 150*time.Millisecond)
	s := scale{from: c.start.Add(-pad), to: c.end.Add(pad)}
	longest := c.gaps[0]
	for _, g := range c.gaps {
		if g.Seconds > longest.Seconds {
			longest = g
		}
	}
	d := closeup{
		Cause: title(r, longest.Cause), At: clock(c.start), Longest: gapLabel(longest),
		Ticks: s.ticks(c.start, 5),
	}
	var lanes int
	d.Moments, lanes = moments(r, c, s)
	d.RowsTop = lanes*momentHeight + 6
	order := loops(r)
	sort.SliceStable(
		c.gaps,
		func(a, b int) bool { return slices.Index(order, c.gaps[a].Loop) < slices.Index(order, c.gaps[b].Loop) },
	)
	for i, g := range c.gaps {
		d.From, d.To = listed(d.From, short(g.From)), listed(d.To, short(successor(g.To)))
		d.Rows = append(d.Rows, drawCloseRow(g, s, d.RowsTop+i*closeRowHeight))
	}
	d.AxisY = d.RowsTop + len(d.Rows)*closeRowHeight + 4
	d.Height = d.AxisY + 18
	for i := range d.Moments {
		d.Moments[i].Y = 10 + d.Moments[i].Y*momentHeight
	}
	d.Summary = fmt.Sprintf(
		"Close-up of the handover from %s to %s at %s UTC: the longest gap is %s.",
		longest.From,
		successor(longest.To),
		d.At,
		duration(longest.Seconds),
	)
	return d
}

// listed adds a name to a list of different ones.
func listed(list, name string) string {
	switch {
	case list == "":
		return name
	case slices.Contains(strings.Split(list, ", "), name):
		return list
	}
	return list + ", " + name
}

// Heights of a close-up in pixels.
const (
	closeRowHeight = 30
	momentHeight   = 14
)

func drawCloseRow(g v1.Gap, s scale, y int) closeRow {
	start, end := s.positionAt(g.Start), s.positionAt(g.End)
	return closeRow{
		Loop:     g.Loop,
		Old:      short(g.From),
		New:      short(successor(g.To)),
		OldClass: managerClass(g.From),
		NewClass: managerClass(g.To),
		HasNew:   g.To != "",
		OldEnd: percent(
			start,
		),
		GapX:   percent(start),
		GapW:   percent(end - start),
		NewX:   percent(end),
		NewW:   percent(100 - end),
		Label:  gapLabel(g),
		LabelX: percent((start + end) / 2),
		Y:      y,
		TextY:  y + 12,
		LabelY: y + 26,
		Title: fmt.Sprintf(
			"%s: %s until %s, no manager for %s, %s from %s",
			g.Loop,
			g.From,
			clock(g.Start),
			duration(g.Seconds),
			successor(g.To),
			clock(g.End),
		),
	}
}

func managerClass(manager string) string {
	for _, c := range []string{component.KCM, component.CCM} {
		if len(manager) > len(c) && manager[:len(c)+1] == c+"@" {
			return class(c)
		}
	}
	return "other"
}

// title is the title of the step that a cause names, or the cause itself.
func title(r v1.Report, cause string) string {
	for _, s := range r.Steps {
		if s.ID == cause {
			return s.Title
		}
	}
	return cause
}

// moments are what the journal and the log know of a handover. They are laid out on as many lines as there are; it
// returns how many.
func moments(r v1.Report, c cluster, s scale) ([]moment, int) {
	found := happened(r, c, s)
	texts := make([]string, 0, len(found))
	for text := range found {
		texts = append(texts, text)
	}
	sort.Slice(texts, func(a, b int) bool {
		if x, y := found[texts[a]], found[texts[b]]; !x.Equal(y) {
			return x.Before(y)
		}
		return texts[a] < texts[b]
	})
	var out []moment
	for i, text := range texts {
		x := s.positionAt(found[text])
		m := moment{
			X:      percent(x),
			Text:   text,
			Anchor: "start",
			Y:      i,
			Title: fmt.Sprintf(
				"%s at %s, %.3f s after the last look that saw the old owner",
				text,
				clock(found[text]),
				found[text].Sub(c.start).Seconds(),
			),
		}
		if x > 60 {
			m.Anchor = "end"
		}
		out = append(out, m)
	}
	return out, len(out)
}

// happened says when the old process was first seen to have ended, and when its leases were first released. It also
// says when the new owner was first seen to hold one. What lies outside the drawing is left out.
func happened(r v1.Report, c cluster, s scale) map[string]time.Time {
	found := map[string]time.Time{}
	note := func(text string, t *time.Time) {
		if t == nil || t.Before(s.from) || t.After(s.to) {
			return
		}
		if have, ok := found[text]; !ok || t.Before(have) {
			found[text] = *t
		}
	}
	for _, st := range r.Steps {
		for _, h := range st.Handovers {
			note("process gone", h.Ended)
			note("leases released", h.Released)
		}
	}
	for _, t := range r.Tenures {
		if slices.ContainsFunc(c.gaps, func(g v1.Gap) bool { return g.Loop == t.Loop && g.End.Equal(t.From) }) {
			note("lease won", t.LeaseHeld)
		}
	}
	return found
}

// scale places moments on an axis from 0 to 100 %: bars and ticks are placed in per cent. So one drawing fits every
// width while its text keeps its size.
type scale struct{ from, to time.Time }

func (s scale) length() time.Duration { return max(s.to.Sub(s.from), time.Millisecond) }

// positionAt is the place of a moment; moments outside lie at the nearer end.
func (s scale) positionAt(t time.Time) float64 {
	return 100 * min(1, max(0, float64(t.Sub(s.from))/float64(s.length())))
}

// percent writes a place.
func percent(p float64) string { return fmt.Sprintf("%.3f%%", p) }

// tick is a mark of an axis.
type tick struct {
	At, Label, Anchor string
}

// ticks are at most n+1 marks at round times since zero.
func (s scale) ticks(zero time.Time, n int) []tick {
	step := niceStep(s.length().Seconds() / float64(n))
	first := math.Ceil(s.from.Sub(zero).Seconds()/step - 1e-9)
	var out []tick
	for k := first; len(out) <= n; k++ {
		t := zero.Add(time.Duration(k * step * float64(time.Second)))
		if t.After(s.to.Add(time.Microsecond)) {
			break
		}
		at := s.positionAt(t)
		anchor := "middle"
		switch {
		case at < 4:
			anchor = "start"
		case at > 96:
			anchor = "end"
		}
		out = append(out, tick{At: percent(at), Label: tickLabel(k*step, step), Anchor: anchor})
	}
	return out
}

// niceStep is the smallest round number of seconds that is no smaller than the given one.
func niceStep(least float64) float64 {
	for _, s := range []float64{60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400} {
		if least > 30 && s >= least {
			return s
		}
	}
	if least > 86400 {
		return 86400 * math.Ceil(least/86400)
	}
	power := math.Pow(10, math.Floor(math.Log10(max(least, 0.001))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if factor*power >= least-1e-12 {
			return min(factor*power, 60)
		}
	}
	return 10 * power
}

func tickLabel(seconds, step float64) string {
	if math.Abs(seconds) < 1e-9 {
		return "0"
	}
	switch {
	case step >= 3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	case step >= 60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case step >= 1:
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.*f s", int(math.Ceil(-math.Log10(step)-1e-9)), seconds)
}
