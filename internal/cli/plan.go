package cli

import (
	"bytes"
	"context"
	"slices"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/wholefile"
)

func newPlan(c *console.Console) *cobra.Command {
	var f client.PlanOptions
	var o planOutput
	cmd := &cobra.Command{
		Use: "plan", Short: "Print the steps of the migration, and save them", Args: cobra.NoArgs,
		Example: "  transplant plan --out plan.yaml\n  transplant plan --until leader-migration --out plan.yaml\n" +
			"  transplant plan --refresh plan.yaml\n  transplant plan --from-snapshot snapshot.yaml -o markdown > change-request.md",
		RunE: func(cmd *cobra.Command, _ []string) error { return runPlan(cmd.Context(), c, cmd, &f, o) },
	}
	console.AddPlanFlags(&f, cmd)
	console.AddProofFlags(&c.Proof, cmd.Flags())
	fl := cmd.Flags()
	fl.StringVar(&o.from, "from-snapshot", "", "plan for a snapshot in a file instead of a live cluster")
	fl.StringVar(&o.out, "out", "", "also save the plan in this file")
	console.CheckOutFile(cmd, "out")
	fl.StringVar(
		&o.until,
		"until",
		"",
		"apply stops after this step or phase, and goes on with the rest when it is run again",
	)
	fl.StringVar(
		&o.refresh,
		"refresh",
		"",
		"make the plan in this file again with its own options, and say which facts have changed",
	)
	o.format = console.AddFormatFlag(cmd, "text", "wide", "markdown", "json", "yaml")
	c.AddVerboseFlag(cmd, "also print the steps that prepare the migration, one by one; text only")
	fl.BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 2 when there is something to change")
	return cmd
}

// planOutput is where a plan comes from and goes to.
type planOutput struct {
	from, out, until, refresh string
	detailed                  bool
	format                    *printer.Format
}

func runPlan(ctx context.Context, c *console.Console, cmd *cobra.Command, f *client.PlanOptions, o planOutput) error {
	if err := console.CheckFromSnapshot(cmd, o.from, c.Proof.Asked); err != nil {
		return err
	}
	older, err := refreshed(o.refresh, f, &o)
	if err != nil {
		return err
	}
	p, report, err := run.Plan(ctx, c.Client, run.PlanOptions{Plan: *f, Snapshot: o.from, Until: o.until})
	if err != nil {
		return err
	}
	if older != nil {
		if older.Cluster.UID != p.Cluster.UID { // it would be written over
			return client.OtherCluster(o.refresh, older, p.Cluster.UID)
		}
		narrateChanged(ctx, c, o, older, p)
	}
	if o.out != "" {
		if err := client.WritePlan(o.out, p); err != nil {
			return err
		}
	} else if o.format.Value == "text" && !report.Summary.Blocked {
		c.Narrate("the plan is not saved: the same command with --out plan.yaml saves it for transplant apply plan.yaml")
	}
	if err := printMadePlan(c, o.format, p); err != nil {
		return err
	}
	if o.out != "" {
		narrateSaved(c, o.out, report.Summary.Blocked)
	}
	if report.Summary.Blocked {
		return exitcode.With(exitcode.Blocked, "this plan is blocked by %s: see transplant check", client.Blocking(report))
	}
	if o.detailed && len(p.Steps) > 0 {
		return exitcode.With(exitcode.Pending, "")
	}
	return nil
}

// narrateSaved names the file of a plan, and the next command. It comes behind the plan, which has hundreds of lines.
func narrateSaved(c *console.Console, path string, isBlocked bool) {
	next := c.Command("apply", wording.QuoteWord(path))
	if isBlocked {
		next = c.Command("check") + ", since the plan is blocked"
	}
	c.Narrate("saved %s; next: %s", path, next)
}

// printMadePlan prints a plan in one of the formats of the command plan.
func printMadePlan(c *console.Console, output *printer.Format, p *v1.Plan) error {
	return output.Print(c.Out, p, map[string]func() error{
		"text":     func() error { return c.ShowPlan(p, client.PlanView{Answer: true, Made: true}) },
		"wide":     func() error { return printer.PrintPlan(c.Out, p, c.LayoutFor(c.Out, true)) },
		"markdown": func() error { return printer.PlanMarkdown(c.Out, p) },
	})
}

// refreshed reads the plan that is made again, whose options count again; it is saved where it was, unless another file
// is named.
func refreshed(path string, f *client.PlanOptions, o *planOutput) (*v1.Plan, error) {
	if path == "" {
		return nil, nil
	}
	p, err := client.ReadPlan(path)
	if err != nil {
		return nil, err
	}
	if err := client.CheckAgainstFile(f.Given, f.Options, p.Options, path); err != nil {
		return nil, err
	}
	f.Options = p.Options
	f.AcceptAs(p)
	if o.until == "" {
		o.until = p.Until
	}
	if o.out == "" {
		o.out = path
	}
	return p, nil
}

// narrateChanged says which facts of the older plan have changed, and who wrote them last. A snapshot does not say who.
func narrateChanged(ctx context.Context, c *console.Console, o planOutput, older, newer *v1.Plan) {
	changed := compare.ChangedFacts(older, newer)
	if len(changed) == 0 {
		c.Narrate("every fact of %s still holds", o.refresh)
		return
	}
	var ids []string
	for _, f := range older.Facts {
		if slices.ContainsFunc(changed, func(change compare.FactChange) bool { return change.ID == f.ID }) {
			ids = append(ids, f.ID)
		}
	}
	var writes map[string]string
	if o.from == "" {
		writes = run.LastWrites(ctx, c.Client, older, ids)
	}
	c.Narrate("%s of %s changed:", english.Count(len(changed), "fact"), o.refresh)
	for _, change := range changed {
		c.Narrate("  %s%s", change.Text, writes[change.ID])
	}
}

func newSnapshot(c *console.Console) *cobra.Command {
	var out string
	var output *printer.Format
	options := v1.Options{LeaseName: component.MigrationLease}
	cmd := &cobra.Command{
		Use: "snapshot", SuggestFor: []string{"inventory"}, Short: "Save every fact that check and plan look at, without secrets", Args: cobra.NoArgs,
		Example: "  transplant snapshot --out snapshot.yaml\n  transplant check --from-snapshot snapshot.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := console.CheckFromSnapshot(cmd, "", c.Proof.Asked); err != nil {
				return err
			}
			s, err := c.SnapshotFrom(cmd.Context(), "", options)
			if err != nil {
				return err
			}
			c.NameCluster(s.Cluster)
			var b bytes.Buffer
			write := func() error { return snapshot.Save(&b, s) }
			if output.String() == "json" {
				write = func() error { return output.Print(&b, s, nil) }
			}
			if err := write(); err != nil {
				return err
			}
			if len(s.Errors) > 0 {
				c.Narrate("not gathered: %s, listed under errors", english.Count(len(s.Errors), "fact"))
			}
			if out == "" {
				_, err = c.Out.Write(b.Bytes())
				return err
			}
			if err := wholefile.Write(out, b.Bytes(), 0o600); err != nil {
				return err
			}
			c.Narrate("saved %s", out)
			return nil
		},
	}
	console.AddProofFlags(&c.Proof, cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "file (default: standard output)")
	console.CheckOutFile(cmd, "out")
	cmd.Flags().
		StringArrayVar(&options.Env, "ccm-env", nil, "also look for the file that this environment of the cloud-controller-manager names, NAME=FILE; {host} stands for the host's name")
	output = console.AddFormatFlag(cmd, "yaml", "json")
	return cmd
}
