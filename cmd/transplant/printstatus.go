package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// loopNames are the loops that this tool speaks of, by metric name.
var loopNames = map[string]bool{"service": true, "route": true, "cloud-node-lifecycle": true, "nodeipam": true, "cloud-node": true}

const (
	// worst is how many nodes, and how many things that stand in the way, are shown.
	worst = 10
	// nameWidth is the widest first column on a terminal of 80 columns; a wider one gives it what it has more.
	nameWidth = 26
)

// printStatus writes one screen. With all, every node is in it.
func printStatus(w io.Writer, s v1.Status, l layout, all bool) error {
	_, err := io.WriteString(w, statusText(s, l, all))
	return err
}

func statusText(s v1.Status, l layout, all bool) string {
	p := page{layout: l}
	p.statusHead(s)
	p.statusNodes(s.Nodes, all)
	p.statusHealth(s.Health)
	p.statusOwners(s)
	if s.Disruption != "" {
		p.line("probes     %s", strings.TrimPrefix(s.Disruption, "probes: "))
	}
	for _, n := range s.NotRead {
		p.line("not read   %s", n)
	}
	p.line("next: %s", s.Next)
	return p.b.String()
}

// page collects lines that fit the terminal.
type page struct {
	layout
	b strings.Builder
}

// line writes one line, cut to the width: what a cluster says may hold line breaks and control characters.
func (p *page) line(format string, args ...any) {
	text := strings.Join(strings.Fields(p.plain(fmt.Sprintf(format, args...))), " ")
	if at := strings.Index(format, "%"); at > 0 && strings.HasSuffix(format[:at], "  ") { // the padding of its first word
		word, rest, _ := strings.Cut(text, " ")
		text = fmt.Sprintf("%-*s%s", at, word, rest)
	}
	fmt.Fprintln(&p.b, p.cut(text))
}

// row writes cells in columns of these widths, the last one as wide as the terminal lets it be. A mark comes before them, coloured.
func (p *page) row(o v1.Outcome, widths []int, cells ...string) {
	var text strings.Builder
	for i, c := range cells {
		c = strings.Join(strings.Fields(p.plain(c)), " ")
		if i < len(widths) {
			short := layout{width: widths[i], ascii: p.ascii, wide: p.wide}.cutTo(c)
			text.WriteString(short + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(short))+2))
			continue
		}
		text.WriteString(c)
	}
	rest := p.layout
	if o != "" {
		rest.width = max(p.width, minWidth) - utf8.RuneCountInString(p.mark(o)) - 1
	}
	body := strings.TrimRight(rest.cut(text.String()), " ")
	if o != "" {
		body = p.paint(o, p.mark(o)) + " " + body
	}
	fmt.Fprintln(&p.b, body)
}

// cutTo is cut for a cell, which may be narrower than a line.
func (l layout) cutTo(s string) string {
	r := []rune(s)
	if l.wide || len(r) <= l.width {
		return s
	}
	if l.ascii {
		return string(r[:l.width-1]) + "~"
	}
	return string(r[:l.width-1]) + "…"
}

func (p *page) statusHead(s v1.Status) {
	switch {
	case s.State == v1.StateNotStarted:
		p.line("no migration was started on this cluster")
	case s.Run == "":
		p.line("whether a migration was started is unknown")
	default:
		p.line("migration %s · %s · %d/%d steps%s", s.Run, stateWords(s.State), s.StepsDone, s.StepsTotal, sectionWords(s))
		if s.ElapsedSeconds > 0 {
			p.line("elapsed    %s%s", compact(s.ElapsedSeconds), remainingWords(s.Remaining))
		}
	}
	if s.Lock != nil {
		p.line("holder     %s", holderWords(*s.Lock))
	}
	for _, c := range s.Current {
		p.line("step       %s · for %s", c.ID, compact(c.SinceSeconds))
		if c.Waiting != "" {
			p.line("waits      %s · for %s", c.Waiting, compact(c.WaitingSeconds))
		}
	}
	if s.Upcoming != "" {
		p.line("upcoming   %s", s.Upcoming)
	}
	if s.LastError != "" && s.State != v1.StateFailed { // the health of a failed run says it
		p.line("error      %s", s.LastError)
	}
}

func stateWords(state string) string { return strings.ReplaceAll(state, "-", " ") }

func sectionWords(s v1.Status) string {
	if s.Section == "" {
		return ""
	}
	return fmt.Sprintf(" · phase %d/%d %s", s.SectionNumber, s.Sections, s.Section)
}

