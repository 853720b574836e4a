package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/internal/check"
)

func newCheck(c *connection) *cobra.Command {
	var f planFlags
	var from string
	var list, strict bool
	var output *format
	cmd := &cobra.Command{
		Use: "check", Short: "Find what would go wrong, before anything is touched", Args: cobra.NoArgs,
		Example: "  transplant check --host-access=local:/srv/hosts\n  transplant check --from-snapshot snapshot.yaml -o json\n  transplant check --list",
		Long:    "Check looks at the cluster and the hosts, read-only, and judges what it found. What could not be found out is unknown, and unknown blocks as a failure does.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return printChecks(c.out, output)
			}
			if err := check.ValidateAccept(f.checkOptions().Accept); err != nil {
				return err
			}
			snap, err := c.snapshotFrom(cmd.Context(), from, f.options.LeaseName)
			if err != nil {
				return err
			}
			c.header(snap.Cluster)
			report := check.Run(snap, f.checkOptions())
			err = output.print(c.out, report, map[string]func() error{
				"table": func() error { return printCheck(c.out, report, c.layoutFor(c.out, false)) },
				"wide":  func() error { return printCheck(c.out, report, c.layoutFor(c.out, true)) },
			})
			if err != nil {
				return err
			}
			if report.Summary.Blocked || strict && report.Summary.Warned > 0 {
				return withCode(exitBlocked, "")
			}
			return nil
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&from, "from-snapshot", "", "judge a snapshot in a file instead of a live cluster")
	output = formatFlag(cmd, "table", "wide", "json", "yaml")
	cmd.Flags().BoolVar(&list, "list", false, "list the checks and judge nothing")
	cmd.Flags().BoolVar(&strict, "strict", false, "warnings block too")
	return cmd
}

func newExplain(c *connection) *cobra.Command {
	return &cobra.Command{
		Use: "explain CODE", Short: "Explain a check", Args: cobra.ExactArgs(1), Example: "  transplant explain LM-001",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var codes []string
			for _, k := range check.List() {
				codes = append(codes, k.Code+"\t"+k.Title)
			}
			return codes, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			text, ok := check.Explain(args[0])
			if !ok {
				return fmt.Errorf("there is no check %q: transplant check --list names them", args[0])
			}
			_, err := fmt.Fprintln(c.out, strings.TrimSpace(text))
			return err
		},
	}
}
