package printer

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/english"
)

const (
	// Worst is how many nodes, and how many things that stand in the way, are shown.
	Worst = 10
	// nameWidth is the widest first column on a terminal of 80 columns; a wider one gives it what it has more.
	nameWidth = 26
)

// PrintStatus writes one screen. With all, every node is in it.
func PrintStatus(w io.Writer, s v1.Status, l Layout, all bool) error {
	_, err := io.WriteString(w, StatusText(s, l, all))
	return err
}

// StatusText returns the screen of a status.
func StatusText(s v1.Status, l Layout, all bool) string {
	s = safe(s)
	p := Page{Layout: l}
	p.statusHead(s)
	p.statusHealth(s.Health)
	p.statusNodes(s.Nodes, all)
	p.statusOwners(s)
	if s.Disruption != "" {
		p.field("probes", "%s", strings.TrimPrefix(s.Disruption, "probes: "))
	}
	if s.Objectives != "" {
		p.wrapped("objectives", s.Objectives)
	}
	p.notRead(s.NotRead)
	p.line("next: %s", s.Next)
	return p.B.String()
}

// notRead says what could not be read: what is not allowed together, anything else with its error.
func (p *Page) notRead(sentences []string) {
	var refused []string
	for _, n := range sentences {
		if what, _, ok := strings.Cut(n, ": not allowed: "); ok {
			refused = append(refused, what)
			continue
		}
		p.wrapped("not read", n)
	}
	if len(refused) > 0 {
		p.wrapped("not read", "without the rights: "+strings.Join(refused, "; ")+" (the role in deploy/rbac/reader.yaml gives them)")
	}
}

// Page collects lines that fit the terminal.
type Page struct {
	Layout
	B strings.Builder
}

// line writes one line, cut to the width: what a cluster says may hold line breaks and control characters.
func (p *Page) line(format string, args ...any) {
	fmt.Fprintln(&p.B, p.Cut(p.flat(fmt.Sprintf(format, args...))))
}

// labelWidth is the column in which what a label says begins.
const labelWidth = 11

// field writes a label and what it says, in one line.
func (p *Page) field(label, format string, args ...any) {
	fmt.Fprintln(&p.B, p.Cut(fmt.Sprintf("%-*s%s", labelWidth, label, p.flat(fmt.Sprintf(format, args...)))))
}

// wrapped writes a label and what it says, in as many lines as that takes: an error is worth them.
func (p *Page) wrapped(label, text string) {
	room := max(p.Width, MinWidth) - labelWidth
	line := ""
	flush := func() {
		p.field(label, "%s", line)
		label, line = "", ""
	}
	for word := range strings.FieldsSeq(p.Plain(text)) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			flush()
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	flush()
}

// flat makes one line of a text.
func (p *Page) flat(text string) string { return p.Plain(wording.OneLine(text)) }

// row writes cells in columns of these widths, the last one as wide as the terminal lets it be. A mark comes before
// them, coloured.
func (p *Page) row(o v1.Outcome, widths []int, cells ...string) {
	rest := p.Layout
	if rest.Width = max(p.Width, MinWidth); o != "" {
		rest.Width -= utf8.RuneCountInString(p.Mark(o)) + 1
	}
	p.marked(o, strings.TrimRight(rest.cutTo(p.columns(widths, cells)), " "))
}

// mostLines of a long row. A kubelet says hundreds of letters of one pod, and a status is one screen.
const mostLines = 3

// leastRoom is how many letters of the last cell a long row has to have room for: with less, it is one line.
const leastRoom = 24

// longRow is a row whose last cell has several lines if it has to: it says what stands in the way.
func (p *Page) longRow(o v1.Outcome, widths []int, cells ...string) {
	last := len(cells) - 1
	first := p.columns(widths, cells[:last])
	mark := utf8.RuneCountInString(p.Mark(o)) + 1
	rest := p.Layout
	rest.Width = max(p.Width, MinWidth) - mark
	if p.Wide || rest.Width < utf8.RuneCountInString(first)+leastRoom {
		p.row(o, widths, cells...)
		return
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(first))
	lines := strings.Split(rest.fold(first, indent+continued, p.flat(cells[last])), "\n")
	if cut := strings.Join(lines[min(len(lines), mostLines-1):], " "); len(lines) > mostLines && !p.Verbose && !p.Whole {
		cut = strings.Join(strings.Fields(strings.ReplaceAll(cut, indent+continued, "")), " ")
		lines = append(lines[:mostLines-1], rest.cutTo(indent+continued+cut))
	}
	p.marked(o, rest.cutTo(lines[0]))
	for _, line := range lines[1:] {
		fmt.Fprintln(&p.B, strings.Repeat(" ", mark)+rest.cutTo(line))
	}
}

