package cli

import (
	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/follow"
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
			build := func() (v1.Timeline, v1.Status, error) {
				t, facts, err := client.Timeline(c.Client, board, from, ownershipLog)
				return t, status.Judge(facts), err
			}
			if w.On {
				return follow.Timeline(cmd.Context(), c, board, output.Value, build)
			}
			board.Look(cmd.Context())
			t, _, err := build()
			if err != nil {
				return err
			}
			return follow.PrintTimeline(c, output, t)
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
