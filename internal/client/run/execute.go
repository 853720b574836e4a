package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/fault"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Options are what Apply and Rollback have in common.
type Options struct {
	// Yes is consent that was given before: nothing is asked.
	Yes bool
	// DryRun shows the plan and changes nothing. AskServer also sends each object that it writes to the API server with
	// dryRun=All.
	DryRun, AskServer bool
	// Steal takes the lock from a holder that is certainly dead.
	Steal bool
	// Without are the hosts that are gone for good.
	Without []string
	// Accepted are the reasons for living with a difference that a verification finds, by object.
	Accepted map[string]string
	// Kubelets are options of a plan that was begun which this run may change. Apply takes them from those of its plan.
	Kubelets v1.Options
	// Pinned is the plan that may be executed.
	Pinned client.Pin
	// EnvGiven reports whether the variables of the cloud-controller-manager were given to this run, and not by its
	// plan alone. Apply finds it out.
	EnvGiven bool
	// ImageGiven reports the same of its image.
	ImageGiven bool
	// ProviderGiven reports the same of the image credential provider's program, which kubelets run as root.
	ProviderGiven bool
	// Nodes are the workers that an apply changes; empty for all of the plan.
	Nodes []string
	// IgnoreObjectives goes on where managers do not keep the objectives of KEP-2395.
	IgnoreObjectives bool
}

// extent is how much of a plan a run executes.
type extent struct {
	// steps from the first on are executed, but for those of later.
	steps int
	later map[string]bool
	// nodes are those that the run is limited to, and own their steps.
	nodes, own []string
}

// whole is a run of all steps of a plan.
func whole(p *v1.Plan) extent { return extent{steps: len(p.Steps)} }

// execute runs the plan's first steps with a recorder next to them, and writes how the run ended when they are all.
func execute(
	ctx context.Context,
	c *client.Client,
	j *journal.Journal,
	p *v1.Plan,
	of extent,
	before, now *v1.Snapshot,
	o Options,
) error {
	hard, stop, done := c.Interruptible(ctx)
	defer done()
	doc := j.Doc()
	tell := Reporter(c, doc.Run) // also publishes the progress, and so comes before the probes
	watch := objectives.NewWatch(time.Now())
	stopRecorder, err := record(ctx, c, p, doc.Run, watch)
	if err != nil {
		return err
	}
	defer stopRecorder()
	stopProbes, err := c.StartProbes(ctx, p.Cluster.UID, doc.Run)
	if err != nil {
		return err
	}
	engine := migrate.New(step.Options{
		Kube:          c.Kube,
		Dynamic:       c.Dynamic,
		Hosts:         c.Hosts,
		HostsAreNodes: c.Pods,
		NamedHosts:    c.Host.ControlPlane,
		NodeNames:     client.NodesOfHosts(now),
		Scrape:        c.Scrape,
		Version:       c.VersionOf,
		ToolVersion:   client.Version,
		Before:        before,
		Live:          now,
		Tell:          tell,
		Clock:         fault.Clock(),
		Hook:          fault.Hook,
		Compare:       compareWithBefore(c, j, before, o.Accepted),
		Extend:        c.Extend,
		Later:         of.later,
		Objectives:    o.judged(watch),
	}, j)
	part := *p
	if part.Until = ""; of.steps < len(p.Steps) {
		part.Until = p.Steps[of.steps-1].ID
	}
	noteEnding(ctx, c, doc.Run, nil) // of an earlier command
	j.GoOn(fault.Clock().Now().UTC(), client.UserName())
	err = engine.Run(hard, &part, stop)
	stopProbes()
	if err != nil {
		if !errors.Is(context.Cause(hard), context.Canceled) { // interrupted twice: nothing stands in the way
			noteEnding(ctx, c, doc.Run, endingWith(c, err))
		}
		if cause := context.Cause(hard); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		explainStop(ctx, c, engine, err, p.Direction)
		c.Narrate(
			"stopped. What was done stays; to go on: transplant %s",
			map[string]string{planstep.Forward: "apply; to go back: transplant rollback", planstep.Rollback: "rollback"}[p.Direction],
		)
		SuggestBundle(c, err, "")
		return err
	}
	NarrateObjectives(c, watch)
	if rest := remainingPlan(p, j.Doc()); len(rest.Steps) > 0 {
		noteEnding(ctx, c, doc.Run, &pause.Ending{Step: p.Steps[of.steps-1].ID})
		c.Narrate(
			"%s: %d of %d steps are done; what remains: %s\nto go on: transplant apply; to go back: transplant rollback",
			of.reached(part.Until),
			len(p.Steps)-len(rest.Steps),
			len(p.Steps),
			strings.Join(planstep.Remaining(&rest, 0), ", "),
		)
		return nil
	}
	ended := fault.Clock().Now().UTC()
	phase := map[string]string{planstep.Forward: v1.RunApplied, planstep.Rollback: v1.RunRolledBack}[p.Direction]
	if err := j.SetPhase(ctx, phase, nil, &ended); err != nil {
		return err
	}
	c.Narrate(
		"%s: %d steps in %s\nnext: transplant verify, then transplant report",
		wording.StateWords(phase),
		len(p.Steps),
		timeTaken(j.Doc(), p, ended),
	)
	return nil
}

