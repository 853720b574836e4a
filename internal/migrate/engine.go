// Package migrate decides when a step of a plan may run, whether it is done, and what is written down about it: it executes plans.
//
// The life of a step:
//
//	done? ──yes──> next          asked of the live cluster, never of the journal
//	  │no
//	requires ──no──> stale plan  the facts that the plan was made from
//	  │yes
//	grant                        the access to the host, for this step alone
//	bind owners, await successor (a restart of a process that may own loops)
//	journal "started"            with the backup of what is about to change
//	do, release the leases of owners that ended
//	done? and owners as expected, bounded wait
//	journal "done"
//
// A crash between any two of these converges on the next run: Do is idempotent, and what an assisted handover still owes is in the journal.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/handover"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// Options of an Engine.
type Options struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// Seed hosts the control plane; nil for a cluster that runs its own.
	Seed *Seed
	// Hosts whose files and processes steps act on.
	Hosts []hostaccess.Host
	// HostsAreNodes tells that the hosts are those of the cluster's Nodes and have their names: nobody has named them.
	HostsAreNodes bool
	// NodeNames maps a host's name to its Node's.
	NodeNames map[string]string
	// Scrape asks a manager on a host, or in a pod of the seed, for its gauges; an error means unknown.
	Scrape func(ctx context.Context, component, host, address string) (v1.Manager, error)
	// Version asks a component on a host for the version of its program; empty when it does not tell, an error when it does not answer. Steps that change a
	// version prove it by this; nil leaves that to mirror pods.
	Version func(ctx context.Context, component, host, address string) (string, error)
	// ToolVersion of this program goes into the journal with what it writes; empty leaves the one that is there.
	ToolVersion string
	// Before is the snapshot from before the migration, that verifications compare with.
	Before *v1.Snapshot
	// Live is a snapshot of how the cluster is now: where its hosts have what steps change is asked of it, and never of a plan or a journal. Nil for Before.
	Live *v1.Snapshot
	// Compare says in sentences what is not as it was before the migration and nothing explains, and what could not be compared; nil where nobody looks at
	// the whole cluster. Steps that verify ask it when all that they look at themselves is right.
	Compare func(ctx context.Context) (problems, unknown []string)
	// unjudged lets a test carry out steps that no migration has.
	unjudged bool
	// Tell is called for everything a watching operator wants to know; nil for silence.
	Tell func(Event)
	// Extend has the lock on the cluster last for as long as its only API server may be away, until the returned function; nil where nobody holds one.
	Extend func(ctx context.Context, away time.Duration) (restore func(), err error)
	// ReadLocal reads a file of this machine that a step copies to hosts; os.ReadFile when nil.
	ReadLocal func(path string) ([]byte, error)
	// Clock is the real one when nil.
	Clock clock.Clock
	// Hook is called at named points of a step ("before", "during", "after"); tests kill the process there.
	Hook func(point, step string)
}

// Event is something that happened to a step.
type Event struct {
	Time time.Time
	Step v1.Step
	// Kind is started, progress, waiting (told at every look), done, already-done, deferred, failed, paused, resumed.
	Kind    string
	Message string
	// Number of the step in the plan, from 1, and how many there are.
	Number, Total int
}

// Engine executes plans.
type Engine struct {
	Options
	hosts   map[string]hostaccess.Host
	journal *Journal
	plan    *v1.Plan
	leases  handover.Leases
	number  map[string]int
	// stopping is closed when the operator asked to stop.
	stopping <-chan struct{}
	// budget counts the nodes under change.
	budget budget
	// deferred remembers which groups were put behind the others, to say so once.
	deferred map[string]bool
	// away are the hosts that were out of reach.
	away *away
	// without are the hosts that were taken out of the migration.
	without []hostaccess.Host
	// proofs are what this process has seen of holders itself.
	proofs *proofs
	// silences are the leases that steps have looked at in vain.
	silences map[string]*handover.Silence
	// controlled tells that the ConfigMap through which the run is paused was made, deaf that it may not be read.
	controlled, deaf bool
	// putOff tells that it was said of a pause that it waits for the end of a downtime.
	putOff bool
}

