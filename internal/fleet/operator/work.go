package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/together"
)

// panicError is a panic in what was done for one cluster. What a journal, an object or an answer holds may be anything,
// and one cluster must not end the operator of all others.
type panicError struct{ value string }

func (e *panicError) Error() string {
	return "the operator's own code has failed (panic: " + e.value + "); its log has the stack: please report it. Other clusters are not affected, and this one is tried again with growing intervals"
}

// jobs are what is under way for clusters, each apart from the others.
type jobs struct {
	*Options
	clusters *clusters
	queue    workqueue.TypedRateLimitingInterface[string]
	running  sync.WaitGroup
}

// guard calls f and returns its panic as an error, which is logged with its stack, counted and told as an event of the
// cluster.
func (j *jobs) guard(name, what string, f func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		failed := &panicError{shownText(fmt.Sprint(value))}
		err = failed
		stack := debug.Stack()
		if inner, is := value.(*together.Panic); is {
			stack = inner.Stack
		}
		j.Metrics.panicked(what)
		j.Log.Error(
			failed,
			"Code that worked for one cluster has panicked",
			"cluster",
			name,
			"what",
			what,
			"stack",
			string(stack),
		)
		for _, o := range j.clusters.get(name) {
			j.Recorder.Event(
				reference(o.Group, o.Cluster),
				corev1.EventTypeWarning,
				state.ReasonPanicked,
				what+": "+failed.Error(),
			)
		}
	}()
	return f()
}

// start begins a job for a cluster. A panic that nothing else has caught ends the job alone; the cluster is decided
// about again later.
func (j *jobs) start(name, what string, job func()) {
	j.running.Go(func() {
		if j.guard(name, what, func() error { job(); return nil }) != nil {
			j.queue.AddRateLimited(name)
		}
	})
}

// errTooSlow is the cause of the end of a look that took too long.
var errTooSlow = errors.New("no answer in time")

// bounded gives f the time of one look, which goes through answers one after the other.
func (j *jobs) bounded(ctx context.Context, name, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, j.LookTimeout, errTooSlow)
	defer cancel()
	ctx, done := answerlimit.Pass(ctx)
	defer done()
	return j.guard(name, what, func() error { return f(ctx) })
}

// outcome is what an error of the engine means for the cluster.
func outcome(err error) (state.Outcome, string) {
	var blocked *hosted.BlockedError
	var locked *hosted.LockedError
	var stale *hosted.StaleError
	var unconfirmed *hosted.UnconfirmedError
	var unknown *hosted.UnknownPlanError
	var unplanned *hosted.UnplannedError
	var breach *hosted.BreachError
	switch {
	case err == nil:
		return state.Succeeded, ""
	case errors.As(err, &blocked):
		return state.Blocked, findings(blocked)
	case errors.As(err, &unplanned):
		return state.Blocked, err.Error()
	case errors.As(err, &unconfirmed):
		return state.Blocked, err.Error() + confirmAgain
	case errors.As(err, &unknown):
		return state.Blocked, err.Error()
	case errors.As(err, &breach):
		return state.Blocked, err.Error()
	case errors.As(err, &locked):
		return state.Locked, err.Error()
	case errors.Is(err, hosted.ErrTooLate):
		return state.NoWayBack, err.Error()
	case errors.Is(err, hosted.ErrInterrupted),
		errors.Is(err, hosted.ErrRollback),
		errors.Is(err, context.Canceled),
		errors.Is(err, election.ErrFenced):
		return state.Interrupted, err.Error()
	case errors.Is(err, lock.ErrLockLost), isUnreachable(err):
		return state.Unreachable, err.Error()
	case errors.As(err, &stale):
		return state.Stale, err.Error()
	}
	return state.Broken, err.Error()
}

// confirmAgain is what an administrator does about a plan that is not the one that was confirmed.
const confirmAgain = "; read it again and confirm it on the operator's page, or remove the annotation " + kubermaticv1.AnnotationPlan +
	" from the Cluster, and the operator starts with its own plan"

// isUnreachable reports whether an error passes when an API server answers again, or its credentials do.
func isUnreachable(err error) bool {
	var backoff *userclusters.BackoffError
	var wire net.Error
	if errors.As(err, &backoff) || errors.As(err, &wire) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	if errors.Is(err, userclusters.ErrClosed) || errors.Is(err, userclusters.ErrForgotten) {
		return true
	}
	return retry.IsTransient(err) || apierrors.IsUnauthorized(err)
}

