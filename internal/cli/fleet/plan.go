package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/rollout"
	"github.com/transplant-dev/transplant/internal/english"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
)

// Further values of --details, next to none.
const (
	detailsShort = "short"
	detailsWhole = "whole"
)

func addWaveFlags(f *rollout.Options, cmd *cobra.Command) {
	addSelectionFlags(&f.Selection, cmd)
	o := &f.Options
	cmd.Flags().
		StringSliceVar(&o.Waves, "waves", []string{"1", "10%", "50%", "100%"}, "how many clusters are migrated when each wave is over: numbers, or percentages of all that are in the plan")
	cmd.Flags().IntVar(&o.MaxParallel, "max-parallel", 10, "how many clusters are under way at a time")
	cmd.Flags().IntVar(&o.MaxFailures, "max-failures", 0, "how many clusters may fail before no further one is started")
	cmd.Flags().
		StringVar(&o.Until, "until", fleet.UntilCompleted, "when a cluster counts as done: completed, or handover (the control plane is external; its machines are left to their owners)")
	console.DurationVar(
		cmd.Flags(),
		&f.Soak,
		"soak",
		0,
		"for how long the clusters of a wave are watched before the next one begins",
	)
	console.DurationVar(
		cmd.Flags(),
		&f.Patience,
		"patience",
		5*time.Minute,
		"for how long a cluster may be blocked, stuck since the command started, or not picked up by an operator, before it counts as failed",
	)
	cmd.Flags().
		StringSliceVar(&o.First, "first", nil, "names of clusters that come before all others, in this order; the others come by age, the oldest first")
	cmd.Flags().StringSliceVar(&o.Except, "except", nil, "names of clusters that are left out")
	cmd.Flags().
		BoolVar(&o.ReleaseHolds, "release-holds", false, "include clusters that are on hold (annotation transplant.dev/hold), and remove those holds")
	cmd.Flags().
		BoolVar(&o.RestartMachines, "restart-machines", false, "let the operator restart the MachineDeployments of every cluster that is started: its machines are replaced")
	console.Complete(cmd, "until", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{fleet.UntilCompleted, fleet.UntilHandover}, cobra.ShellCompDirectiveNoFileComp
	})
}

// addLookFlags are the flags about the plans of the clusters themselves.
func addLookFlags(f *rollout.Options, cmd *cobra.Command) {
	cmd.Flags().
		StringToStringVar(&f.Images, "image", nil, "image of the cloud-controller-manager by provider, as the operator was given: aws=...")
	cmd.Flags().IntVar(&f.Parallel, "look-parallel", 8, "into how many clusters is looked at a time")
	cmd.Flags().
		BoolVar(&f.Direct, "seed-direct", false, "reach the seed's pods directly; default: through its API server (pods/portforward)")
}

func newPlan(c *console.Console) *cobra.Command {
	var f rollout.Options
	var output *printer.Format
	details := printer.Format{Value: detailsShort, Allowed: []string{console.DetailsNone, detailsShort, detailsWhole}}
	cmd := &cobra.Command{
		Use:   "plan [CLUSTER...]",
		Short: "In which waves the clusters are migrated, and what is done to each; changes nothing",
		Example: "  transplant fleet plan   # a canary; a tenth; half; all\n" +
			"  transplant fleet plan --waves 5,100% --selector env=staging --details none\n" +
			"  transplant fleet plan --except crh4xbxz5f -o yaml > plan.yaml",
		Long: "Plan puts the clusters into waves: those of --first, then the others by age, the oldest first. So a new cluster changes no earlier wave. What is under\n" +
			"way or done keeps its place. Clusters that are created external, paused, on hold, being deleted, under both API groups or refused by the rules\n" +
			"are left out, and named.\n\n" +
			"Plan reads each cluster that is to be started as the operator will. It runs the checks and makes the plan, in the cluster's namespace of the seed and in the\n" +
			"user cluster. --details whole prints the steps of every plan; --details none looks into no cluster.",
		RunE: func(cmd *cobra.Command, names []string) error {
			f.Names = names
			return runPlan(cmd.Context(), c, &f, output, details.Value)
		},
	}
	output = console.AddFormatFlag(cmd, "text", "wide", "json", "yaml")
	cmd.Flags().Var(&details, "details", "of each cluster's own plan: none, short or whole")
	addWaveFlags(&f, cmd)
	addLookFlags(&f, cmd)
	return cmd
}

func runPlan(
	ctx context.Context,
	c *console.Console,
	f *rollout.Options,
	output *printer.Format,
	details string,
) error {
	p, objects, err := rollout.MakePlan(ctx, c.Client, f)
	if err != nil {
		return err
	}
	if details != console.DetailsNone {
		rollout.InspectMembers(ctx, c.Client, p, objects, f)
	}
	text := func(wide bool) func() error {
		return func() error {
			return printer.PrintFleetPlan(c.Out, p, c.LayoutFor(c.Out, wide), details == detailsWhole)
		}
	}
	if err := output.Print(c.Out, p, map[string]func() error{"text": text(false), "wide": text(true)}); err != nil {
		return err
	}
	if blocked := rollout.BlockedMembers(p); len(blocked) > 0 {
		return exitcode.With(
			exitcode.Blocked,
			"the checks refuse or cannot judge %s: %s",
			english.Count(len(blocked), "cluster"),
			strings.Join(blocked, ", "),
		)
	}
	return nil
}
