package observe

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// The types of panels in a dashboard's file.
const (
	typeRow      = "row"
	typeNumber   = "stat"
	typeTimeline = "state-timeline"
)

// The measures of a picture, in pixels.
const (
	cell   = 52 // the width of one of the 24 columns
	line   = 30 // the height of one line of the grid
	header = 56
	gap    = 8
	text   = 15 // between two lines of text
)

var colours = []string{"#0b6bcb", "#c2410c", "#15803d", "#7c3aed", "#b45309", "#0e7490", "#be123c", "#4d7c0f"}

// canvas is a picture that is being drawn.
type canvas struct {
	bytes.Buffer
	span Span
}

// picture draws a dashboard as SVG.
func picture(d *Dashboard, s Span, answers []Answer) []byte {
	bottom := 0
	for _, p := range d.Panels {
		bottom = max(bottom, p.GridPos.Y+p.GridPos.H)
	}
	width, height := 24*cell+2*gap, header+bottom*line+gap
	c := &canvas{span: s}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d"`,
		width, height)
	c.WriteString(` font-family="Helvetica, Arial, sans-serif" font-size="11">` + "\n")
	fmt.Fprintf(c, `<rect width="%d" height="%d" fill="#f4f5f7"/>`+"\n", width, height)
	c.write(gap, 22, `font-size="16" font-weight="bold"`, d.Title)
	c.write(gap, 42, `fill="#555b64"`, fmt.Sprintf(
		"%s to %s. Drawn from the answers of Prometheus by lab/observe, not by Grafana.",
		s.From.UTC().Format("2006-01-02 15:04:05"), s.To.UTC().Format("15:04:05 MST")))
	for _, p := range d.Panels {
		var of []Answer
		for _, a := range answers {
			for _, t := range p.Targets {
				if a.Panel == p.Title && a.target == t {
					of = append(of, a)
				}
			}
		}
		c.panel(p, of)
	}
	c.WriteString("</svg>\n")
	return c.Bytes()
}

func (c *canvas) write(x, y int, attributes, content string) {
	fmt.Fprintf(c, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(content))
}

// box is where a panel draws.
type box struct{ x, y, w, h int }

func (c *canvas) panel(p Panel, answers []Answer) {
	b := box{gap + p.GridPos.X*cell, header + p.GridPos.Y*line, p.GridPos.W*cell - gap, p.GridPos.H*line - gap}
	if p.Type == typeRow {
		c.write(b.x, b.y+line-gap, `font-size="13" font-weight="bold"`, p.Title)
		return
	}
	fmt.Fprintf(c, `<rect x="%d" y="%d" width="%d" height="%d" rx="3" fill="#ffffff" stroke="#dcdfe4"/>`+"\n",
		b.x, b.y, b.w, b.h)
	c.write(b.x+8, b.y+18, `font-weight="bold"`, p.Title)
	inner := box{b.x + 8, b.y + 26, b.w - 16, b.h - 34}
	lines := seriesOf(answers)
	if len(lines) == 0 {
		c.write(inner.x, inner.y+20, `fill="#8a9099"`, "no data")
		return
	}
	switch p.Type {
	case typeNumber:
		c.numbers(inner, p.FieldConfig.Defaults.Unit, lines)
	case typeTimeline:
		c.states(inner, lines)
	default:
		c.graph(inner, p.FieldConfig.Defaults.Unit, lines)
	}
}

// named is a series with the name that a reader sees.
type named struct {
	name   string
	values []model.SamplePair
}

// seriesOf are the series that have numbers.
func seriesOf(answers []Answer) (out []named) {
	for _, a := range answers {
		for _, s := range a.Series {
			n := named{name: a.legend(s.Metric)}
			for _, v := range s.Values {
				if f := float64(v.Value); !math.IsNaN(f) && !math.IsInf(f, 0) {
					n.values = append(n.values, v)
				}
			}
			if len(n.values) > 0 {
				out = append(out, n)
			}
		}
	}
	return out
}