// namedFindings is how many findings a message names.
const namedFindings = 5

// findings are those that refuse, by code and summary.
func findings(e *hosted.BlockedError) string {
	var out []string
	for _, f := range e.Report.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == "" {
			out = append(out, f.Code+": "+f.Summary)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return e.Error()
	}
	message := "the checks refuse: " + strings.Join(out[:min(len(out), namedFindings)], "; ")
	if n := len(out) - namedFindings; n > 0 {
		message += fmt.Sprintf("; and %d more", n)
	}
	return message
}

// startRun starts a run of the engine, if there is a place for it.
func (op *Operator) startRun(ctx context.Context, t Target, d state.Decision) {
	var halfway bool
	op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) {
		halfway = r.journal.Handover == state.Begun || r.journal.Finish == state.Begun || d.Work.Back
	})
	admitted, ok := op.runs.admit(t.Name, halfway, d.Work.Run, d.Work.Back)
	if !ok {
		return
	}
	op.runs.belong(t.Name, t.Group)
	op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) {
		r.generation, r.confirmed = t.Cluster.Generation, confirmationOf(t.Cluster)
		r.run.Active, r.run.Part, r.run.Back = true, d.Work.Run, d.Work.Back
		r.run.ForgetStep()
	})
	op.jobs.start(t.Name, "run", func() { op.run(ctx, t, admitted) })
}

// run executes a part and notes how it ended.
func (op *Operator) run(ctx context.Context, t Target, r *run) {
	begun := time.Now()
	err := op.jobs.guard(t.Name, "run", func() error {
		ctx, done := answerlimit.Pass(ctx)
		defer done()
		return op.Engine.Run(ctx, t, r.part, r.back, func(e step.Event) { op.heard(t, e) }, r.stop)
	})
	result, message := outcome(err)
	message = shownText(message)
	if result == state.Broken || result == state.Stale { // with its API server down, the cluster is not broken
		if down := op.jobs.bounded(
			ctx,
			t.Name,
			"reach",
			func(ctx context.Context) error { return op.Engine.Reach(ctx, t) },
		); down != nil {
			result, message = state.Unreachable, shownError(down)
		}
	}
	journal, readErr := op.looks.journal(ctx, t)
	op.Metrics.runEnded(r.part, r.back, result, time.Since(begun))
	op.states.withKnownState(t.Name, t.Cluster.UID, func(rec *clusterState) {
		recordOutcome(&rec.run, result, message)
		if readErr != nil {
			rec.journal.Known, rec.journal.At = false, time.Time{}
		} else {
			rec.journal = journal
		}
		rec.owners.At = time.Time{} // who owns the loops may have changed
	})
	op.runs.endRun(t.Name) // what is decided from here on knows how it ended
	op.Log.Info(
		"A run has ended",
		"cluster",
		t.Name,
		"part",
		r.part,
		"rollback",
		r.back,
		"outcome",
		result,
		"message",
		message,
	)
	if result == state.Broken || result == state.Stale {
		op.Recorder.Event(reference(t.Group, t.Cluster), corev1.EventTypeWarning, state.ReasonMigrationFailed, message)
	}
	op.queue.Add(t.Name)
	op.wakeNext()
}

// recordOutcome notes how a run ended.
func recordOutcome(r *state.Run, result state.Outcome, message string) {
	r.Active = false
	r.ForgetStep()
	r.Outcome, r.Message, r.Ended = result, message, time.Now()
	switch result {
	case state.Succeeded:
		r.Failures, r.Retries = 0, 0
	case state.Broken, state.Stale, state.NoWayBack:
		r.Failures++
		r.Retries++
	default:
		r.Retries++
	}
}

// heard notes what the engine tells of a run.
func (op *Operator) heard(t Target, e step.Event) {
	news := false
	op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) {
		if !r.run.Active {
			return
		}
		if e.Kind == step.EventWaiting || e.Kind == step.EventProgress {
			r.run.Waiting = shownText(e.Message)
			return
		}
		if e.Kind == step.EventAlreadyDone && r.run.Number == 0 { // a part is gone on with, and has changed nothing yet
			return
		}
		paused := ""
		if e.Kind == step.EventPaused {
			paused = shownText(e.Message)
		}
		news = r.run.Number != e.Number || r.run.Paused != paused
		r.run.Step, r.run.Number, r.run.Total, r.run.Waiting = shownText(e.Step.Title), e.Number, e.Total, ""
		r.run.Paused = paused
	})
	if e.Kind != step.EventWaiting {
		op.runs.move(t.Name)
	}
	if news {
		op.queue.Add(t.Name)
	}
}

