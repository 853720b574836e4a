package cli

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
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/visible"
)

func newCheck(c *console.Console) *cobra.Command {
	var f client.PlanOptions
	var from string
	var list bool
	var shown console.ReportFilter
	var wait time.Duration
	var output *printer.Format
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find what would go wrong, before anything is touched",
		Args:  cobra.NoArgs,
		Example: "  transplant check --cloud=aws\n  transplant check --cloud=aws --wait=10m --problems\n" +
			"  transplant check --from-snapshot snapshot.yaml -o json\n  transplant check --list",
		Long: "Check looks at the cluster and the hosts, and judges what it found. What could not be found out is unknown, and unknown blocks like a failure.\n" +
			"It changes nothing on hosts. With --host-access=pod, the default, it starts a Job and a pod on each Linux node, and deletes them when it ends.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return listChecks(c, cmd, output)
			}
			if err := validateCheck(c, cmd, from, output, wait); err != nil {
				return err
			}
			report, err := run.Check(
				cmd.Context(),
				c.Client,
				run.CheckOptions{
					Plan:     f,
					Snapshot: from,
					Strict:   shown.Strict,
					Wait:     wait,
				},
			)
			isStillBlocked := errors.Is(err, client.ErrStillBlocked)
			if err != nil && !isStillBlocked {
				return err
			}
			c.NameCluster(report.Cluster)
			for _, code := range report.StaleAcceptances {
				c.Narrate("--accept %s is not needed: nothing of that check blocks; take it back", code)
			}
			if output.Value == "table" || output.Value == "wide" {
				flags := console.GivenWords(cmd, append(slices.Collect(maps.Keys(client.PlanOptionFlags)), "accept")...)
				shown.Next = run.AfterCheck(cmd.Context(), c.Client, from, append(flags, c.GivenWords()...))
			}
			if err := c.PrintReport(output, report, shown); err != nil {
				return err
			}
			return console.EndCheck(report, isStillBlocked, wait)
		},
	}
	console.AddPlanFlags(&f, cmd)
	fl := cmd.Flags()
	fl.StringVar(&from, "from-snapshot", "", "judge a snapshot in a file instead of a live cluster")
	output = console.AddFormatFlag(cmd, "table", "wide", "json", "yaml", "junit")
	console.AddProofFlags(&c.Proof, fl)
	fl.BoolVar(&list, "list", false, "list the checks and judge nothing")
	fl.BoolVar(&shown.Strict, "strict", false, "warnings block too, except those of level info; --accept takes one")
	fl.BoolVar(&shown.Problems, "problems", false, "print only what did not pass (table and wide)")
	c.AddVerboseFlag(cmd, "also print what passed (table)")
	console.DurationVar(
		fl,
		&wait,
		"wait",
		0,
		"look again until nothing blocks, for this long at most; ends at once if what blocks does not pass by itself. Without a value: 5m",
	)
	fl.Lookup("wait").NoOptDefVal = "5m"
	return cmd
}

// listChecks prints what is judged, and refuses the flags of a judgement.
func listChecks(c *console.Console, cmd *cobra.Command, output *printer.Format) error {
	judging := []string{"from-snapshot", "prove", "preview-cloud-config", "strict", "problems", "verbose", "wait", "accept"}
	if err := console.RefuseFlags(cmd, "--list judges nothing", append(judging, console.LiveFlags...)...); err != nil {
		return err
	}
	return printer.PrintChecks(c.Out, output, c.LayoutFor(c.Out, false))
}

// validateCheck refuses flags that would have no effect.
func validateCheck(
	c *console.Console,
	cmd *cobra.Command,
	from string,
	output *printer.Format,
	wait time.Duration,
) error {
	if err := console.CheckFromSnapshot(cmd, from, c.Proof.Asked); err != nil {
		return err
	}
	if console.BoolFlag(cmd, "problems") && !c.TellsRequests {
		if err := console.RefuseFlags(cmd, "--problems leaves out what passed", "verbose"); err != nil {
			return err
		}
	}
	if text := output.String(); text != "table" && text != "wide" {
		if err := console.RefuseFlags(cmd, "-o "+text+" has every finding", "problems"); err != nil {
			return err
		}
	}
	if from != "" && wait > 0 {
		return errors.New("a snapshot in a file does not change: give --wait or --from-snapshot")
	}
	return nil
}

func newExplain(c *console.Console) *cobra.Command {
	var from string
	var f client.PlanOptions
	var output *printer.Format
	cmd := &cobra.Command{
		Use:     "explain [CODE]",
		Short:   "Explain a check, and what it says of a cluster; without a code, list them",
		Args:    cobra.MaximumNArgs(1),
		Example: "  transplant explain\n  transplant explain LM-001\n  transplant explain NODE-002 --from-snapshot snapshot.yaml",
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return console.CompleteCodes(typed, ""), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && from != "" {
				return errors.New("--from-snapshot needs the code of the check that judges it; transplant check judges by all of them")
			}
			if err := console.CheckFromSnapshot(cmd, from, false); err != nil {
				return err
			}
			if from == "" {
				if err := console.RefuseFlags(
					cmd,
					"no cluster is judged without --from-snapshot",
					append(slices.Collect(maps.Keys(client.PlanOptionFlags)), "accept")...); err != nil {
					return err
				}
			}
			if len(args) == 0 {
				list := *output
				if list.Value == "text" {
					list.Value = "table"
				}
				return printer.PrintChecks(c.Out, &list, c.LayoutFor(c.Out, false))
			}
			code := check.CodeOf(args[0])
			text, ok := check.Explain(code)
			if !ok {
				return console.UnknownCode(code)
			}
			return explainCheck(cmd.Context(), c, code, text, from, &f, output)
		},
	}
	console.AddPlanFlags(&f, cmd)
	cmd.Flags().StringVar(&from, "from-snapshot", "", "also judge the snapshot in this file")
	output = console.AddFormatFlag(cmd, "text", "json", "yaml")
	return cmd
}

// explainCheck prints what a check is about, and what it finds in a snapshot if one is named.
func explainCheck(
	ctx context.Context,
	c *console.Console,
	code, text, from string,
	f *client.PlanOptions,
	output *printer.Format,
) error {
	k, _ := check.Find(code)
	doc := v1.Explanation{
		TypeMeta: v1.Type(v1.KindExplanation),
		Check:    printer.CheckInfo(k),
		Text:     strings.TrimSpace(text),
	}
	if from != "" {
		snap, err := c.SnapshotFrom(ctx, from, f.Options)
		if err != nil {
			return err
		}
		if err := f.Choose(c.Client, snap); err != nil {
			return err
		}
		report := check.Run(snap, f.CheckOptions())
		check.Only(&report, code)
		client.NameDocs(report.Findings)
		doc.Report = &report
	}
	return output.Print(c.Out, doc, map[string]func() error{"text": func() error {
		l := c.LayoutFor(c.Out, true)
		if _, err := fmt.Fprint(c.Out, l.Plain(l.Paragraphs(doc.Text))); err != nil || doc.Report == nil {
			return err
		}
		visible.Fprintf(c.Out, "\nIn the cluster of %s, at %s:\n", from, doc.Report.TakenAt.Format(time.RFC3339))
		return printer.PrintFindings(c.Out, *doc.Report, l)
	}})
}
