package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/status"
	"github.com/transplant-dev/transplant/internal/timeline"
)

func newTimeline(c *connection) *cobra.Command {
	var output *format
	var w watching
	var since, ownershipLog string
	cmd := &cobra.Command{
		Use: "timeline", Short: "What happened when: steps, handovers, leases, events, pauses, probes", Args: cobra.NoArgs,
		Example: "  transplant timeline --since 10m\n  transplant timeline -o markdown >timeline.md",
		Long: "Timeline puts into one order what the journal, the managers' leases, Kubernetes' events and, on the machine that carried the run out, its logs say. It\n" +
			"reads objects of the API and files of this machine: no host is opened, nothing is written. Times are UTC, by the clock of their source. Kubernetes keeps\n" +
			"events for an hour unless it is told otherwise.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.refused(output.value); err != nil {
				return err
			}
			if err := c.connect(); err != nil {
				return err
			}
			from, err := c.sinceOf(since)
			if err != nil {
				return err
			}
			board, err := c.board(cmd.Context(), w.on)
			if err != nil {
				return err
			}
			build := func() (v1.Timeline, status.Facts, error) { return c.timeline(board, from, ownershipLog) }
			if w.on {
				return c.watchTimeline(cmd.Context(), board, output.value, build)
			}
			board.Look(cmd.Context())
			t, _, err := build()
			if err != nil {
				return err
			}
			return output.print(c.out, t, map[string]func() error{
				"text":     func() error { return printTimeline(c.out, t, c.layoutFor(c.out, false)) },
				"markdown": func() error { return timelineMarkdown(c.out, t) },
			})
		},
	}
	output = formatFlag(cmd, "text", "markdown", "json", "yaml")
	cmd.Flags().StringVar(&since, "since", "", "leave out what had ended before: a duration (10m), or a time (2026-11-21T12:00:00Z)")
	cmd.Flags().StringVar(&ownershipLog, "ownership-log", "", "ownership log (default: what apply kept on this machine, where it did)")
	w.flags(cmd)
	return cmd
}

// sinceOf is the moment that --since names; zero for none.
func (c *connection) sinceOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return c.serverTime().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, withCode(exitError, "--since %q: give a duration, such as 10m, or a time, such as 2026-11-21T12:00:00Z", text)
	}
	return t, nil
}

// timeline makes the timeline of what the board holds, with the logs of this machine.
func (c *connection) timeline(board *status.Board, since time.Time, ownershipLog string) (v1.Timeline, status.Facts, error) {
	in := timeline.Input{Facts: board.Facts(), Since: since}
	doc := in.Facts.Journal
	if doc == nil {
		return timeline.Build(in), in.Facts, nil
	}
	path := ownershipLog
	if path == "" {
		var err error
		if path, err = c.logPath(doc.Plan.Cluster.UID, doc.Run); err != nil {
			return v1.Timeline{}, in.Facts, err
		}
	}
	var err error
	if in.Ownership, err = ownershipEvents(path, ownershipLog == ""); err != nil {
		return v1.Timeline{}, in.Facts, err
	}
	probes, err := c.disruptionPath(doc.Plan.Cluster.UID, doc.Run)
	if err != nil {
		return v1.Timeline{}, in.Facts, err
	}
	if in.Probes, err = readProbes(probes); err != nil {
		return v1.Timeline{}, in.Facts, err
	}
	if in.Ownership == nil {
		in.Facts.NotRead = append(in.Facts.NotRead, fmt.Sprintf("who held the leases in between: the ownership log %s is on the machine that carried the run out", filepath.Base(path)))
	}
	return timeline.Build(in), in.Facts, nil
}

// ownershipEvents reads an ownership log; with optional, one that is not there holds nothing.
func ownershipEvents(path string, optional bool) ([]v1.OwnershipEvent, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && optional {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the ownership log: %w", err)
	}
	defer file.Close()
	events, err := ownership.ReadLog(file)
	if err != nil {
		return nil, fmt.Errorf("ownership log %s: %w", path, err)
	}
	return events, nil
}