// looks look at user clusters, at so many at a time, and note in the memory what they found.
type looks struct {
	*Options
	jobs    *jobs
	states  *stateCache
	limiter lookLimiter
}

// startLooks looks at what is due, one thing after the other, unless a look is under way.
func (l *looks) startLooks(ctx context.Context, t Target, w state.Work) {
	begin, failing := false, false
	l.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) {
		begin, failing = !r.looking, r.owners.Failures+r.parts.Failures+r.machines.Failures > 0
		r.looking = true
	})
	if !begin {
		return
	}
	l.jobs.start(t.Name, "look", func() {
		defer l.jobs.queue.Add(t.Name)
		defer l.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) { r.looking = false })
		if leave := l.limiter.enter(ctx, failing); leave != nil {
			defer leave()
			l.see(ctx, t, w)
		}
	})
}

func (l *looks) see(ctx context.Context, t Target, w state.Work) {
	if w.Journal {
		journal, err := l.journal(ctx, t)
		l.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) {
			r.missingRight = ""
			if apierrors.IsForbidden(err) {
				r.missingRight = shownError(err)
			}
			if err != nil {
				r.journal.At, r.journal.Error = time.Now(), shownError(err)
				return
			}
			r.journal = journal
		})
	}
	if w.Owners {
		l.seeOwners(ctx, t)
	}
	if w.Parts {
		l.seeParts(ctx, t)
	}
	if w.Machines {
		l.seeMachines(ctx, t, w.Restart)
	}
	if w.Token {
		l.readAndRecord(ctx, t, "token", func(ctx context.Context) error { return l.Parts.RenewToken(ctx, t) },
			func(r *clusterState, _ bool) *state.Seen { return &r.token })
	}
}

func (l *looks) seeOwners(ctx context.Context, t Target) {
	var found state.Owners
	l.readAndRecord(ctx, t, "owners", func(ctx context.Context) (err error) {
		found, err = l.Engine.Owners(ctx, t)
		found.Unsure = shownTexts(found.Unsure)
		return err
	}, func(r *clusterState, good bool) *state.Seen {
		if good {
			found.Seen = r.owners.Seen
			r.owners = found
		}
		return &r.owners.Seen
	})
}

func (l *looks) seeParts(ctx context.Context, t Target) {
	var found PartsSeen
	l.readAndRecord(ctx, t, "parts", func(ctx context.Context) (err error) {
		found, err = l.Parts.Ensure(ctx, t)
		found.CSI, found.Waiting, found.Did = shownText(found.CSI), shownTexts(found.Waiting), shownTexts(found.Did)
		return err
	}, func(r *clusterState, good bool) *state.Seen {
		if good {
			found.Seen = r.parts.Seen
			r.parts = found
		}
		return &r.parts.Seen
	})
	for _, did := range found.Did {
		l.Recorder.Event(reference(t.Group, t.Cluster), corev1.EventTypeNormal, state.ReasonPartsChanged, did)
	}
}

// seeMachines reads the machines. It lets one more MachineDeployment be restarted if the owner wants that, the cluster
// is ready for it and a place is free. That it is not now must not be taken for the owner's not wanting it, which lets
// a restart that has stopped begin again.
func (l *looks) seeMachines(ctx context.Context, t Target, ready bool) {
	asked := MachinesAsked{Wanted: t.Cluster.RestartsMachines()}
	switch {
	case !asked.Wanted:
	case !ready:
		asked.Hold = "the owners of the loops and the parts around machines have to be looked at before a machine is replaced"
	case !l.states.claimRestartSlot(t.Name, l.MaxParallelMachines):
		asked.Hold = fmt.Sprintf(
			"one of the %d places for clusters whose machines are restarted at a time (--max-parallel-machines) has to become free",
			l.MaxParallelMachines,
		)
	}
	l.states.withKnownState(
		t.Name,
		t.Cluster.UID,
		func(r *clusterState) { asked.Parts, asked.CCMReady = r.parts, r.owners.AllExternal() },
	)
	if t.Cluster.MigrationCompleted() {
		asked.CCMReady = true
	}
	var found state.Machines
	var did string
	begun := time.Now()
	l.readAndRecord(ctx, t, "machines", func(ctx context.Context) (err error) {
		found, did, err = l.Machines.Pass(ctx, t, asked)
		found.Reasons, found.Regression, did = shownTexts(found.Reasons), shownText(found.Regression), shownText(did)
		return err
	}, func(r *clusterState, good bool) *state.Seen {
		if good {
			found.Seen, found.Moved = r.machines.Seen, r.machines.Moved
			if found.Migrated != r.machines.Migrated {
				found.Moved = time.Now()
			}
			r.machines, r.looked = found, begun
			l.Metrics.machines(t.Name, found)
		}
		// a cluster that cannot go on, or cannot be seen, keeps no other one waiting
		r.restarting.found(good && r.machines.Rolling)
		return &r.machines.Seen
	})
	if did != "" {
		l.Recorder.Event(reference(t.Group, t.Cluster), corev1.EventTypeNormal, state.ReasonMachinesRestarted, did)
	}
}

