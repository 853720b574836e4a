package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/roster"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
)

// fleetManager is the field manager of what fleet apply writes.
const fleetManager = "transplant-fleet"

func newFleetApply(c *connection) *cobra.Command {
	var f waving
	yes, dryRun := false, false
	details := format{value: detailsNone, allowed: []string{detailsNone, detailsShort, detailsWhole}}
	cmd := &cobra.Command{
		Use: "apply [CLUSTER...]", Short: "Start the migrations of the clusters wave by wave, and watch them; go on with what was started",
		Example: "  transplant fleet apply --waves 1,10%,50%,100% --soak 30m\n" +
			"  transplant fleet apply --selector env=staging --until handover --max-failures 2 --yes",
		Long: "Apply starts a cluster by switching its feature externalCloudProvider on, or by taking a hold of fleet's own off. The operator carries the migration out,\n" +
			"after its own checks, and with --details whole by the steps that were printed and by no others; apply follows the objects and starts the next clusters as\n" +
			"others are done. A wave begins when all of the one before are done and have been watched for --soak. It stops starting clusters when more than\n" +
			"--max-failures have failed, were blocked for longer than --patience, or take longer than they may (those that do when it begins get --patience, too: somebody\n" +
			"may just have mended them).\n\n" +
			"Nothing is kept but the objects themselves: after an interruption of any kind, from any machine, the same command goes on. At Ctrl-C no further cluster is\n" +
			"started; those under way are carried on by the operator. A feature that was switched on cannot be switched off again.",
		RunE: func(cmd *cobra.Command, names []string) error {
			f.names = names
			return c.fleetApply(cmd.Context(), &f, details.value, yes, dryRun)
		},
	}
	cmd.Flags().Var(&details, "details", "look into each cluster before anything is asked: none (the operator checks each before it begins), short or whole")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the plan and change nothing")
	f.flags(cmd)
	f.lookingInto(cmd)
	return cmd
}

func (c *connection) fleetApply(ctx context.Context, f *waving, details string, yes, dryRun bool) error {
	p, read, err := c.makeFleetPlan(ctx, f)
	if err != nil {
		return err
	}
	if details != detailsNone {
		c.lookInto(ctx, p, read, f)
	}
	w := c.err
	if dryRun {
		w = c.out
	}
	if err := printFleetPlan(w, p, c.layoutFor(w, false), details == detailsWhole); err != nil {
		return err
	}
	if blocked := fleetBlocked(p); len(blocked) > 0 {
		return withCode(exitBlocked, "the checks refuse or cannot judge %s: %s; nothing was changed. Mend what they name, or leave the clusters out with --except", count(len(blocked), "cluster"), strings.Join(blocked, ", "))
	}
	if dryRun {
		return nil
	}
	if start := len(fleet.Names(p.Waves)); start > 0 {
		if err := c.approve(yes, fmt.Sprintf("start the migration of %s, wave by wave", count(start, "cluster"))); err != nil {
			return err
		}
	}
	return c.rollOut(ctx, p, details == detailsWhole)
}

// rollOut follows the clusters and starts those whose turn it is, until all are done, or too many have failed. Whole says that the steps of each were shown
// before somebody approved: the operator then begins with no others.
func (c *connection) rollOut(ctx context.Context, p *v1.FleetPlan, whole bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := rolling{c: c, whole: whole, rollout: fleet.Rollout{Waves: p.Waves, Options: p.Options, Begun: time.Now().Add(c.traffic.Offset())}, started: fleet.Started{}, tries: map[fleet.Key]int{}, said: map[fleet.Key]string{}}
	err := c.eachChange(ctx, func(following *roster.Following) (bool, error) { return r.look(ctx, following) })
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return withCode(exitInterrupted, "interrupted: no further cluster is started; %s under way, which the operator carries on\nto go on: run the same command again", are(r.last.Running))
	}
	return err
}