// New returns an engine that writes what it does into the journal.
func New(o Options, j *Journal) *Engine {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Tell == nil {
		o.Tell = func(Event) {}
	}
	if o.ReadLocal == nil {
		o.ReadLocal = os.ReadFile
	}
	if o.Hook == nil {
		o.Hook = func(string, string) {}
	}
	j.writtenBy(o.ToolVersion)
	o.Tell = serialized(o.Tell)
	without := slices.DeleteFunc(slices.Clone(o.Hosts), func(h hostaccess.Host) bool { return !isOut(j.Doc(), h.Name()) })
	o.Hosts = Staying(j.Doc(), o.Hosts)
	e := &Engine{Options: o, journal: j, away: &away{}, proofs: newProofs(), without: without, hosts: map[string]hostaccess.Host{}, number: map[string]int{}, deferred: map[string]bool{}}
	for _, h := range o.Hosts {
		e.hosts[h.Name()] = h
	}
	e.leases = handover.Leases{Client: o.Kube.CoordinationV1().Leases(namespace), Now: o.Clock.Now}
	return e
}

// ErrInterrupted is returned when the operator asked to stop and the current step was finished first.
var ErrInterrupted = errors.New("interrupted between two steps")

// Run executes the plan, up to its Until where it has one: behind that step, or behind its phase when it is the last of it. The whole plan decides about
// the order, so that the owner's host comes last however far a run goes. When stop is closed it finishes the current step and returns ErrInterrupted; when ctx ends it stops at once, and the
// journal says which step is uncertain.
func (e *Engine) Run(ctx context.Context, p *v1.Plan, stop <-chan struct{}) error {
	e.plan, e.stopping = p, stop
	for i, s := range p.Steps {
		e.number[s.ID] = i + 1
	}
	if err := e.judgeSeed(p); err != nil {
		return err
	}
	if err := e.rejectReturnedHosts(ctx); err != nil {
		return err
	}
	return e.lost(ctx, e.run(ctx, p, stop))
}

func (e *Engine) run(ctx context.Context, p *v1.Plan, stop <-chan struct{}) error {
	for _, phase := range phases(p.Steps) {
		last := phase[len(phase)-1].ID == p.Until
		for len(phase) > 0 {
			group, rest, err := e.next(ctx, phase)
			if err != nil {
				return err
			}
			group, phase = batchOf(group, rest, p.Until)
			if len(group) > 1 && group[0].Batch != "" {
				if err := e.sideBySide(ctx, group, stop); err != nil {
					return err
				}
				if group[len(group)-1].ID == p.Until && !last {
					return nil
				}
				continue
			}
			if until, err := e.inTurn(ctx, group, stop); err != nil || until && !last {
				return err
			}
		}
		if last {
			return nil
		}
	}
	return nil
}

// inTurn carries steps out one after the other. until tells that the last one that was carried out is the plan's Until.
func (e *Engine) inTurn(ctx context.Context, steps []v1.Step, stop <-chan struct{}) (until bool, err error) {
	e.budget.begin()
	for _, s := range steps {
		select {
		case <-stop:
			return false, ErrInterrupted
		default:
		}
		if err := e.steady(ctx, s, func(ctx context.Context) error { return e.pause(ctx, s, stop) }); err != nil {
			return false, err
		}
		if err := e.one(ctx, s); interrupted(err) {
			return false, err
		} else if err != nil {
			return false, &StepError{Step: s, Err: err}
		}
		if s.ID == e.plan.Until {
			return true, nil
		}
	}
	return false, nil
}