// readAndRecord looks at one thing within its time and notes how that ended; the first of several looks that fail is
// logged. keep takes in what a good look found.
func (l *looks) readAndRecord(
	ctx context.Context,
	t Target,
	what string,
	look func(context.Context) error,
	keep func(r *clusterState, good bool) *state.Seen,
) {
	err := l.jobs.bounded(ctx, t.Name, what, look)
	l.Metrics.looked(what, err)
	l.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) {
		seen := keep(r, err == nil)
		note(seen, time.Now(), err)
		if seen.Failures == 1 {
			l.Log.Info("A look has failed", "cluster", t.Name, "what", what, "error", shownError(err))
		}
	})
}

func (l *looks) journal(ctx context.Context, t Target) (state.Journal, error) {
	var out state.Journal
	err := l.jobs.bounded(ctx, t.Name, "journal", func(ctx context.Context) (err error) {
		out, err = l.Engine.Journal(ctx, t)
		return err
	})
	l.Metrics.looked("journal", err)
	out.Known, out.At = true, time.Now()
	return out, err
}

// annotate does what the mutating webhook has missed.
func (op *Operator) annotate(ctx context.Context, t Target) {
	begin := false
	op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) { begin, r.annotating = !r.annotating, true })
	if !begin {
		return
	}
	op.jobs.start(t.Name, "annotate", func() {
		written := false
		err := op.jobs.bounded(ctx, t.Name, "annotate", func(ctx context.Context) (err error) {
			written, err = op.Rules.Repair(ctx, t.Group, t.Cluster)
			return err
		})
		op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) { r.annotating = false })
		if err != nil {
			op.Log.Error(err, "The annotations of a cluster could not be written", "cluster", t.Name)
			op.queue.AddAfter(t.Name, op.Limits.Retry)
			return
		}
		if written {
			op.Recorder.Event(reference(t.Group, t.Cluster), corev1.EventTypeNormal, state.ReasonWebhookMissed,
				"the feature externalCloudProvider was switched on while the mutating webhook was away; the annotations were added")
		}
	})
}

// unconfirm takes the annotation off by which a person confirmed a plan that was begun since: a later migration of the
// cluster is another one.
func (op *Operator) unconfirm(ctx context.Context, t Target) {
	begin := false
	op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) {
		begin,
			r.unconfirming = !r.unconfirming, true
	})
	if !begin {
		return
	}
	op.jobs.start(t.Name, "unconfirm", func() {
		ctx, cancel := context.WithTimeout(ctx, op.WriteTimeout)
		defer cancel()
		err := op.jobs.guard(t.Name, "unconfirm", func() error {
			_, err := objects.Of(t.Group, t.Cluster).
				Unconditional().
				Unannotate(kubermaticv1.AnnotationPlan).
				Apply(ctx, op.Dynamic, fieldManager)
			return err
		})
		op.states.withKnownState(t.Name, t.Cluster.UID, func(r *clusterState) { r.unconfirming = false })
		if err != nil && !objects.IsStale(err) {
			op.Log.Error(err, "The annotation of a plan that was begun could not be taken off", "cluster", t.Name)
			op.queue.AddAfter(t.Name, op.Limits.Retry)
		}
	})
}

// confirmationOf is the plan that a person confirmed; empty for none.
func confirmationOf(c *kubermaticv1.Cluster) string {
	return c.Annotations[kubermaticv1.AnnotationPlan]
}