func remainingWords(r *v1.Range) string {
	switch {
	case r == nil:
		return ""
	case compact(r.LowSeconds) == compact(r.HighSeconds):
		return " · about " + compact(r.HighSeconds) + " left"
	}
	return fmt.Sprintf(" · %s to %s left", compact(r.LowSeconds), compact(r.HighSeconds))
}

func holderWords(l v1.LockStatus) string {
	who := l.Holder
	if l.Host != "" {
		who = fmt.Sprintf("%s@%s, pid %d", l.User, l.Host, l.PID)
	}
	return fmt.Sprintf("%s · lock renewed %s ago", who, compact(l.AgeSeconds))
}

func (p *page) statusNodes(nodes []v1.NodeStatus, all bool) {
	if len(nodes) == 0 {
		return
	}
	var shown []v1.NodeStatus
	rest := map[string]int{}
	for _, n := range nodes {
		calm := n.State == v1.NodePending || n.State == v1.NodeDone
		if !all && (calm || len(shown) == worst) {
			rest[n.State]++
			continue
		}
		shown = append(shown, n)
	}
	if len(shown) > 0 {
		widths := []int{p.widest("NODE", shown, func(n v1.NodeStatus) string { return n.Name }), 7, 5, 5}
		p.row("", widths, "NODE", "STATE", "DONE", "SINCE", "STEP")
		for _, n := range shown {
			step := n.Step
			if n.Message != "" {
				step = strings.TrimPrefix(n.Message, "waiting: ") + " (" + n.Step + ")"
			}
			if n.Step == "" {
				step = n.Message
			}
			age := "-"
			if n.SinceSeconds > 0 {
				age = compact(n.SinceSeconds)
			}
			p.row("", widths, n.Name, n.State, fmt.Sprintf("%d/%d", n.Done, n.Total), age, step)
		}
	}
	var counts []string
	for _, state := range []string{v1.NodeBlocked, v1.NodeWorking, v1.NodePending, v1.NodeDone} {
		if rest[state] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", rest[state], strings.ToLower(state)))
		}
	}
	if len(counts) > 0 {
		p.line("nodes      %s (transplant status --details=nodes)", strings.Join(counts, ", "))
	}
}

// widest is the width of a first column.
func (p *page) widest(head string, nodes []v1.NodeStatus, name func(v1.NodeStatus) string) int {
	width := len(head)
	for _, n := range nodes {
		width = max(width, utf8.RuneCountInString(name(n)))
	}
	return min(width, nameWidth+max(0, p.width-80))
}

// healthMarks are the marks of levels.
var healthMarks = map[string]v1.Outcome{"error": v1.Fail, "warning": v1.Warn, "info": v1.Skip}

func (p *page) statusHealth(blockers []v1.Blocker) {
	if len(blockers) == 0 {
		return
	}
	widths := []int{5, 7, 14}
	p.row("", append([]int{utf8.RuneCountInString(p.mark(v1.Pass)) - 1}, widths...), "", "SINCE", "LEVEL", "IMPACT", "HEALTH")
	for _, b := range blockers[:min(len(blockers), worst)] {
		age := "-"
		if b.SinceSeconds != nil {
			age = compact(*b.SinceSeconds)
		}
		p.row(healthMarks[b.Level], widths, age, b.Level, b.Impact, b.Message)
	}
	if more := len(blockers) - worst; more > 0 {
		p.line("and %d more: transplant status -o yaml", more)
	}
}

func (p *page) statusOwners(s v1.Status) {
	loops := make([]string, 0, len(s.Owners))
	for l := range s.Owners {
		if loopNames[l] {
			loops = append(loops, l)
		}
	}
	if len(loops) == 0 {
		for _, l := range s.Leases {
			if l.Holder != "" {
				p.line("lease      %s: %s, renewed %s ago", l.Name, l.Holder, compact(l.AgeSeconds))
			}
		}
		return
	}
	slices.Sort(loops)
	widths := []int{20, nameWidth + max(0, min(p.width-80, 20))}
	p.row("", widths, "LOOP", "OWNER", "AS SHOWN BY")
	for _, l := range loops {
		p.row("", widths, l, s.Owners[l], s.OwnersFrom[l])
	}
}

// compact writes seconds with at most two units: 12s, 5m, 1h12m, 3d4h.
func compact(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0fs", max(0, d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
