// Package cli is the command line of transplant: its commands and their flags. What a command does is in
// internal/client.
package cli

import (
	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func addRunFlags(c *console.Console, f *run.Options, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.Yes, "yes", false, console.YesUsage)
	console.AddDryRunFlag(cmd, &f.DryRun, &f.AskServer)
	cmd.Flags().BoolVar(&f.Steal, "steal-lock", false, "take the lock without looking whether its holder renews it: only if you know that it has ended")
	addWithoutFlag(f, cmd)
	addObjectivesFlag(f, cmd)
	console.AddPinFlag(&f.Pinned, cmd)
	c.AddVerboseFlag(cmd, "also show the steps that prepare, one by one, and what passed where findings block")
}

func newApply(c *console.Console) *cobra.Command {
	var o run.ApplyOptions
	cmd := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "Apply a plan, or continue the one that was started",
		Args:  cobra.MaximumNArgs(1),
		Example: "  transplant apply            # check, plan, ask, execute\n" +
			"  transplant apply plan.yaml  # execute a plan that was reviewed",
		Long: "Apply checks the cluster, makes a plan (or takes the one in the file), asks, and executes it step by step. After an interruption of any kind the\n" +
			"same command goes on where it stopped; --until stops after a step or a phase. Ctrl-C finishes the current step first; a second Ctrl-C stops at once.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.Connect(); err != nil {
				return err
			}
			if len(args) == 1 {
				o.File = args[0]
			}
			return console.SuggestNodes(run.Apply(cmd.Context(), c.Client, o))
		},
	}
	c.AddEventsFlag(cmd)
	addRunFlags(c, &o.Options, cmd)
	console.AddPlanFlags(&o.Plan, cmd)
	console.CheckPlanArgument(cmd)
	console.CheckBefore(cmd, func(_ *cobra.Command, args []string) error {
		if len(args) == 0 || o.Until == "" {
			return nil
		}
		p, err := client.ReadPlan(args[0])
		if err == nil {
			_, err = planstep.Until(p, o.Until)
		}
		return err
	})
	console.AddProbeFlag(&c.Probes, cmd)
	cmd.Flags().
		StringSliceVar(&o.Nodes, "node", nil, "go on with the steps of this worker alone; the same command without it goes on with the others (repeatable)")
	cmd.Flags().
		StringVar(&o.Until, "until", "", "stop after this step or phase; the same command without it goes on with the rest")
	return cmd
}

func newRollback(c *console.Console) *cobra.Command {
	var f run.Options
	var accept []string
	cmd := &cobra.Command{
		Use: "rollback", Short: "Return to the in-tree manager, from any step", Args: cobra.NoArgs,
		Example: "  transplant rollback",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.Accepted, err = client.AcceptedObjects(accept); err != nil {
				return err
			}
			if err := c.Connect(); err != nil {
				return err
			}
			return run.Rollback(cmd.Context(), c.Client, f)
		},
	}
	c.AddEventsFlag(cmd)
	addRunFlags(c, &f, cmd)
	console.AddKubeletFlags(cmd.Flags(), &f.Kubelets)
	console.AddProbeFlag(&c.Probes, cmd)
	cmd.Flags().
		StringArrayVar(&accept, "accept", nil, `live with a difference that the verification at the end finds, OBJECT="reason" or "OBJECT FIELD=reason"`)
	return cmd
}

// objectivesFlag is --slo.
type objectivesFlag struct {
	printer.Format
	ignore *bool
}

// Type implements pflag.Value.
func (f *objectivesFlag) Type() string { return "word" }

// Set implements pflag.Value.
func (f *objectivesFlag) Set(s string) error {
	if err := f.Format.Set(s); err != nil {
		return err
	}
	*f.ignore = f.Value == objectives.FlagOff
	return nil
}

// addObjectivesFlag says what a breach of the objectives does to the run.
func addObjectivesFlag(f *run.Options, cmd *cobra.Command) {
	words := []string{objectives.FlagPause, objectives.FlagOff}
	value := &objectivesFlag{printer.Format{Value: objectives.FlagPause, Allowed: words}, &f.IgnoreObjectives}
	cmd.Flags().
		Var(value, "slo", "pause: the run waits when load balancers begin to fail, or node syncs do (objectives of KEP-2395); off: it only says so")
	console.Complete(cmd, "slo", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// addWithoutFlag names the hosts that are gone for good.
func addWithoutFlag(f *run.Options, cmd *cobra.Command) {
	cmd.Flags().
		StringSliceVar(&f.Without, "without-host", nil, "go on without this host, which is gone for good: its steps are skipped, and it must not come back as it was (repeatable)")
}
