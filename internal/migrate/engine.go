// Package migrate decides when a step of a plan may run, whether it is done, and what is written down about it: it
// executes plans.
//
// The life of a step:
//
//	excluded? ──yes──> skipped   its host is gone for good
//	  │no
//	host answers ──no──> error   waited for
//	  │yes
//	done? ──yes──> next          asked of the live cluster; a later step may have taken its place
//	  │no
//	may it begin? ──no──> error  the host is a control plane's, the plan's facts hold, no older manager runs
//	  │yes
//	grant, extend the lock       the access to the host, for this step alone
//	executor of its kind:
//	  bind owners, await successor (a restart of a process that may own loops; package takeover)
//	  journal "started"          with the backup of what is about to change
//	  do, release the leases of owners that ended
//	  done? and owners as expected, bounded wait
//	journal "done"
//
// What an executor does of that is its own: see step.Executor and the packages below step. After a crash between any
// two of these, the next run converges. Do is idempotent, and what an assisted handover still has to do is in the
// journal.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/pause"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Engine executes plans.
type Engine struct {
	env    *step.Env
	pauser *pause.Pauser
	// deferred remembers which groups were put behind the others, to say so once.
	deferred map[string]bool
}

// New returns an engine that writes what it does into the journal.
func New(o step.Options, j *journal.Journal) *Engine {
	env := step.NewEnv(o, j)
	env.Kinds = executors()
	return &Engine{env: env, pauser: &pause.Pauser{Env: env}, deferred: map[string]bool{}}
}

// Run executes the plan, up to the step that its Until names, if any. If that step is the last of its phase, Run
// executes the whole phase. The whole plan decides about the order, so that the owner's host comes last however far a
// run goes. When stop is closed it finishes the current step and returns ErrInterrupted. When ctx ends it stops at
// once, and the journal says which step is uncertain.
func (e *Engine) Run(ctx context.Context, p *v1.Plan, stop <-chan struct{}) error {
	e.env.Plan, e.env.Stopping = p, stop
	for i, s := range p.Steps {
		e.env.Numbers[s.ID] = i + 1
	}
	if err := e.env.CheckSeed(p); err != nil {
		return err
	}
	if err := e.checkRestarts(p); err != nil {
		return err
	}
	if err := e.checkSelected(ctx, p); err != nil {
		return err
	}
	if err := precondition.HostFiles(ctx, e.env); err != nil {
		return fmt.Errorf("nothing was changed by this run: %w", err)
	}
	if err := lostnode.RejectReturnedHosts(ctx, e.env); err != nil {
		return err
	}
	return lostnode.AddLostHosts(ctx, e.env, e.run(ctx, p, stop))
}

func (e *Engine) run(ctx context.Context, p *v1.Plan, stop <-chan struct{}) error {
	now := slices.DeleteFunc(slices.Clone(p.Steps), func(s v1.Step) bool { return e.env.Later[s.ID] })
	for _, phase := range phases(now) {
		last := phase[len(phase)-1].ID == p.Until
		for len(phase) > 0 {
			group, rest, err := e.nextGroup(ctx, phase)
			if err != nil {
				return err
			}
			group, phase = batchOf(group, rest, p.Until)
			if len(group) > 1 && group[0].Batch != "" {
				if err := e.runParallel(ctx, group, stop); err != nil {
					return err
				}
				if group[len(group)-1].ID == p.Until && !last {
					return nil
				}
				continue
			}
			if until, err := e.runSequential(ctx, group, stop); err != nil || until && !last {
				return err
			}
		}
		if last {
			return nil
		}
	}
	return nil
}

// runSequential executes steps one after the other. until reports whether the last one that was executed is the
// plan's Until.
func (e *Engine) runSequential(ctx context.Context, steps []v1.Step, stop <-chan struct{}) (until bool, err error) {
	e.env.NodeBudget.Begin()
	for _, s := range steps {
		select {
		case <-stop:
			return false, step.ErrInterrupted
		default:
		}
		if err := e.waitWhilePaused(ctx, s, stop); err != nil {
			return false, err
		}
		if err := e.runStep(ctx, s); step.IsInterrupted(err) {
			return false, err
		} else if err != nil {
			return false, &step.StepError{Step: s, Err: err}
		}
		if s.ID == e.env.Plan.Until {
			return true, nil
		}
	}
	return false, nil
}