// one is the whole life of a step.
func (e *Engine) one(ctx context.Context, s v1.Step) error {
	if h, out := e.takenOut(s); out {
		return e.skip(ctx, s, h)
	}
	if err := e.allowed(s); err != nil {
		return err
	}
	ctx = e.watched(ctx, s)
	if err := e.reach(ctx, s); err != nil {
		return err
	}
	x, err := e.executor(s)
	if err != nil {
		return err
	}
	rec := e.journal.Record(s.ID)
	if owesNothing(rec) {
		if shown, err := e.shown(ctx, s, x, rec); err != nil {
			return err
		} else if shown {
			return e.alreadyDone(ctx, s, rec)
		}
	}
	return e.carryOut(ctx, s, x, rec)
}

// shown tells that nothing is left to do of a step: the cluster shows what it is for, or what a later step made of that.
func (e *Engine) shown(ctx context.Context, s v1.Step, x executor, rec v1.StepRecord) (bool, error) {
	var done bool
	if rec.Result != "" {
		err := e.steady(ctx, s, func(ctx context.Context) error {
			var err error
			done, err = e.superseded(ctx, s)
			return err
		})
		if done || err != nil {
			return done, err
		}
	}
	err := e.steady(ctx, s, func(ctx context.Context) error {
		var err error
		done, err = x.done(ctx, s)
		return err
	})
	var pending pendingError
	if err != nil && !errors.As(err, &pending) {
		return false, fmt.Errorf("looking whether it is done: %w", err)
	}
	if done {
		return true, nil
	}
	return e.standing(ctx, s, x, rec)
}

// carryOut does a step, or goes on with one that was begun, and waits until the cluster shows what it is for.
func (e *Engine) carryOut(ctx context.Context, s v1.Step, x executor, rec v1.StepRecord) error {
	e.Hook("before", s.ID)
	if err := e.steady(ctx, s, func(ctx context.Context) error { return e.provesControlPlane(ctx, s) }); err != nil {
		return err
	}
	if rec.Result != "started" {
		if err := e.steady(ctx, s, func(ctx context.Context) error { return e.requires(ctx, s) }); err != nil {
			return err
		}
		rec = begin(s, rec, e.Clock.Now().UTC())
	}
	if err := e.steady(ctx, s, func(ctx context.Context) error { return e.checkOldManagers(ctx, s) }); err != nil {
		return err
	}
	release, err := e.grant(ctx, s)
	if err != nil {
		return err
	}
	defer release(context.WithoutCancel(ctx))
	restore, err := e.outlast(ctx, s)
	if err != nil {
		return err
	}
	defer restore()
	e.tell(s, "started", "")
	if err := x.do(ctx, s, &rec); interrupted(err) {
		return err // its record says that it was begun
	} else if err != nil {
		return e.failed(ctx, s, rec, err)
	}
	if err := e.settle(ctx, s, x); interrupted(err) {
		return err
	} else if err != nil {
		return e.failed(ctx, s, rec, err)
	}
	now := e.Clock.Now().UTC()
	rec.Ended, rec.Result, rec.Error = &now, "done", ""
	if err := e.journal.Save(ctx, rec); err != nil {
		return err
	}
	e.Hook("after", s.ID)
	e.tell(s, "done", "")
	return nil
}

// outlast has the lock on the cluster last for as long as a step may take an API server away, which may be the only one there is, or the only one that this
// process can reach: a lock that ended before the step's own limit would end the run in the middle of the restart.
func (e *Engine) outlast(ctx context.Context, s v1.Step) (restore func(), err error) {
	if e.Extend == nil || s.Component != kas || s.Host == "" {
		return func() {}, nil
	}
	return e.Extend(ctx, timeout(s))
}

// begin is the record of a step that is about to be done. One that was done before and does not show any longer, as when the host of a stopped unit was
// started anew, is done once more: what was there before its first try is still what a rollback has to put back, and not what that try wrote; and what it made is still this
// migration's: a rollback that left a cloud-controller-manager for somebody else's would start the in-tree managers beside it.
func begin(s v1.Step, was v1.StepRecord, now time.Time) v1.StepRecord {
	rec := v1.StepRecord{ID: s.ID, Started: now, Result: "started", Backup: was.Backup, BackupSHA256: was.BackupSHA256, BackupMode: was.BackupMode, Files: was.Files, Created: was.Created}
	switch s.Kind {
	case v1.StepEditWorkload, v1.StepScale, v1.StepPatchObject:
		rec.Before = was.Before
	default:
	}
	return rec
}

