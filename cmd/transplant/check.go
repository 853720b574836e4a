package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
)

func newCheck(c *connection) *cobra.Command {
	var f planFlags
	var from string
	var list bool
	var shown showing
	var wait time.Duration
	var output *format
	cmd := &cobra.Command{
		Use: "check", Short: "Find what would go wrong, before anything is touched", Args: cobra.NoArgs,
		Example: "  transplant check\n  transplant check --wait=10m --problems\n" +
			"  transplant check --from-snapshot snapshot.yaml -o json\n  transplant check --list",
		Long: "Check looks at the cluster and the hosts, read-only, and judges what it found. What could not be found out is unknown, and unknown blocks as a failure does.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return c.listChecks(cmd, output)
			}
			if err := c.validateCheck(cmd, from, output, wait); err != nil {
				return err
			}
			if err := check.ValidateAccept(f.checkOptions().Accept); err != nil {
				return err
			}
			look := func(ctx context.Context) (v1.CheckReport, error) {
				snap, err := c.snapshotFrom(ctx, from, f.options)
				if err != nil {
					return v1.CheckReport{}, err
				}
				if err := f.choose(c, snap); err != nil {
					return v1.CheckReport{}, err
				}
				report := check.Run(snap, f.checkOptions())
				if shown.strict {
					check.Strict(&report, f.checkOptions())
				}
				return report, nil
			}
			report, err := c.waitFor(cmd.Context(), wait, shown.strict, look)
			inVain := errors.Is(err, errWaitedInVain)
			if err != nil && !inVain {
				return err
			}
			c.header(report.Cluster)
			for _, code := range report.StaleAcceptances {
				c.narrate("--accept %s is not needed: nothing of that check blocks; take it back", code)
			}
			if err := c.printReport(output, report, shown); err != nil {
				return err
			}
			switch {
			case inVain:
				return withCode(exitTimeout, "waited %s: what blocks may still pass by itself; run the same command again to go on waiting", wait)
			case report.Summary.Blocked:
				return withCode(exitBlocked, "")
			}
			return nil
		},
	}
	f.flags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&from, "from-snapshot", "", "judge a snapshot in a file instead of a live cluster")
	output = formatFlag(cmd, "table", "wide", "json", "yaml", "junit")
	c.proof.flags(fl)
	fl.BoolVar(&list, "list", false, "list the checks and judge nothing")
	fl.BoolVar(&shown.strict, "strict", false, "warnings block too, but for those of level info; --accept lives with one")
	fl.BoolVar(&shown.problems, "problems", false, "print only what did not pass (table and wide)")
	fl.DurationVar(&wait, "wait", 0, "look again for as long as all that blocks may pass by itself; --wait alone waits 5m")
	fl.Lookup("wait").NoOptDefVal = "5m"
	complete(cmd, "accept", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return completeCodes("="), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	return cmd
}

// listChecks prints what is judged, and refuses the flags of a judgement.
func (c *connection) listChecks(cmd *cobra.Command, output *format) error {
	judging := []string{"from-snapshot", "prove", "preview-cloud-config", "strict", "problems", "wait", "accept"}
	if err := refuseFlags(cmd, "--list judges nothing", append(judging, liveFlags...)...); err != nil {
		return err
	}
	return printChecks(c.out, output)
}

// validateCheck refuses flags that would have no effect.
func (c *connection) validateCheck(cmd *cobra.Command, from string, output *format, wait time.Duration) error {
	if err := checkFromSnapshot(cmd, from, c.proof.asked); err != nil {
		return err
	}
	if text := output.String(); text != "table" && text != "wide" {
		if err := refuseFlags(cmd, "-o "+text+" has every finding", "problems"); err != nil {
			return err
		}
	}
	if from != "" && wait > 0 {
		return errors.New("a snapshot in a file does not change: give --wait or --from-snapshot")
	}
	return nil
}

// showing is what check prints of a report: problems alone, and warnings as what blocks.
type showing struct{ problems, strict bool }

// printReport prints a report in one of the formats of check.
func (c *connection) printReport(output *format, report v1.CheckReport, shown showing) error {
	text := func(wide bool) func() error {
		return func() error {
			l := c.layoutFor(c.out, wide)
			l.problems, l.strict = shown.problems, shown.strict
			return printCheck(c.out, report, l)
		}
	}
	return output.print(c.out, report, map[string]func() error{
		"table": text(false), "wide": text(true), "junit": func() error { return printJUnit(c.out, report) },
	})
}

func newExplain(c *connection) *cobra.Command {
	var from string
	var f planFlags
	cmd := &cobra.Command{
		Use: "explain CODE", Short: "Explain a check, and what it says of a cluster", Args: cobra.ExactArgs(1),
		Example: "  transplant explain LM-001\n  transplant explain NODE-002 --from-snapshot snapshot.yaml",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return completeCodes(""), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, ok := check.Explain(args[0])
			if !ok {
				return fmt.Errorf("there is no check %q: transplant check --list names them", args[0])
			}
			if err := checkFromSnapshot(cmd, from, false); err != nil {
				return err
			}
			if from == "" {
				if err := refuseFlags(cmd, "no cluster is judged without --from-snapshot", append(slices.Collect(maps.Keys(planOptionFlags)), "accept")...); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintln(c.out, strings.TrimSpace(text)); err != nil || from == "" {
				return err
			}
			snap, err := c.snapshotFrom(cmd.Context(), from, f.options)
			if err != nil {
				return err
			}
			if err := f.choose(c, snap); err != nil {
				return err
			}
			report := check.Run(snap, f.checkOptions())
			report.Findings = slices.DeleteFunc(report.Findings, func(f v1.Finding) bool { return !strings.EqualFold(f.Code, args[0]) })
			fmt.Fprintf(c.out, "\nIn the cluster of %s, at %s:\n", from, report.TakenAt.Format(time.RFC3339))
			return printFindings(c.out, report, c.layoutFor(c.out, true))
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&from, "from-snapshot", "", "also judge the snapshot in this file")
	return cmd
}

// completeCodes are the codes of all checks with what follows each, for the shell.
func completeCodes(suffix string) []string {
	var codes []string
	for _, k := range check.List() {
		codes = append(codes, k.Code+suffix+"\t"+k.Title)
	}
	return codes
}

// complete registers what the shell may put behind a flag.
func complete(cmd *cobra.Command, flag string, words cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic(err) // the flag is the command's own
	}
}