// columns sets cells in columns of these widths, the last one as it is.
func (p *Page) columns(widths []int, cells []string) string {
	var text strings.Builder
	for i, c := range cells {
		c = p.flat(c)
		if i < len(widths) {
			short := Layout{
				Width: widths[i],
				Ascii: p.Ascii,
				Wide:  p.Wide,
				Whole: p.Whole,
			}.cutTo(c)
			text.WriteString(short + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(short))+2))
			continue
		}
		text.WriteString(c)
	}
	return text.String()
}

// marked writes a line behind its mark, coloured, if it has one.
func (p *Page) marked(o v1.Outcome, line string) {
	if o != "" {
		line = p.paint(o, p.Mark(o)) + " " + line
	}
	fmt.Fprintln(&p.B, line)
}

// cutTo is cut for a cell, which may be narrower than a line.
func (l Layout) cutTo(s string) string {
	r := []rune(s)
	if l.Wide || l.Whole || len(r) <= l.Width {
		return s
	}
	if l.Ascii {
		return string(r[:l.Width-1]) + "~"
	}
	return string(r[:l.Width-1]) + "…"
}

func (p *Page) statusHead(s v1.Status) {
	switch {
	case s.State == v1.StateNotStarted:
		p.line("no migration was started on this cluster")
	case s.Run == "":
		p.line("whether a migration was started is unknown")
	default:
		p.line(
			"migration %s · %s · %d/%d steps%s%s",
			s.Run,
			wording.StateWords(s.State),
			s.StepsDone,
			s.StepsTotal,
			shareOfNodes(s.Nodes),
			sectionWords(s),
		)
		if s.PlanSHA256 != "" {
			p.field("plan", "sha256 %s", s.PlanSHA256)
		}
		if s.ElapsedSeconds > 0 {
			elapsed := wording.CompactDuration(s.ElapsedSeconds)
			p.field("elapsed", "%s%s%s", elapsed, idleWords(s.IdleSeconds), remainingWords(s.Remaining))
		}
	}
	if s.Untrusted != "" {
		p.wrapped("untrusted", s.Untrusted)
	}
	if s.Lock != nil {
		p.field("holder", "%s", wording.HolderWords(*s.Lock))
	}
	for _, c := range s.Current {
		p.currentStep(s.State, c)
	}
	if s.StoppedBehind != "" && s.State == v1.StateStopped {
		p.field("stopped", "after %s, as asked", s.StoppedBehind)
	}
	if s.Upcoming != "" {
		p.field("upcoming", "%s", s.Upcoming)
	}
	if s.LastError != "" {
		p.wrapped("error", errorWords(s))
	}
}

// errorWords are the last error, with its step where no line above names it, and its age.
func errorWords(s v1.Status) string {
	out := s.LastError
	isCurrent := slices.ContainsFunc(s.Current, func(c v1.StepStatus) bool { return c.ID == s.LastErrorStep })
	if s.LastErrorStep != "" && !isCurrent {
		out = "step " + s.LastErrorStep + ": " + out
	}
	if s.LastErrorSeconds != nil {
		out += " · " + wording.CompactDuration(*s.LastErrorSeconds) + " ago"
	}
	return out
}