// judged are the objectives by which the run is paused; nil where the operator goes on whatever managers count. They
// are counted and shown all the same.
func (o Options) judged(watch *objectives.Watch) *objectives.Watch {
	if o.IgnoreObjectives {
		return nil
	}
	return watch
}

// NarrateObjectives says how the objectives stood during a run that has ended.
func NarrateObjectives(c *client.Client, watch *objectives.Watch) {
	if words := watch.Words(); words != "" {
		c.Narrate("objectives of the managers (KEP-2395): %s", strings.TrimSuffix(words, " so far"))
	}
}

// timeTaken says how long a plan took that has ended: the work, and then what it was paused or stopped.
func timeTaken(doc v1.Journal, p *v1.Plan, ended time.Time) string {
	start := startOf(doc, p)
	idle := doc.IdleSince(start)
	took := (ended.Sub(start) - idle).Round(time.Second).String()
	if idle = idle.Round(time.Second); idle > 0 {
		took += ", and " + idle.String() + " paused or stopped"
	}
	return took
}

// explainStop says what an error means for a run: hosts that are lost, a fact that has changed, loops that no manager
// runs.
func explainStop(ctx context.Context, c *client.Client, engine *migrate.Engine, err error, direction string) {
	ExplainLostHosts(c, err, direction)
	if _, stale := errors.AsType[*step.StaleError](err); stale && direction == planstep.Forward {
		c.Narrate("no other plan can be made in the middle of a migration: put back what was changed, or take the migration back")
	}
	if errors.Is(err, step.ErrInterrupted) {
		if idle := engine.Unowned(context.WithoutCancel(ctx)); len(idle) > 0 {
			c.Narrate("no manager runs %s now, in the middle of the downtime: go on or back at once", strings.Join(idle, ", "))
		}
	}
}

// SuggestBundle says how to ask for help after a failure. One who interrupts a run, or whose lock is taken, needs none.
// The flags are those that name the cluster.
func SuggestBundle(c *client.Client, err error, flags string) {
	switch exitcode.Of(err) {
	case exitcode.OK, exitcode.Interrupted, exitcode.Locked:
		return
	}
	c.Narrate("to ask for help: transplant bundle%s saves in one file what that takes, without secrets", flags)
}

// reached says where a run ended that was to execute a part of its plan.
func (x extent) reached(until string) string {
	if len(x.own) > 0 && x.own[len(x.own)-1] == until { // and not the pause after the first workers
		names := strings.Join(x.nodes, ", ")
		return names + english.Word(len(x.nodes), " is", " are") + " done, and no other node was changed"
	}
	return "stopped after " + until + ", as asked"
}

// failureTimeout bounds the attempt to tell onlookers how a run ended: the API server may be what it ended with.
const failureTimeout = 5 * time.Second

