package cli

import (
	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/follow"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/cli/printer/exposition"
	"github.com/transplant-dev/transplant/internal/status"
)

func newStatus(c *console.Console) *cobra.Command {
	var output *printer.Format
	var w console.WatchFlag
	details := printer.Format{Value: console.DetailsNone, Allowed: []string{console.DetailsNone, console.DetailsNodes}}
	all := func() bool { return c.Verbose || details.Value == console.DetailsNodes }
	cmd := &cobra.Command{
		Use:   "status",
		Short: "One screen: how far it is, who owns the loops, what stands in the way, what to do next",
		Args:  cobra.NoArgs,
		Example: "  transplant status           # from any machine, with the right to read a few objects\n" +
			"  transplant status --watch   # until the run ends; the exit code is that of its result\n" +
			"  transplant status -q -o prometheus >x.tmp && mv x.tmp x.prom   # for node_exporter's textfile collector",
		Long: "Status says how far a run is, on whichever machine it was started. It reads objects of the API and nothing else: no host is opened, nothing is\n" +
			"written. What may not be read is named in a line, and the rest is said all the same.\n\n" +
			"With --watch a terminal is redrawn in place, a pipe gets a line when something changes, and -o json one document a line. It ends when the run does:\n" +
			"with 0 when it was applied, rolled back, or stopped where it was told to, with 1 when it failed, with 130 at Ctrl-C.\n\n" +
			"With -o prometheus it writes series in the text format of Prometheus, once: a timer writes them again. docs/how-to/monitor.md has one.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.CheckOutput(output.Value); err != nil {
				return err
			}
			if err := c.Connect(); err != nil {
				return err
			}
			board, err := c.NewBoard(cmd.Context(), w.On)
			if err != nil {
				return err
			}
			if w.On {
				judge := func() v1.Status { return status.Judge(board.Facts()) }
				return follow.Status(cmd.Context(), c, board, judge, follow.View{Output: output.Value, All: all()})
			}
			board.Look(cmd.Context())
			s := status.Judge(board.Facts())
			c.NameCluster(s.Cluster)
			text := func(wide bool) func() error {
				return func() error {
					s.Next = c.AsCalled(s.Next)
					return printer.PrintStatus(c.Out, s, c.LayoutFor(c.Out, wide), wide || all())
				}
			}
			return output.Print(c.Out, s, map[string]func() error{
				"text": text(false), "wide": text(true),
				"prometheus": func() error { return exposition.Print(c.Out, s, "") },
			})
		},
	}
	output = console.AddFormatFlag(cmd, "text", "wide", "json", "yaml", "prometheus")
	cmd.Flags().Var(&details, "details", "nodes: every host and node, not only the worst ten")
	c.AddVerboseFlag(cmd, "every host and node, as --details=nodes; text only")
	w.AddTo(cmd)
	return cmd
}