// waitWhilePaused waits, before a step, while the run is paused. It outlives an API server that does not answer for a
// while.
func (e *Engine) waitWhilePaused(ctx context.Context, s v1.Step, stop <-chan struct{}) error {
	return e.retryTransient(ctx, s, func(ctx context.Context) error { return e.pauser.WaitWhilePaused(ctx, s, stop) })
}

// runStep is the whole life of a step.
func (e *Engine) runStep(ctx context.Context, s v1.Step) error {
	if h, out := e.env.IsExcluded(s); out {
		return e.skipExcluded(ctx, s, h)
	}
	if err := e.env.CheckAllowed(s); err != nil {
		return err
	}
	ctx = e.env.WithProgress(ctx, s)
	if err := e.waitForHost(ctx, s); err != nil {
		return err
	}
	x, err := e.env.ExecutorOf(s)
	if err != nil {
		return err
	}
	rec := e.env.Journal.Record(s.ID)
	if !isResumable(rec) {
		if satisfied, err := e.isSatisfied(ctx, s, x, rec); err != nil {
			return err
		} else if satisfied {
			return e.alreadyDone(ctx, s, rec)
		}
	}
	return e.execute(ctx, s, x, rec)
}

// isSatisfied reports whether nothing is left to do of a step. The cluster then shows its result, or what a later step
// made of that.
func (e *Engine) isSatisfied(ctx context.Context, s v1.Step, x step.Executor, rec v1.StepRecord) (bool, error) {
	var done bool
	if rec.Result != "" {
		err := e.retryTransient(ctx, s, func(ctx context.Context) error {
			var err error
			done, err = e.superseded(ctx, s)
			return err
		})
		if done || err != nil {
			return done, err
		}
	}
	err := e.retryTransient(ctx, s, func(ctx context.Context) error {
		var err error
		done, err = x.Done(ctx, s)
		return err
	})
	var pending step.PendingError
	if err != nil && !errors.As(err, &pending) {
		return false, fmt.Errorf("looking whether it is done: %w", err)
	}
	if done {
		return true, nil
	}
	return e.waitForRestart(ctx, s, x, rec)
}

// execute does a step, or goes on with one that was begun, and waits until the cluster shows what it is for.
func (e *Engine) execute(ctx context.Context, s v1.Step, x step.Executor, rec v1.StepRecord) error {
	e.env.Hook("before", s.ID)
	if err := e.checkBefore(ctx, s, isResumable(rec)); err != nil {
		return err
	}
	if !isResumable(rec) {
		rec = beginRecord(s, rec, e.env.Clock.Now().UTC())
	}
	release, err := e.grant(ctx, s)
	if err != nil {
		return err
	}
	defer release(context.WithoutCancel(ctx))
	restore, err := e.extendLock(ctx, s)
	if err != nil {
		return err
	}
	defer restore()
	// A machine may wake up here after another run has taken the lock. Hosts ask for it
	// with each change, and the API does not.
	if err := hostaccess.CheckLock(ctx); err != nil {
		return err
	}
	e.env.Report(s, step.EventStarted, "")
	if err := x.Do(ctx, s, &rec); step.IsInterrupted(err) {
		return err // its record says that it was begun
	} else if err != nil {
		return e.recordFailure(ctx, s, rec, err)
	}
	if err := e.verify(ctx, s, x); step.IsInterrupted(err) {
		return err
	} else if err != nil {
		return e.recordFailure(ctx, s, rec, err)
	}
	now := e.env.Clock.Now().UTC()
	rec.Ended, rec.Result, rec.Error = &now, v1.StepResultDone, ""
	if err := e.env.Journal.Save(ctx, rec); err != nil {
		return err
	}
	e.env.Hook("after", s.ID)
	e.env.Report(s, step.EventDone, "")
	return nil
}

// checkBefore checks what has to hold before a step changes anything. A step that is resumed has changed some of the
// facts that its plan was made from itself.
func (e *Engine) checkBefore(ctx context.Context, s v1.Step, resumed bool) error {
	checks := []func(context.Context, *step.Env, v1.Step) error{
		func(ctx context.Context, env *step.Env, s v1.Step) error { return env.ProvesControlPlane(ctx, s) },
	}
	if !resumed {
		checks = append(checks, precondition.Check)
	}
	for _, check := range append(checks, precondition.CheckOldManagers) {
		if err := e.retryTransient(ctx, s, func(ctx context.Context) error { return check(ctx, e.env, s) }); err != nil {
			return err
		}
	}
	return nil
}

