// Package rollout migrates the clusters of a seed in waves: which are selected, what is planned for each, and which
// one is started next.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/roster"
	fleet "github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/mask"
)

// fieldManager is the field manager of what fleet apply writes.
const fieldManager = "transplant-fleet"

// RunOptions say what a rollout is bound to, and where its events go.
type RunOptions struct {
	// Whole says that the steps of each cluster were shown before the approval: the operator then starts with no others.
	Whole bool
	// Report is given what happens, for programs; nil reports nothing.
	Report func(v1.RunEvent)
}

// Run follows the clusters and starts those whose turn it is, until all are done, or too many have failed.
func Run(ctx context.Context, c *client.Client, p *v1.FleetPlan, o RunOptions) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := rolloutWatch{
		c:       c,
		whole:   o.Whole,
		report:  o.Report,
		rollout: fleet.Rollout{Waves: p.Waves, Options: p.Options, Begun: time.Now().Add(c.Traffic.Offset())},
		started: fleet.Started{},
		tries:   map[fleet.Key]int{},
		said:    map[fleet.Key]string{},
		ends:    map[fleet.Key]memberEnd{},
	}
	if r.report == nil {
		r.report = func(v1.RunEvent) {}
	}
	err := EachChange(ctx, c, func(following *roster.Following) (bool, error) { return r.update(ctx, following) })
	if r.judged {
		r.reportTotals()
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return exitcode.With(
			exitcode.Interrupted,
			"interrupted: no further cluster is started; %s under way, which the operator carries on\nto go on: run the same command again",
			strconv.Itoa(r.last.Running)+english.Word(r.last.Running, " is", " are"),
		)
	}
	return err
}

// rolloutWatch is a rollout that is followed.
type rolloutWatch struct {
	c       *client.Client
	whole   bool
	report  func(v1.RunEvent)
	rollout fleet.Rollout
	started fleet.Started
	// tries counts the writes of a cluster's start that did not come through.
	tries map[fleet.Key]int
	// said are the lines about members that were last written, wave and soak what was said of the rollout.
	said map[fleet.Key]string
	wave int
	soak time.Time
	last fleet.Next
	// ends are the members that were reported as finished; judged reports whether the members were judged at least once.
	ends   map[fleet.Key]memberEnd
	judged bool
}

func (r *rolloutWatch) update(ctx context.Context, f *roster.Following) (bool, error) {
	all, _ := f.List()
	rows := fleet.Rows(all)
	now := time.Now().Add(r.c.Traffic.Offset()) // the time of the API server, by which the objects' times are
	n := r.rollout.Next(rows, r.started, now)
	r.last = n
	r.printMembers(rows, now)
	r.reportEnds(rows, n)
	r.printWave(n, now)
	if n.Finished {
		return true, r.reportOutcome(n)
	}
	for _, m := range n.Start {
		if ctx.Err() != nil {
			return false, nil
		}
		r.start(ctx, all, m, r.place(rows, m), now)
	}
	return false, nil
}

// start starts one cluster. Whether that is still right is judged again from the objects where the write was refused
// because they have changed.
func (r *rolloutWatch) start(ctx context.Context, all []fleet.Object, m v1.FleetMember, place string, now time.Time) {
	key := fleet.Key{Group: m.Group, Name: m.Name}
	for _, o := range all {
		if o.Key() != key {
			continue
		}
		change := startCluster(o, r.rollout.Options)
		change.Annotate(kubermaticv1.AnnotationWave, place)
		if r.whole && m.Plan != nil {
			change.Annotate(kubermaticv1.AnnotationPlan, hosted.Confirmation(m.Plan.Steps))
		}
		_, err := change.Apply(ctx, r.c.Dynamic, fieldManager)
		switch {
		case err == nil:
			r.started[key] = fleet.Start{At: now}
			r.narrate(now, key, "started")
			r.report(v1.RunEvent{Type: v1.EventClusterStarted, Cluster: r.cluster(key, nil)})
		case ctx.Err() != nil:
		case isPermanent(err):
			r.started[key] = fleet.Start{At: now, Error: "starting it was refused: " + mask.Error(err)}
		default:
			if r.tries[key]++; r.tries[key] >= maxTries {
				r.started[key] = fleet.Start{At: now, Error: "starting it did not come through: " + mask.Error(err)}
			}
		}
	}
}