// owesNothing tells that a step was never started, or was finished: what the live cluster shows is all there is to it.
func owesNothing(rec v1.StepRecord) bool { return rec.Result != "started" }

func (e *Engine) alreadyDone(ctx context.Context, s v1.Step, rec v1.StepRecord) error {
	if rec.Result == "" {
		now := e.Clock.Now().UTC()
		if err := e.journal.Save(ctx, v1.StepRecord{ID: s.ID, Started: now, Ended: &now, Result: "already-done"}); err != nil {
			return err
		}
	}
	e.tell(s, "already-done", "")
	return nil
}

// failed writes down why a step went wrong; what it owes stays in its record for the next run.
func (e *Engine) failed(ctx context.Context, s v1.Step, rec v1.StepRecord, err error) error {
	rec.Error = err.Error()
	if e.journal.Record(s.ID).Result != "" {
		if saveErr := e.journal.Save(context.WithoutCancel(ctx), rec); saveErr != nil {
			err = errors.Join(err, saveErr)
		}
	}
	e.tell(s, "failed", err.Error())
	return err
}

// settle waits until the step shows in the live cluster and the loops have the owners that it promises.
func (e *Engine) settle(ctx context.Context, s v1.Step, x executor) error {
	if err := e.commit(ctx, s.Host); err != nil {
		return err
	}
	limit := timeout(s)
	if e.refInSeed(s.Ref) {
		limit = rolloutBudget
	}
	reason, begun := "the change is not visible", e.Clock.Now()
	err := e.poll(ctx, limit, settleInterval, func(ctx context.Context) (bool, error) {
		settled, why := e.settled(ctx, s, x)
		if why != "" {
			reason = why
		}
		if !settled {
			reason = e.stuck(ctx, s, reason)
		}
		if !settled {
			e.waiting(s, reason, begun)
		}
		return settled, nil
	})
	if errors.Is(err, errWaited) {
		return &VerifyError{Waited: limit, Reason: reason, Undo: e.undo(ctx, s)}
	}
	return err
}

// settled tells whether a step shows; if not, why, where that is known.
func (e *Engine) settled(ctx context.Context, s v1.Step, x executor) (bool, string) {
	done, err := x.done(ctx, s)
	if err != nil {
		return false, err.Error()
	}
	if !done || len(s.Expect) == 0 {
		return done, ""
	}
	reason, err := e.owned(ctx, s.Expect)
	if err != nil {
		return false, err.Error()
	}
	return reason == "", reason
}

func (e *Engine) tell(s v1.Step, kind, message string) {
	s.ID, _, _ = strings.Cut(s.ID, movingInfix) // a part of the step that an onlooker knows
	e.Tell(Event{Time: e.Clock.Now(), Step: s, Kind: kind, Message: message, Number: e.number[s.ID], Total: len(e.plan.Steps)})
}

const settleInterval = 200 * time.Millisecond

// timeout bounds the wait for a step; a real kubelet was measured to take 30 s for a manager and 75 s for a kube-apiserver.
func timeout(s v1.Step) time.Duration {
	if newImage(s) {
		return 180*time.Second + pullBudget
	}
	switch {
	case s.Component == "kube-apiserver":
		return 180 * time.Second
	case s.Component != "":
		return 120 * time.Second
	}
	return 60 * time.Second
}

var errWaited = errors.New("waited in vain")

// poll calls f until it is true; errWaited when the limit passes first.
func (e *Engine) poll(ctx context.Context, limit, interval time.Duration, f func(context.Context) (bool, error)) error {
	end := e.Clock.Now().Add(limit)
	for {
		ok, err := f(ctx)
		if err != nil || ok {
			return err
		}
		if e.Clock.Now().After(end) {
			return errWaited
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.Clock.After(interval):
		}
	}
}
