package fleet

import (
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/rollout"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/english"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/mask"
)

func newApply(c *console.Console) *cobra.Command {
	var f rollout.Options
	yes, dryRun := false, false
	details := printer.Format{
		Value:   console.DetailsNone,
		Allowed: []string{console.DetailsNone, detailsShort, detailsWhole},
	}
	cmd := &cobra.Command{
		Use:   "apply [CLUSTER...]",
		Short: "Start the migrations of the clusters wave by wave, and watch them; go on with what was started",
		Example: "  transplant fleet apply --waves 1,10%,50%,100% --soak 30m\n" +
			"  transplant fleet apply --selector env=staging --until handover --max-failures 2 --yes",
		Long: "Apply starts a cluster by switching its feature externalCloudProvider on, or by removing a hold of fleet's own. The operator executes the migration,\n" +
			"after its own checks. With --details whole it executes the printed steps and no others. Apply follows the objects and starts the next clusters as\n" +
			"others are done. A wave begins when all of the one before are done and have been watched for --soak. It stops starting clusters when more than\n" +
			"--max-failures have failed, were blocked for longer than --patience, or take longer than they may.\n" +
			"A cluster that is blocked or late already when apply starts gets --patience, too: an administrator may just have fixed it.\n\n" +
			"Nothing is kept but the objects themselves: after an interruption of any kind, from any machine, the same command goes on. At Ctrl-C no further cluster is\n" +
			"started; those under way are carried on by the operator. A feature that was switched on cannot be switched off again.\n\n" +
			"With -o jsonl, each wave, and each cluster that starts, goes on, is done or fails, is a line on standard output. Where no reader of them is left, no further\n" +
			"cluster is started.",
		RunE: func(cmd *cobra.Command, names []string) error {
			f.Names = names
			return runApply(cmd.Context(), c, &f, details.Value, yes, dryRun)
		},
	}
	c.AddEventsFlag(cmd)
	cmd.Flags().
		Var(&details, "details", "look into each cluster before anything is asked: none (the operator checks each before it begins), short or whole")
	cmd.Flags().BoolVar(&yes, "yes", false, console.YesUsage)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the plan and change nothing")
	addWaveFlags(&f, cmd)
	addLookFlags(&f, cmd)
	return cmd
}

func runApply(ctx context.Context, c *console.Console, f *rollout.Options, details string, yes, dryRun bool) error {
	ctx, end := c.UntilUnread(ctx)
	defer signal.Reset(syscall.SIGPIPE)
	defer end()
	p, read, err := rollout.MakePlan(ctx, c.Client, f)
	if err != nil {
		return err
	}
	if details != console.DetailsNone {
		rollout.InspectMembers(ctx, c.Client, p, read, f)
	}
	if err := showPlan(c, p, details == detailsWhole, dryRun); err != nil {
		return err
	}
	if blocked := rollout.BlockedMembers(p); len(blocked) > 0 {
		return exitcode.With(
			exitcode.Blocked,
			"the checks refuse or cannot judge %s: %s; nothing was changed. Fix what they name, or leave the clusters out with --except",
			english.Count(len(blocked), "cluster"),
			strings.Join(blocked, ", "),
		)
	}
	if dryRun {
		return nil
	}
	if start := len(fleet.Names(p.Waves)); start > 0 {
		if err := c.Approve(client.Question{
			Yes: yes,
			What: fmt.Sprintf(
				"start the migration of %s of the seed (context %s, server %s), wave by wave; the feature that starts it cannot be switched off again",
				english.Count(start, "cluster"),
				wording.OrDash(c.Context),
				wording.OrDash(mask.Server(c.Config.Host)),
			),
			Word: c.Context,
		}); err != nil {
			return err
		}
	}
	return rollout.Run(ctx, c.Client, p, rollout.RunOptions{Whole: details == detailsWhole, Report: c.WriteEvent})
}

// showPlan shows the waves before one of them starts. With --dry-run they are the answer, which events give already.
func showPlan(c *console.Console, p *v1.FleetPlan, whole, dryRun bool) error {
	c.WriteEvent(v1.RunEvent{Type: v1.EventPlan, FleetPlan: p})
	w := c.Err
	switch {
	case dryRun && c.HasEvents():
		return nil
	case dryRun:
		w = c.Out
	}
	return printer.PrintFleetPlan(w, p, c.LayoutFor(w, false), whole)
}