// place is what a member's object says of its wave. Of the wave, those count that this rollout starts or has started.
func (r *rolloutWatch) place(rows []v1.FleetCluster, m v1.FleetMember) string {
	id := fleet.RolloutID(r.rollout.Options)
	mine := map[fleet.Key]bool{}
	for _, row := range rows {
		mine[fleet.Key{Group: row.Group, Name: row.Name}] = row.Place != nil && row.Place.Rollout == id
	}
	number := r.waveOf(fleet.Key{Group: m.Group, Name: m.Name})
	clusters := 0
	for _, w := range r.rollout.Waves {
		for _, other := range w.Clusters {
			if w.Number == number && (other.Do != "" || mine[fleet.Key{Group: other.Group, Name: other.Name}]) {
				clusters++
			}
		}
	}
	return fleet.Place(number, len(r.rollout.Waves), clusters, r.rollout.Options)
}

// printWave says which wave is under way, and until when the one before is watched, where that has changed.
func (r *rolloutWatch) printWave(n fleet.Next, now time.Time) {
	if n.Wave != r.wave && n.Wave > 0 && !n.Stopped {
		r.wave = n.Wave
		w := r.rollout.Waves[n.Wave-1]
		r.c.Narrate(
			"%s wave %d of %d: %s",
			now.Format("15:04:05"),
			w.Number,
			len(r.rollout.Waves),
			english.Count(len(w.Clusters), "cluster"),
		)
		r.reportWave(v1.EventWaveStarted, w, nil)
	}
	if !n.SoakUntil.IsZero() && !n.SoakUntil.Equal(r.soak) {
		r.soak = n.SoakUntil
		r.c.Narrate(
			"%s the clusters that are done are watched until %s",
			now.Format("15:04:05"),
			n.SoakUntil.Format("15:04:05"),
		)
		r.reportWave(v1.EventWaveWaiting, r.rollout.Waves[n.Wave-1], &n.SoakUntil)
	}
}

// printMembers writes a line for each member whose phase or message is another one.
func (r *rolloutWatch) printMembers(rows []v1.FleetCluster, now time.Time) {
	for i, row := range rows {
		key := fleet.Key{Group: row.Group, Name: row.Name}
		if r.waveOf(key) == 0 || row.Standing == v1.StandingNotEnabled {
			continue
		}
		line := wording.FleetPhase(row)
		if row.Message != "" {
			line += " · " + row.Message
		}
		if r.said[key] != line {
			r.said[key] = line
			r.narrate(now, key, line)
			r.report(v1.RunEvent{
				Type:    v1.EventClusterProgress,
				Cluster: r.cluster(key, &rows[i]),
				Message: row.Message,
			})
		}
	}
}

func (r *rolloutWatch) narrate(at time.Time, key fleet.Key, what string) {
	r.c.Narrate("%s %s · %s", at.Format("15:04:05"), key, strings.Join(strings.Fields(what), " "))
}

// waveOf is the wave that a cluster is in; 0 for none.
func (r *rolloutWatch) waveOf(key fleet.Key) int {
	for _, w := range r.rollout.Waves {
		for _, m := range w.Clusters {
			if (fleet.Key{Group: m.Group, Name: m.Name}) == key {
				return w.Number
			}
		}
	}
	return 0
}

// reportOutcome says what the rollout came to.
func (r *rolloutWatch) reportOutcome(n fleet.Next) error {
	for _, l := range n.Left {
		r.c.Narrate("passed over: %s: %s", fleet.Key{Group: l.Group, Name: l.Name}, l.Reason)
	}
	for _, l := range n.Failed {
		r.c.Narrate("failed: %s: %s", fleet.Key{Group: l.Group, Name: l.Name}, l.Reason)
	}
	sum := fmt.Sprintf(
		"%d done, %d failed, %d passed over, %d under way, %d not started",
		n.Done,
		len(n.Failed),
		n.Skipped,
		n.Running,
		n.ToDo,
	)
	if n.Stopped {
		last := n.Failed[len(n.Failed)-1]
		return exitcode.With(
			r.stoppedCode(n),
			"stopped in wave %d: %s\nwhat is under way is carried on by the operator; when the failed ones are fixed, or left out with --except, the same command goes on",
			r.waveOf(fleet.Key{Group: last.Group, Name: last.Name}),
			sum,
		)
	}
	r.c.Narrate("%s\nnext: transplant fleet status", sum)
	return nil
}

// stoppedCode is 3 when all that failed was refused by checks, since nothing was changed there.
func (r *rolloutWatch) stoppedCode(n fleet.Next) int {
	for _, l := range n.Failed {
		if !strings.HasPrefix(l.Reason, "blocked: ") {
			return exitcode.Error
		}
	}
	return exitcode.Blocked
}

// maxTries is how often the start of a cluster is tried when it does not come through, or the object is another one by
// then.
const maxTries = 10

// isPermanent reports whether trying again is of no use: the API server has understood the write and refused it.
func isPermanent(err error) bool {
	return !objects.IsStale(err) &&
		(apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
			apierrors.IsUnauthorized(err))
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
