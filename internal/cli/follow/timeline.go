package follow

import (
	"context"
	"fmt"
	"io"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
)

// PrintTimeline prints a timeline once.
func PrintTimeline(c *console.Console, output *printer.Format, t v1.Timeline) error {
	c.NameCluster(t.Cluster)
	return output.Print(c.Out, t, map[string]func() error{
		"text":     func() error { return printer.PrintTimeline(c.Out, t, c.LayoutFor(c.Out, false)) },
		"wide":     func() error { return printer.PrintTimeline(c.Out, t, c.LayoutFor(c.Out, true)) },
		"markdown": func() error { return printer.TimelineMarkdown(c.Out, t) },
	})
}

// Timeline shows entries of what a board holds as they come, until the run ends.
func Timeline(
	ctx context.Context,
	c *console.Console,
	board console.Board,
	output string,
	build func() (v1.Timeline, v1.Status, error),
) error {
	view := c.NewView(c.Out)
	seen := map[string]bool{}
	var e endDetector
	return c.Follow(ctx, board, func() (bool, error) {
		t, s, err := build()
		if err != nil {
			return true, err
		}
		if view.Redraws && output == "text" {
			err = view.Draw(lastEntries(c, t, view))
		} else {
			err = appendNew(c, t, output, seen)
		}
		if err != nil {
			return true, err
		}
		return e.observe(s, time.Now())
	})
}

// lastEntries is as much of a timeline's end as the terminal has lines for.
func lastEntries(c *console.Console, t v1.Timeline, v *console.View) string {
	_, height := v.Size()
	t.Entries = t.Entries[max(0, len(t.Entries)-max(1, height-4-len(t.NotRead))):]
	return printer.TimelineText(t, c.LayoutFor(c.Out, false))
}

// appendNew writes the entries that were not written yet.
func appendNew(c *console.Console, t v1.Timeline, output string, seen map[string]bool) error {
	fresh := t
	fresh.Entries = nil
	for _, e := range t.Entries {
		if key := fmt.Sprintf("%+v", printer.Identity(e)); !seen[key] {
			seen[key] = true
			fresh.Entries = append(fresh.Entries, e)
		}
	}
	if len(fresh.Entries) == 0 {
		return nil
	}
	if output == "json" {
		last := ""
		return console.JsonLine(c.Out, fresh, fresh, &last)
	}
	p := printer.Page{Layout: c.LayoutFor(c.Out, false)}
	for _, e := range fresh.Entries {
		p.Entry(e)
	}
	_, err := io.WriteString(c.Out, p.B.String())
	return err
}