// extendLock extends the lock on the cluster for as long as a step may stop an API server. That may be the only one, or
// the only one that this process can reach. A lock that ended before the step's own limit would end the run in the
// middle of the restart.
func (e *Engine) extendLock(ctx context.Context, s v1.Step) (restore func(), err error) {
	if e.env.Extend == nil || s.Component != component.KAS || s.Host == "" {
		return func() {}, nil
	}
	return e.env.Extend(ctx, step.TimeoutOf(s))
}

// beginRecord is the record of a step that is about to be done. One that was done before and does not show any longer
// is done once more, as when the host of a stopped unit was rebooted. A rollback still has to put back what was there
// before its first try, and not what that try wrote. And what it made is still this migration's. A rollback that left a
// cloud-controller-manager as foreign would start the in-tree managers next to it.
func beginRecord(s v1.Step, was v1.StepRecord, now time.Time) v1.StepRecord {
	rec := v1.StepRecord{
		ID:           s.ID,
		Started:      now,
		Result:       v1.StepResultStarted,
		Backup:       was.Backup,
		BackupSHA256: was.BackupSHA256,
		BackupMode:   was.BackupMode,
		Files:        was.Files,
		Created:      was.Created,
	}
	switch s.Kind {
	case v1.StepEditWorkload, v1.StepScale, v1.StepPatchObject:
		rec.Before = was.Before
	default:
	}
	return rec
}

// isResumable reports whether a step was started and not finished. Of any other one, what the live cluster shows is all
// there is to it.
func isResumable(rec v1.StepRecord) bool { return rec.Result == v1.StepResultStarted }

// doneBefore is said of a step that an earlier command of this run has done.
const doneBefore = "this run has done it before"

func (e *Engine) alreadyDone(ctx context.Context, s v1.Step, rec v1.StepRecord) error {
	why := doneBefore
	if rec.Result == "" {
		why = ""
		now := e.env.Clock.Now().UTC()
		if err := e.env.Journal.Save(
			ctx,
			v1.StepRecord{
				ID:      s.ID,
				Started: now,
				Ended:   &now,
				Result:  v1.StepResultAlreadyDone,
			},
		); err != nil {
			return err
		}
	}
	e.env.Report(s, step.EventAlreadyDone, why)
	return nil
}

// recordFailure writes down why a step went wrong; what it owes stays in its record for the next run. Of a command that
// was ended in the middle of a step nothing went wrong with the step.
func (e *Engine) recordFailure(ctx context.Context, s v1.Step, rec v1.StepRecord, err error) error {
	kind := step.EventInterrupted
	if ctx.Err() == nil {
		kind, rec.Error = step.EventFailed, err.Error() // the journal cuts it
	}
	if e.env.Journal.Record(s.ID).Result != "" {
		if saveErr := e.env.Journal.Save(context.WithoutCancel(ctx), rec); saveErr != nil {
			err = errors.Join(err, saveErr)
		}
	}
	e.env.Report(s, kind, err.Error())
	return err
}

// verify waits until the step shows in the live cluster and the loops have the owners that it promises.
func (e *Engine) verify(ctx context.Context, s v1.Step, x step.Executor) error {
	if err := e.env.CommitChanges(ctx, s.Host); err != nil {
		return err
	}
	limit := step.TimeoutOf(s)
	if e.env.IsInSeed(s.Ref) {
		limit = step.RolloutTimeout
	}
	reason := ""
	more := step.Explanation{Since: e.env.Clock.Now()}
	err := e.env.Poll(ctx, limit, step.SettleInterval, func(ctx context.Context) (bool, error) {
		verified, why := e.isVerified(ctx, s, x)
		if !verified {
			reason = e.explain(ctx, s, &more, why)
			e.env.ReportWaiting(s, reason, more.Since)
		}
		return verified, nil
	})
	if errors.Is(err, step.ErrTimedOut) {
		return &step.VerifyError{Waited: limit, Reason: reason, Undo: e.describeUndo(ctx, s)}
	}
	return err
}

// isVerified reports whether a step shows; if not, why, where that is known.
func (e *Engine) isVerified(ctx context.Context, s v1.Step, x step.Executor) (bool, string) {
	done, err := x.Done(ctx, s)
	if err != nil {
		return false, err.Error()
	}
	if !done {
		return false, e.unnamed(s)
	}
	if len(s.Expect) == 0 {
		return true, ""
	}
	reason, err := manager.CheckOwners(ctx, e.env, s.Expect)
	if err != nil {
		return false, err.Error()
	}
	return reason == "", reason
}
