package printer

import (
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/visible"
)

// PrintTimeline prints a timeline as a table.
func PrintTimeline(w io.Writer, t v1.Timeline, l Layout) error {
	_, err := io.WriteString(w, TimelineText(t, l))
	return err
}

// TimelineText returns a timeline as a table.
func TimelineText(t v1.Timeline, l Layout) string {
	t = safe(t)
	p := Page{Layout: l}
	switch {
	case t.Run != "":
	case t.Phase == v1.StateUnknown:
		p.line("whether a migration was started is unknown")
	case len(t.Entries) == 0:
		p.line("no migration was started on this cluster")
	}
	if t.Untrusted != "" {
		p.wrapped("untrusted", t.Untrusted)
	}
	if len(t.Entries) > 0 {
		p.row(v1.Skip, timelineWidths, "TIME", "OFFSET", "TOOK", "SOURCE", "WHAT")
	}
	day := ""
	for _, e := range t.Entries {
		if today := e.Time.Format(time.DateOnly); today != day {
			day = today
			p.line("%s UTC", day)
		}
		p.Entry(e)
	}
	p.notRead(t.NotRead)
	return p.B.String()
}

// levelMarks are the marks of an entry.
var levelMarks = map[string]v1.Outcome{"error": v1.Fail, "warning": v1.Warn, "info": v1.Skip}

// Entry writes a line of a timeline.
func (p *Page) Entry(e v1.TimelineEntry) {
	p.row(
		levelMarks[e.Level],
		timelineWidths,
		e.Time.Format(time.TimeOnly),
		Offset(e.OffsetSeconds),
		Took(e.DurationSeconds),
		e.Source,
		counted(e),
	)
}

// Offset writes seconds from the beginning of the run: +MM:SS.t, or +H:MM:SS.
func Offset(seconds float64) string {
	sign := "+"
	if seconds < 0 {
		sign, seconds = "-", -seconds
	}
	d := time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond)
	if d >= time.Hour {
		d = d.Round(time.Second)
		return fmt.Sprintf("%s%d:%02d:%02d", sign, int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
	}
	return fmt.Sprintf("%s%02d:%04.1f", sign, int(d.Minutes()), (d % time.Minute).Seconds())
}

// Took writes how long something lasted.
func Took(seconds *float64) string {
	switch {
	case seconds == nil:
		return ""
	case *seconds < 10:
		return fmt.Sprintf("%.2fs", *seconds)
	case *seconds < 120:
		return fmt.Sprintf("%.1fs", *seconds)
	}
	d := time.Duration(*seconds * float64(time.Second))
	if d < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// TimelineMarkdown writes a table. What a cluster says is text and no markup.
func TimelineMarkdown(w io.Writer, t v1.Timeline) error {
	t = safe(t)
	var b strings.Builder
	fmt.Fprintf(&b, "# Timeline of migration %s\n\n", visible.Markdown(wording.OrDash(t.Run)))
	if t.Untrusted != "" {
		fmt.Fprintf(&b, "**Untrusted**: %s\n\n", visible.Markdown(t.Untrusted))
	}
	b.WriteString("| time (UTC) | offset | took | source | level | what |\n|---|---|---|---|---|---|\n")
	for _, e := range t.Entries {
		fmt.Fprintf(
			&b,
			"| %s | %s | %s | %s | %s | %s |\n",
			e.Time.Format("2006-01-02 15:04:05.000"),
			Offset(e.OffsetSeconds),
			Took(e.DurationSeconds),
			visible.Markdown(e.Source),
			visible.Markdown(e.Level),
			visible.Markdown(counted(e)),
		)
	}
	for _, n := range t.NotRead {
		fmt.Fprintf(&b, "\nNot read: %s\n", visible.Markdown(n))
	}
	_, err := io.WriteString(w, Visible(b.String()))
	return err
}

// timelineWidths are those of the columns before the message: time, offset, duration, source.
var timelineWidths = []int{8, 8, 7, 8}

// Identity is an entry with what makes it another one: a step that has ended is shown once more.
func Identity(e v1.TimelineEntry) v1.TimelineEntry {
	if e.DurationSeconds != nil {
		e.Count, e.OffsetSeconds = int(*e.DurationSeconds*1000), 0
		e.DurationSeconds = nil
		e.Level += " over"
	}
	return e
}

func counted(e v1.TimelineEntry) string {
	if e.Count > 1 {
		return fmt.Sprintf("%s (%d times)", e.Message, e.Count)
	}
	return e.Message
}