// shareOfNodes says how many nodes the migration is done with, of those that it changes.
func shareOfNodes(nodes []v1.NodeStatus) string {
	done, all := 0, 0
	for _, n := range nodes {
		switch n.State {
		case v1.NodeOut:
			continue
		case v1.NodeDone:
			done++
		}
		all++
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf(" · %d/%s", done, english.Count(all, "node"))
}

func sectionWords(s v1.Status) string {
	if s.Section == "" {
		return ""
	}
	return fmt.Sprintf(" · phase %d/%d %s", s.SectionNumber, s.Sections, s.Section)
}

// currentStep prints a step that was begun, with what its executor says.
func (p *Page) currentStep(state string, c v1.StepStatus) {
	since := wording.CompactDuration(c.SinceSeconds)
	if state == v1.StateStopped || state == v1.StateFailed {
		p.field("step", "%s · begun %s ago, not finished", c.ID, since)
	} else {
		p.field("step", "%s · for %s", c.ID, since)
	}
	if c.Waiting != "" {
		p.wrapped("waits for", c.Waiting+" · for "+wording.CompactDuration(c.WaitingSeconds))
	}
	if c.Latest != "" {
		p.wrapped("latest", c.Latest)
	}
}

func idleWords(seconds float64) string {
	if seconds < 1 {
		return ""
	}
	return " (" + wording.CompactDuration(seconds) + " of it paused or stopped)"
}

func remainingWords(r *v1.Range) string {
	switch {
	case r == nil:
		return ""
	case wording.CompactDuration(r.LowSeconds) == wording.CompactDuration(r.HighSeconds):
		return " · about " + wording.CompactDuration(r.HighSeconds) + " left"
	}
	return fmt.Sprintf(" · %s to %s left", wording.CompactDuration(r.LowSeconds), wording.CompactDuration(r.HighSeconds))
}

func (p *Page) statusNodes(nodes []v1.NodeStatus, all bool) {
	if len(nodes) == 0 {
		return
	}
	var shown []v1.NodeStatus
	rest := map[string]int{}
	for _, n := range nodes {
		calm := n.State == v1.NodePending || n.State == v1.NodeDone || n.State == v1.NodeOut
		if !all && (calm || len(shown) == Worst) {
			rest[n.State]++
			continue
		}
		shown = append(shown, n)
	}
	p.nodeRows(shown)
	var counts []string
	for _, state := range []string{v1.NodeBlocked, v1.NodeWorking, v1.NodeBegun, v1.NodePending, v1.NodeDone, v1.NodeOut} {
		if rest[state] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", rest[state], strings.ToLower(state)))
		}
	}
	if len(counts) > 0 {
		p.field("nodes", "%s (transplant status --details=nodes)", strings.Join(counts, ", "))
	}
}

func (p *Page) nodeRows(nodes []v1.NodeStatus) {
	if len(nodes) == 0 {
		return
	}
	widths := []int{p.widest("NODE", nodes, func(n v1.NodeStatus) string { return n.Name }), 7, 5, 5}
	p.row("", widths, "NODE", "STATE", "DONE", "SINCE", "STEP")
	for _, n := range nodes {
		step := n.Step
		if n.Message != "" {
			step = n.Message + " (" + n.Step + ")"
		}
		if n.Step == "" {
			step = n.Message
		}
		age := "-"
		if n.SinceSeconds > 0 {
			age = wording.CompactDuration(n.SinceSeconds)
		}
		p.row("", widths, n.Name, n.State, fmt.Sprintf("%d/%d", n.Done, n.Total), age, step)
	}
}

// widest is the width of a first column.
func (p *Page) widest(head string, nodes []v1.NodeStatus, name func(v1.NodeStatus) string) int {
	width := len(head)
	for _, n := range nodes {
		width = max(width, utf8.RuneCountInString(name(n)))
	}
	return min(width, nameWidth+max(0, p.Width-80))
}

// healthMarks are the marks of levels.
var healthMarks = map[string]v1.Outcome{"error": v1.Fail, "warning": v1.Warn, "info": v1.Skip}

func (p *Page) statusHealth(blockers []v1.Blocker) {
	if len(blockers) == 0 {
		return
	}
	widths := []int{5, 7, 14}
	p.row(
		"",
		append([]int{utf8.RuneCountInString(p.Mark(v1.Pass)) - 1}, widths...),
		"",
		"SINCE",
		"LEVEL",
		"IMPACT",
		"HEALTH",
	)
	for _, b := range blockers[:min(len(blockers), Worst)] {
		age := "-"
		if b.SinceSeconds != nil {
			age = wording.CompactDuration(*b.SinceSeconds)
		}
		p.longRow(healthMarks[b.Level], widths, age, b.Level, b.Impact, b.Message)
	}
	if more := len(blockers) - Worst; more > 0 {
		p.line("and %d more: transplant status -o yaml", more)
	}
}

func (p *Page) statusOwners(s v1.Status) {
	loops := make([]string, 0, len(s.Owners))
	for l := range s.Owners {
		if wording.LoopNames[l] {
			loops = append(loops, l)
		}
	}
	if len(loops) == 0 {
		for _, l := range s.Leases {
			if l.Holder != "" {
				p.field("lease", "%s: %s, renewed %s ago", l.Name, l.Holder, wording.CompactDuration(l.AgeSeconds))
			}
		}
		return
	}
	slices.Sort(loops)
	widths := []int{20, nameWidth + max(0, min(p.Width-80, 20))}
	p.row("", widths, "LOOP", "OWNER", "AS SHOWN BY")
	for _, l := range loops {
		p.row("", widths, l, s.Owners[l], s.OwnersFrom[l])
	}
}