// noteEnding tells onlookers how a command on a run ended; nil that one goes on with it. They learn less where that
// cannot be written.
func noteEnding(ctx context.Context, c *client.Client, run string, f *pause.Ending) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureTimeout)
	defer cancel()
	_ = pause.NoteEnding(ctx, journal.InCluster(c.Kube), run, f) //nolint:errcheck // the command itself says it
}

// endingWith is an ending with an error; nil for an interruption, which is nothing that stands in the way.
func endingWith(c *client.Client, err error) *pause.Ending {
	if err == nil || step.IsInterrupted(err) {
		return nil
	}
	if of, is := errors.AsType[*step.StepError](err); is {
		return &pause.Ending{Step: of.Step.ID, Reason: of.Err.Error(), At: c.ServerTime()}
	}
	return &pause.Ending{Reason: err.Error(), At: c.ServerTime()}
}

// startOf is when the first of the plan's steps was started.
func startOf(doc v1.Journal, p *v1.Plan) time.Time {
	ids := map[string]bool{}
	for _, s := range p.Steps {
		ids[s.ID] = true
	}
	for _, r := range doc.Records {
		if ids[r.ID] {
			return r.Started
		}
	}
	return doc.Started
}

// seesProcesses refuses hosts of which it cannot be known what runs there. A manager that was not seen would count as
// one that has ended, and the next one would be started next to it.
func seesProcesses(c *client.Client) error {
	for _, h := range c.Hosts {
		if err := hostaccess.SeesProcesses(h); err != nil {
			return exitcode.With(exitcode.Blocked, "nothing was changed: %w", err)
		}
	}
	return nil
}

// withLock holds the lock on the cluster while do runs.
func withLock(ctx context.Context, c *client.Client, o Options, do func(context.Context) error) error {
	held, lock, err := lock.Acquire(
		ctx,
		c.Kube,
		client.LockClock,
		lock.Taking{Holder: lock.Holder(client.UserName()), Steal: o.Steal, Tell: func(s string) { c.Narrate("%s", s) }},
	)
	if err != nil {
		return err
	}
	c.Publish, c.Extend = lock.Publish, lock.Extend
	err = do(held)
	return errors.Join(err, lock.Release(context.WithoutCancel(ctx)))
}

// remainingPlan is a plan with the steps alone that are still to be done.
func remainingPlan(p *v1.Plan, doc v1.Journal) v1.Plan {
	ended := map[string]bool{}
	for _, r := range doc.Records {
		ended[r.ID] = r.IsEnded()
	}
	rest := *p
	rest.Steps = nil
	for _, s := range p.Steps {
		if !ended[s.ID] {
			rest.Steps = append(rest.Steps, s)
		}
	}
	return rest
}

// resultsOf are the results of the steps, as the journal says.
func resultsOf(doc v1.Journal) map[string]v1.StepResult {
	results := map[string]v1.StepResult{}
	for _, r := range doc.Records {
		results[r.ID] = r.Result
	}
	return results
}

// stepsDone is how many of a plan's steps are not to be done any more, as the journal says.
func stepsDone(p *v1.Plan, doc v1.Journal) int {
	return len(p.Steps) - len(remainingPlan(p, doc).Steps)
}

// Reporter prints what happens during a run, and publishes it for onlookers elsewhere.
func Reporter(c *client.Client, run string) func(step.Event) {
	if c.Publish != nil {
		c.Progress = lock.NewProgress(run, c.Publish)
	}
	h := Heartbeat{Said: map[string]time.Time{}}
	return func(e step.Event) {
		if c.Progress != nil {
			c.Progress.Saw(e)
		}
		if h.IsDue(e) {
			c.Tell(e)
		}
	}
}

// Heartbeat decides what of the steps that wait is worth a line.
type Heartbeat struct {
	mu   sync.Mutex
	Said map[string]time.Time // of a step, when the last line was printed
}

// IsDue reports whether an event is worth a line.
func (h *Heartbeat) IsDue(e step.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Kind == step.EventWaiting && e.Time.Sub(h.Said[e.Step.ID]) < client.HeartbeatPeriod {
		return false
	}
	h.Said[e.Step.ID] = e.Time
	return true
}