// watchTimeline shows entries as they come, until the run ends.
func (c *connection) watchTimeline(ctx context.Context, board *status.Board, output string, build func() (v1.Timeline, status.Facts, error)) error {
	view := c.viewOf(c.out)
	seen := map[string]bool{}
	var e ending
	return c.follow(ctx, board, func() (bool, error) {
		t, facts, err := build()
		if err != nil {
			return true, err
		}
		if view.redraws && output == "text" {
			err = view.draw(c.tail(t, view))
		} else {
			err = c.appendNew(t, output, seen)
		}
		if err != nil {
			return true, err
		}
		return e.of(status.Judge(facts), time.Now())
	})
}

// tail is as much of a timeline's end as the terminal has lines for.
func (c *connection) tail(t v1.Timeline, v *view) string {
	_, height := v.size()
	t.Entries = t.Entries[max(0, len(t.Entries)-max(1, height-4-len(t.NotRead))):]
	return timelineText(t, c.layoutFor(c.out, false))
}

// appendNew writes the entries that were not written yet.
func (c *connection) appendNew(t v1.Timeline, output string, seen map[string]bool) error {
	fresh := t
	fresh.Entries = nil
	for _, e := range t.Entries {
		if key := fmt.Sprintf("%+v", identity(e)); !seen[key] {
			seen[key] = true
			fresh.Entries = append(fresh.Entries, e)
		}
	}
	if len(fresh.Entries) == 0 {
		return nil
	}
	if output == "json" {
		last := ""
		return jsonLine(c.out, fresh, fresh, &last)
	}
	p := page{layout: c.layoutFor(c.out, false)}
	for _, e := range fresh.Entries {
		p.entry(e)
	}
	_, err := io.WriteString(c.out, p.b.String())
	return err
}

// identity is an entry with what makes it another one: a step that has ended is shown once more.
func identity(e v1.TimelineEntry) v1.TimelineEntry {
	if e.DurationSeconds != nil {
		e.Count, e.OffsetSeconds = int(*e.DurationSeconds*1000), 0
		e.DurationSeconds = nil
		e.Level += " over"
	}
	return e
}

// timelineWidths are those of the columns before the message: time, offset, duration, source.
var timelineWidths = []int{8, 8, 7, 8}

func printTimeline(w io.Writer, t v1.Timeline, l layout) error {
	_, err := io.WriteString(w, timelineText(t, l))
	return err
}

func timelineText(t v1.Timeline, l layout) string {
	p := page{layout: l}
	if t.Run == "" && len(t.Entries) == 0 {
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
		p.entry(e)
	}
	p.notRead(t.NotRead)
	return p.b.String()
}

// levelMarks are the marks of an entry.
var levelMarks = map[string]v1.Outcome{"error": v1.Fail, "warning": v1.Warn, "info": v1.Skip}

func (p *page) entry(e v1.TimelineEntry) {
	p.row(levelMarks[e.Level], timelineWidths, e.Time.Format(time.TimeOnly), offset(e.OffsetSeconds), took(e.DurationSeconds), e.Source, counted(e))
}

func counted(e v1.TimelineEntry) string {
	if e.Count > 1 {
		return fmt.Sprintf("%s (%d times)", e.Message, e.Count)
	}
	return e.Message
}

// offset writes seconds from the beginning of the run: +MM:SS.t, or +H:MM:SS.
func offset(seconds float64) string {
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

// took writes how long something lasted.
func took(seconds *float64) string {
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

// timelineMarkdown writes a table. What a cluster says is text and no markup.
func timelineMarkdown(w io.Writer, t v1.Timeline) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Timeline of migration %s\n\n", orDash(t.Run))
	if t.Untrusted != "" {
		fmt.Fprintf(&b, "**Untrusted**: %s\n\n", cell(t.Untrusted))
	}
	b.WriteString("| time (UTC) | offset | took | source | level | what |\n|---|---|---|---|---|---|\n")
	for _, e := range t.Entries {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", e.Time.Format("2006-01-02 15:04:05.000"), offset(e.OffsetSeconds), took(e.DurationSeconds), e.Source, e.Level, cell(counted(e)))
	}
	for _, n := range t.NotRead {
		fmt.Fprintf(&b, "\nNot read: %s\n", cell(n))
	}
	_, err := io.WriteString(w, visible(b.String()))
	return err
}
