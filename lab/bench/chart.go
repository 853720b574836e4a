package bench

import (
	"bytes"
	"fmt"
	"html"
)

// The measures of the chart, in pixels.
const (
	chartMargin  = 24
	chartLabel   = 250 // left of the panels
	chartPanel   = 170 // a panel, with the space for the figure behind the longest bar
	chartBar     = 14
	chartBarGap  = 3
	chartGap     = 16 // between groups
	chartHeader  = 96
	chartLongest = 104 // the longest bar
)

// colours are those of the implementations: what is there today in greys, ours in a colour.
var colours = map[string]string{upstreamName: "#b4b8bf", tunedName: "#6f7681", oursName: "#0b6bcb"}

// panels are the figures that the chart shows.
var panels = []string{"seconds", "p99 s", "cloud calls", "API writes", "CPU s", "RSS MiB"}

// WriteChart writes results as an SVG picture: a row for each group, a panel for each figure. Bars are compared within
// their group and figure: the longest one there has the full length, because figures of different scenarios have
// nothing to do with each other.
func WriteChart(path string, results []Result) error { return writeFile(path, chart(results)) }

func chart(results []Result) []byte {
	order, members := groups(results)
	height := chartHeader + chartMargin
	for _, g := range order {
		height += len(members[g])*(chartBar+chartBarGap) + chartGap
	}
	width := 2*chartMargin + chartLabel + len(panels)*chartPanel
	var b bytes.Buffer
	fmt.Fprintf(
		&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"`,
		width,
		height,
		width,
		height,
	)
	b.WriteString(` font-family="Helvetica, Arial, sans-serif" font-size="11">` + "\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	text(
		&b,
		chartMargin,
		30,
		`font-size="16" font-weight="bold"`,
		"What a cloud-controller-manager needs for the same work",
	)
	text(&b, chartMargin, 48, `fill="#555b64"`,
		"Shorter is better. Within a row and a column the longest bar has the full length. “>”: the limit ended the run.")
	legend(&b)
	for i, name := range panels {
		text(&b, chartMargin+chartLabel+i*chartPanel, chartHeader-8, `font-weight="bold"`, name)
	}
	y := chartHeader
	for _, g := range order {
		y = drawGroup(&b, y, g, members[g], width)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func legend(b *bytes.Buffer) {
	x := chartMargin
	for _, i := range implementations {
		fmt.Fprintf(b, `<rect x="%d" y="60" width="12" height="12" fill="%s"/>`+"\n", x, colours[i.name])
		text(b, x+18, 70, "", i.name)
		x += 34 + 7*len(i.name)
	}
}

func drawGroup(b *bytes.Buffer, y int, g group, results []Result, width int) int {
	fmt.Fprintf(
		b,
		`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#e3e5e8"/>`+"\n",
		chartMargin,
		y-chartGap/2+2,
		width-chartMargin,
		y-chartGap/2+2,
	)
	detail := fmt.Sprintf("%d nodes", g.nodes)
	if g.services > 0 {
		detail += fmt.Sprintf(", %d services", g.services)
	}
	if g.throttled {
		detail += ", throttled cloud"
	}
	text(b, chartMargin, y+11, `font-weight="bold"`, g.scenario)
	text(b, chartMargin, y+11+chartBar+chartBarGap, `fill="#555b64"`, detail)
	for row, r := range results {
		top := y + row*(chartBar+chartBarGap)
		column := 0
		for _, name := range panels {
			f := figureOf(name)
			x := chartMargin + chartLabel + column*chartPanel
			column++
			length := 0.0
			if largest := largest(f, results); largest > 0 {
				length = max(f.of(r)/largest*chartLongest, 1)
			}
			fmt.Fprintf(
				b,
				`<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n",
				x,
				top,
				length,
				chartBar,
				colours[r.Implementation],
			)
			text(b, x+int(length)+5, top+11, "", f.text(r))
		}
	}
	return y + max(len(results), 2)*(chartBar+chartBarGap) + chartGap
}

func figureOf(title string) figure {
	for _, f := range figures {
		if f.title == title {
			return f
		}
	}
	return figures[0]
}

func largest(f figure, results []Result) float64 {
	out := 0.0
	for _, r := range results {
		out = max(out, f.of(r))
	}
	return out
}

func text(b *bytes.Buffer, x, y int, attributes, content string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(content))
}