// value is a number with its unit.
func value(v float64, unit string) string {
	switch unit {
	case "percentunit":
		return fmt.Sprintf("%.3g %%", 100*v)
	case "s":
		if v >= 120 {
			return time.Duration(v * float64(time.Second)).Round(time.Second).String()
		}
		return fmt.Sprintf("%.3g s", v)
	case "ops":
		return fmt.Sprintf("%.3g/s", v)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}

// numbers writes the last value of each series. What does not fit is counted.
func (c *canvas) numbers(b box, unit string, lines []named) {
	fit := b.h / (text + 7)
	for i, l := range lines {
		y := b.y + 16 + i*(text+7)
		if i == fit-1 && len(lines) > fit {
			c.write(b.x, y, `fill="#555b64"`, fmt.Sprintf("and %d more", len(lines)-i))
			return
		}
		c.write(b.x, y, `font-size="16" font-weight="bold"`, value(float64(l.values[len(l.values)-1].Value), unit))
		c.write(b.x+90, y, `fill="#555b64"`, l.name)
	}
}

// at is the place of a moment.
func (c *canvas) at(b box, t model.Time) float64 {
	return float64(b.x) + float64(b.w)*float64(t.Time().Sub(c.span.From))/float64(c.span.To.Sub(c.span.From))
}

// parts are the values between gaps.
func (c *canvas) parts(values []model.SamplePair) (out [][]model.SamplePair) {
	step := model.Time(c.span.step().Milliseconds())
	for from, i := 0, 1; i <= len(values); i++ {
		if i == len(values) || values[i].Timestamp-values[i-1].Timestamp > step {
			out, from = append(out, values[from:i]), i
		}
	}
	return out
}

// graph draws lines, with the smallest and the largest value.
func (c *canvas) graph(b box, unit string, lines []named) {
	legend := min(len(lines), 3) * text
	plot := box{b.x + 52, b.y + 4, b.w - 56, b.h - legend - 10}
	top := 0.0
	for _, l := range lines {
		for _, v := range l.values {
			top = max(top, float64(v.Value))
		}
	}
	if top == 0 {
		top = 1
	}
	for _, share := range []float64{0, 0.5, 1} {
		y := plot.y + plot.h - int(share*float64(plot.h))
		fmt.Fprintf(c, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#e6e8eb"/>`+"\n", plot.x, y, plot.x+plot.w, y)
		c.write(b.x, y+4, `fill="#8a9099"`, value(share*top, unit))
	}
	for i, l := range lines {
		for _, part := range c.parts(l.values) {
			var points []string
			for _, v := range part {
				points = append(points, fmt.Sprintf("%.1f,%.1f", c.at(plot, v.Timestamp),
					float64(plot.y+plot.h)-float64(v.Value)/top*float64(plot.h)))
			}
			if len(points) == 1 { // one point is no line
				points = append(points, points[0])
			}
			fmt.Fprintf(c, `<polyline fill="none" stroke="%s" stroke-width="1.5" stroke-linecap="round" points="%s"/>`+"\n",
				colours[i%len(colours)], strings.Join(points, " "))
		}
	}
	c.names(box{b.x, b.y + b.h - legend, b.w, legend}, lines)
}

// names says which line is what. What does not fit is counted.
func (c *canvas) names(b box, lines []named) {
	const columns = 2
	width := b.w / columns
	for i, l := range lines {
		if i == 5 && len(lines) > 6 {
			c.write(b.x+(i%columns)*width+14, b.y+12+i/columns*text, `fill="#555b64"`, fmt.Sprintf("and %d more", len(lines)-i))
			return
		}
		x, y := b.x+(i%columns)*width, b.y+12+i/columns*text
		fmt.Fprintf(c, `<rect x="%d" y="%d" width="10" height="4" fill="%s"/>`+"\n", x, y-5, colours[i%len(colours)])
		name := l.name
		if limit := (width - 14) / 6; len(name) > limit {
			name = name[:limit-1] + "…"
		}
		c.write(x+14, y, `fill="#555b64"`, name)
	}
}

// states draws a bar for each series where it has a value.
func (c *canvas) states(b box, lines []named) {
	fit := b.h / (text + 3)
	for i, l := range lines {
		y := b.y + i*(text+3)
		if i == fit-1 && len(lines) > fit {
			c.write(b.x, y+11, `fill="#555b64"`, fmt.Sprintf("and %d more", len(lines)-i))
			return
		}
		c.write(b.x, y+11, `fill="#555b64"`, l.name)
		plot := box{b.x + b.w/2, y, b.w / 2, text}
		for _, part := range c.parts(l.values) {
			left, right := c.at(plot, part[0].Timestamp), c.at(plot, part[len(part)-1].Timestamp)
			fmt.Fprintf(c, `<rect x="%.1f" y="%d" width="%.1f" height="12" fill="%s"/>`+"\n",
				left, y+1, max(1, right-left), colours[i%len(colours)])
		}
	}
}