func are(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// rolling is a rollout that is followed.
type rolling struct {
	c       *connection
	whole   bool
	rollout fleet.Rollout
	started fleet.Started
	// tries counts the writes of a cluster's start that did not come through.
	tries map[fleet.Key]int
	// said are the lines about members that were last written, wave and soak what was said of the rollout.
	said map[fleet.Key]string
	wave int
	soak time.Time
	last fleet.Next
}

func (r *rolling) look(ctx context.Context, f *roster.Following) (bool, error) {
	all, _ := f.List()
	rows := fleet.Rows(all)
	now := time.Now().Add(r.c.traffic.Offset()) // the time of the API server, by which the objects' times are
	n := r.rollout.Next(rows, r.started, now)
	r.last = n
	r.tell(rows, n, now)
	if n.Finished {
		return true, r.end(n)
	}
	for _, m := range n.Start {
		if ctx.Err() != nil {
			return false, nil
		}
		r.start(ctx, all, m, now)
	}
	return false, nil
}

// maxTries is how often the start of a cluster is tried when it does not come through, or the object is another one by then.
const maxTries = 10

// start starts one cluster. Whether that is still right is judged anew from the objects where the write was refused because they have changed.
func (r *rolling) start(ctx context.Context, all []fleet.Object, m v1.FleetMember, now time.Time) {
	key := fleet.Key{Group: m.Group, Name: m.Name}
	for _, o := range all {
		if o.Key() != key {
			continue
		}
		change := startCluster(o, r.rollout.Options)
		if r.whole && m.Plan != nil {
			change.Annotate(kubermaticv1.AnnotationPlan, hosted.Confirmation(m.Plan.Steps))
		}
		_, err := change.Apply(ctx, r.c.dynamic, fleetManager)
		switch {
		case err == nil:
			r.started[key] = fleet.Start{At: now}
			r.line(now, key, "started")
		case ctx.Err() != nil:
		case final(err):
			r.started[key] = fleet.Start{At: now, Error: "starting it was refused: " + mask.Error(err)}
		default:
			if r.tries[key]++; r.tries[key] >= maxTries {
				r.started[key] = fleet.Start{At: now, Error: "starting it did not come through: " + mask.Error(err)}
			}
		}
	}
}

// final tells that trying again is of no use: the API server has understood the write and refused it.
func final(err error) bool {
	return !objects.IsStale(err) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err))
}

// startCluster is the change of a Cluster that starts its migration.
func startCluster(o fleet.Object, options v1.FleetOptions) *objects.Change {
	change := objects.Of(o.Group, o.Cluster)
	if !o.Cluster.External() {
		change.Feature(kubermaticv1.FeatureExternalCloudProvider, true)
	}
	if _, held := o.Cluster.Annotations[kubermaticv1.AnnotationHold]; held {
		change.Unannotate(kubermaticv1.AnnotationHold)
	}
	if options.RestartMachines {
		change.Annotate(kubermaticv1.AnnotationRestartMachines, "true")
	}
	return change
}

// tell writes what has changed: a line for each member whose phase or message is another one, and one for each wave.
func (r *rolling) tell(rows []v1.FleetCluster, n fleet.Next, now time.Time) {
	if n.Wave != r.wave && n.Wave > 0 && !n.Stopped {
		r.wave = n.Wave
		w := r.rollout.Waves[n.Wave-1]
		r.c.narrate("%s wave %d of %d: %s", now.Format("15:04:05"), w.Number, len(r.rollout.Waves), count(len(w.Clusters), "cluster"))
	}
	if !n.SoakUntil.IsZero() && !n.SoakUntil.Equal(r.soak) {
		r.soak = n.SoakUntil
		r.c.narrate("%s the clusters that are done are watched until %s", now.Format("15:04:05"), n.SoakUntil.Format("15:04:05"))
	}
	for _, row := range rows {
		key := fleet.Key{Group: row.Group, Name: row.Name}
		if r.waveOf(key) == 0 || row.Standing == v1.StandingNotEnabled {
			continue
		}
		line := fleetPhase(row)
		if row.Message != "" {
			line += " · " + row.Message
		}
		if r.said[key] != line {
			r.said[key] = line
			r.line(now, key, line)
		}
	}
}

func (r *rolling) line(at time.Time, key fleet.Key, what string) {
	r.c.narrate("%s %s · %s", at.Format("15:04:05"), key, strings.Join(strings.Fields(what), " "))
}

// waveOf is the wave that a cluster is in; 0 for none.
func (r *rolling) waveOf(key fleet.Key) int {
	for _, w := range r.rollout.Waves {
		for _, m := range w.Clusters {
			if (fleet.Key{Group: m.Group, Name: m.Name}) == key {
				return w.Number
			}
		}
	}
	return 0
}

// end says what the rollout came to.
func (r *rolling) end(n fleet.Next) error {
	for _, l := range n.Left {
		r.c.narrate("passed over: %s: %s", fleet.Key{Group: l.Group, Name: l.Name}, l.Reason)
	}
	for _, l := range n.Failed {
		r.c.narrate("failed: %s: %s", fleet.Key{Group: l.Group, Name: l.Name}, l.Reason)
	}
	sum := fmt.Sprintf("%d done, %d failed, %d passed over, %d under way, %d not started", n.Done, len(n.Failed), n.Skipped, n.Running, n.ToDo)
	if n.Stopped {
		last := n.Failed[len(n.Failed)-1]
		return withCode(r.stoppedCode(n), "stopped in wave %d: %s\nwhat is under way is carried on by the operator; when the failed ones are mended, or left out with --except, the same command goes on", r.waveOf(fleet.Key{Group: last.Group, Name: last.Name}), sum)
	}
	r.c.narrate("%s\nnext: transplant fleet status", sum)
	return nil
}

// stoppedCode is 3 when all that failed was refused by checks, since nothing was changed there.
func (r *rolling) stoppedCode(n fleet.Next) int {
	for _, l := range n.Failed {
		if !strings.HasPrefix(l.Reason, "blocked: ") {
			return exitError
		}
	}
	return exitBlocked
}
