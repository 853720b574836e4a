package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/status"
)

func newTimeline(c *console.Console) *cobra.Command {
	var output *printer.Format
	var w console.WatchFlag
	var since, ownershipLog string
	cmd := &cobra.Command{
		Use:     "timeline",
		Short:   "What happened when: steps, handovers, leases, events, pauses, probes",
		Args:    cobra.NoArgs,
		Example: "  transplant timeline --since 10m\n  transplant timeline -o markdown >timeline.md",
		Long: "Timeline puts into one order what the journal, the managers' leases, Kubernetes' events and, on the machine that executed the run, its logs say. It\n" +
			"reads objects of the API and files of this machine: no host is opened, nothing is written. Times are UTC, by the clock of their source. Kubernetes keeps\n" +
			"events for an hour unless it is told otherwise.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.CheckOutput(output.Value); err != nil {
				return err
			}
			if _, err := c.ParseSince(since); err != nil {
				return err
			}
			if err := c.Connect(); err != nil {
				return err
			}
			from, err := c.ParseSince(since)
			if err != nil {
				return err
			}
			board, err := c.NewBoard(cmd.Context(), w.On)
			if err != nil {
				return err
			}
			build := func() (v1.Timeline, status.Facts, error) { return client.Timeline(c.Client, board, from, ownershipLog) }
			if w.On {
				return watchTimeline(cmd.Context(), c, board, output.Value, build)
			}
			board.Look(cmd.Context())
			t, _, err := build()
			if err != nil {
				return err
			}
			c.NameCluster(t.Cluster)
			return output.Print(c.Out, t, map[string]func() error{
				"text":     func() error { return printer.PrintTimeline(c.Out, t, c.LayoutFor(c.Out, false)) },
				"wide":     func() error { return printer.PrintTimeline(c.Out, t, c.LayoutFor(c.Out, true)) },
				"markdown": func() error { return printer.TimelineMarkdown(c.Out, t) },
			})
		},
	}
	output = console.AddFormatFlag(cmd, "text", "wide", "markdown", "json", "yaml")
	cmd.Flags().
		StringVar(&since, "since", "", "leave out what had ended before: a duration (10m), or a time (2026-11-21T12:00:00Z)")
	cmd.Flags().
		StringVar(&ownershipLog, "ownership-log", "", "ownership log (default: what apply kept on this machine, where it did)")
	w.AddTo(cmd)
	return cmd
}

// watchTimeline shows entries as they come, until the run ends.
func watchTimeline(
	ctx context.Context,
	c *console.Console,
	board *status.Board,
	output string,
	build func() (v1.Timeline, status.Facts, error),
) error {
	view := c.NewView(c.Out)
	seen := map[string]bool{}
	var e endDetector
	return c.Follow(ctx, board, func() (bool, error) {
		t, facts, err := build()
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
		return e.observe(status.Judge(facts), time.Now())
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
