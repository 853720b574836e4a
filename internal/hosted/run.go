// Package hosted decides how one cluster is migrated whose control plane runs as Deployments in a namespace of another
// cluster, the seed. It puts the engine of the command line (snapshot, check, plan, migrate) together for such a
// cluster. The operator and the command line call it.
//
// What is where:
//
//	seed, namespace of the cluster          user cluster
//	Deployments and their pods              Nodes, Services, volumes
//	ConfigMaps and Secrets next to them      leases of the managers, their rights
//	journal, lock, the snapshot before
//
// The journal and the lock are in the seed, since the user cluster may be down and its admins must not edit them.
//
// The process of a manager is the container of a pod. It has ended when the pod's object is gone. It has also ended
// when its status says that the container terminated and the pod does not restart it. That a pod is not Ready proves
// nothing, nor does a look that failed.
//
// The order, by strategy:
//
//	downtime            controller-manager without cloud loops -> old pods gone, every gauge says so -> cloud-controller-manager
//	leader-migration    lease rights -> controller-manager learns the lease -> cloud-controller-manager on standby -> controller-manager gives up
//	                    the loops -> leases of ended pods released -> leader migration off
//	finish              when the machines are done: controller-manager and apiserver external
package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
	"github.com/transplant-dev/transplant/internal/holder"
	"github.com/transplant-dev/transplant/internal/migrate"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// Run executes a part under the lock, or goes on with it where it was begun. It returns nil when the part is done,
// also when it was done before. When stop is closed it finishes the step under way and returns ErrInterrupted. When ctx
// ends it stops at once, and the next Run continues.
func (p *Plane) Run(ctx context.Context, part Part, tell func(step.Event), stop <-chan struct{}) error {
	if done, err := p.done(ctx, part); done || err != nil {
		return err
	}
	return p.locked(ctx, func(ctx context.Context, publish func(string)) error {
		if done, err := p.done(ctx, part); done || err != nil { // another process may have changed it until the lock was free
			return err
		}
		j, made, before, err := p.openPart(ctx, part)
		if err != nil {
			return err
		}
		if err := p.pinned(made); err != nil {
			return err
		}
		if doc := j.Doc(); part == Handover {
			judgeSinceBefore(p, &doc, before)
		}
		if err := p.carryOut(ctx, j, made, before, tell, publish, stop); err != nil {
			return err
		}
		if err := settle(ctx, p, part, before, tell, stop); err != nil {
			return err
		}
		if err := p.endRun(ctx, j, v1.RunApplied); err != nil || part != Finish {
			return err
		}
		return p.forget(ctx, Handover, Finish)
	})
}

// done reports whether a part was executed, and says why it cannot be for what is in the journals.
func (p *Plane) done(ctx context.Context, part Part) (bool, error) {
	handover, err := p.phase(ctx, Handover)
	if err != nil {
		return false, err
	}
	if handover == v1.RunRollingBack {
		return false, ErrRollback
	}
	// The phase is text in a ConfigMap. A rollback that was noted goes on, whatever that text says.
	if back, err := p.GoesBack(ctx); err != nil {
		return false, err
	} else if back {
		return false, ErrRollback
	}
	if part != Finish {
		return handover == v1.RunApplied, nil
	}
	if handover == v1.RunApplying {
		return false, fmt.Errorf(
			"the handover of %s is under way: finish it before the in-tree provider is removed",
			p.Name,
		)
	}
	finish, err := p.phase(ctx, Finish)
	return finish == v1.RunApplied, err
}

// phase is that of a part's journal; empty when there is none.
func (p *Plane) phase(ctx context.Context, part Part) (string, error) {
	j, err := p.Location(part).Open(ctx)
	if errors.Is(err, journal.ErrNoJournal) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return j.Doc().Phase, nil
}

// openPart opens the journal of a part that was begun, or makes a plan and the journal for it. A plan of which no step
// was begun is made again: what it was made from may be days old. What a person confirmed is compared with the plan
// that is made here, so that nothing else is begun. What is gone on with has the words of the plan that is made again.
func (p *Plane) openPart(ctx context.Context, part Part) (*journal.Journal, *v1.Plan, *v1.Snapshot, error) {
	home := p.Location(part)
	j, err := home.Open(ctx)
	if err == nil && j.Doc().Phase == v1.RunApplying && len(j.Doc().Records) > 0 {
		doc := j.Doc()
		if err := errors.Join(p.trusted(ctx, doc), p.checkPlan(ctx, part, &doc), p.forward(ctx, part, &doc)); err != nil {
			return nil, nil, nil, err
		}
		made, before, err := reworded(ctx, home, &doc)
		return j, made, before, err
	}
	if err != nil && !errors.Is(err, journal.ErrNoJournal) {
		return nil, nil, nil, err
	}
	if err := p.observe(ctx); err != nil {
		return nil, nil, nil, err
	}
	snap := p.Gather(ctx)
	if err := bounded(snap, p.Memory); err != nil {
		return nil, nil, nil, err
	}
	made, err := p.Plan(snap, part)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := mayBegin(ctx, p, part, made, snap); err != nil {
		return nil, nil, nil, err
	}
	now := p.clock().Now().UTC()
	if err := p.recordPlan(ctx, part, made); err != nil {
		return nil, nil, nil, err
	}
	j, err = home.Create(
		ctx,
		v1.Journal{
			Run:     now.Format("20060102-150405"),
			Started: now,
			Phase:   v1.RunApplying,
			User:    holder.Words(p.Holder),
			Plan:    *made,
		},
		snap,
	)
	return j, made, snap, err
}

// mayBegin says why the plan of a part is not begun with.
func mayBegin(ctx context.Context, p *Plane, part Part, made *v1.Plan, snap *v1.Snapshot) error {
	if part == Handover {
		if err := confirmed(p.Confirmed, made.Steps); err != nil {
			return err
		}
	}
	if part == Finish {
		if err := keptSinceHandover(ctx, p, snap); err != nil {
			return err
		}
	}
	if err := p.pinned(made); err != nil {
		return err
	}
	if ctx.Err() != nil { // a snapshot that was cut short refuses for the wrong reason, or the lock was lost
		return context.Cause(ctx)
	}
	return nil
}

// reworded is the plan of a journal with the words of the plan that is made again, and the snapshot that it is made of.
// Who may write the journal writes its words.
func reworded(ctx context.Context, home journal.ObjectLocation, doc *v1.Journal) (*v1.Plan, *v1.Snapshot, error) {
	before, err := home.Before(ctx)
	if err != nil {
		return nil, nil, err
	}
	answerlimit.Hold(ctx, answerlimit.Size(before)+answerlimit.Size(doc))
	return plan.Reworded(&doc.Plan, before), before, nil
}

// Rollback takes Handover back from wherever it is, or goes on with doing so. It returns nil when the control plane is
// as before.
func (p *Plane) Rollback(ctx context.Context, tell func(step.Event), stop <-chan struct{}) error {
	return p.locked(ctx, func(ctx context.Context, publish func(string)) error {
		finish, err := p.phase(ctx, Finish)
		if err != nil {
			return err
		}
		if finish != "" {
			return ErrTooLate
		}
		home := p.Location(Handover)
		j, err := home.Open(ctx)
		if err != nil {
			return err
		}
		doc := j.Doc()
		if back, err := p.isGoingBack(ctx, &doc); err != nil {
			return err
		} else if doc.Phase == v1.RunRolledBack && !back {
			return p.forget(ctx, Handover)
		}
		if err := errors.Join(p.trusted(ctx, doc), p.checkPlan(ctx, Handover, &doc)); err != nil {
			return err
		}
		before, err := home.Before(ctx)
		if err != nil {
			return err
		}
		answerlimit.Hold(ctx, answerlimit.Size(before)+answerlimit.Size(&doc))
		back, err := p.beginBack(ctx, j, before)
		if err != nil {
			return err
		}
		if err := p.carryOut(ctx, j, back, before, tell, publish, stop); err != nil {
			return err
		}
		return errors.Join(p.endRun(ctx, j, v1.RunRolledBack), p.forget(ctx, Handover))
	})
}

// beginBack returns the rollback of a journal once it is begun: nothing speaks against it, and the ledger and the
// journal say so.
func (p *Plane) beginBack(ctx context.Context, j *journal.Journal, before *v1.Snapshot) (*v1.Plan, error) {
	doc := j.Doc()
	back, begun, err := p.wayBack(&doc, before)
	if err != nil {
		return nil, err
	}
	if err := p.pinned(back); err != nil {
		return nil, err
	}
	if err := precondition.ManagersRecorded(ctx, p.engineOptions(before, nil), j); err != nil {
		return nil, err
	}
	if err := p.noteBack(ctx, &doc, back); err != nil {
		return nil, err
	}
	if begun {
		return back, nil
	}
	return back, j.SetPhase(ctx, v1.RunRollingBack, back, nil)
}

// wayBack is the rollback of a journal. If one was begun, it is that one, with the words of the one that is made again.
// Otherwise one is made.
func (p *Plane) wayBack(doc *v1.Journal, before *v1.Snapshot) (back *v1.Plan, begun bool, err error) {
	// One that is noted and said to be finished is gone through again: each of its steps looks whether it is done.
	if trust.IsRollingBack(doc) || doc.Phase == v1.RunRolledBack && doc.Rollback != nil {
		return plan.RewordedRollback(doc, before), trust.IsRollingBack(doc), p.sameRollback(doc, before)
	}
	if back, err = rollback.Make(doc, before, p.clock().Now()); err != nil {
		return nil, false, err
	}
	if err := invariant.CheckAllowed(back, nil); err != nil {
		return nil, false, &trust.UntrustedError{What: "the rollback that is made of the journal", Err: err}
	}
	return back, false, nil
}

// sameRollback makes a rollback that was begun again, and refuses it where it differs. One that is pinned was looked
// at.
func (p *Plane) sameRollback(doc *v1.Journal, before *v1.Snapshot) error {
	if p.Pinned != "" || p.Ledger == nil {
		return nil
	}
	differences, err := plan.FindRollbackDifferences(doc, before)
	if err == nil && len(differences) == 0 {
		return nil
	}
	sum := Sum(doc.Rollback.Steps)
	why := "the rollback in it is not the one that is made of its plan and records"
	if err != nil {
		why += ": " + err.Error()
	} else {
		why += ": " + strings.Join(differences[:min(len(differences), namedSteps)], "; ")
	}
	return &UnknownPlanError{
		Journal:  p.Location(Handover).JournalName(),
		SHA256:   sum,
		Rollback: true,
		Why:      why,
	}
}

// PlanRollback is the rollback as Rollback would execute it now, and the journal that it is of. It changes nothing.
func (p *Plane) PlanRollback(ctx context.Context) (back *v1.Plan, of v1.Journal, err error) {
	home := p.Location(Handover)
	j, err := home.Open(ctx)
	if err != nil {
		return nil, of, err
	}
	of = j.Doc()
	if err := p.trusted(ctx, of); err != nil {
		return nil, of, err
	}
	before, err := home.Before(ctx)
	if err != nil {
		return nil, of, err
	}
	if err := precondition.ManagersRecorded(ctx, p.engineOptions(before, nil), j); err != nil {
		return nil, of, err
	}
	back, _, err = p.wayBack(&of, before)
	return back, of, err
}

// pinned refuses another plan than the one that was asked for by its SHA-256.
func (p *Plane) pinned(of *v1.Plan) error {
	if sum := Sum(of.Steps); p.Pinned != "" && p.Pinned != sum {
		return &UnconfirmedError{Confirmed: p.Pinned, Made: sum}
	}
	return nil
}

// trusted says why a journal is not gone on with: it is another control plane's, or does what no migration of one does.
// An account that may write ConfigMaps in the namespace of a control plane cannot thereby change others. Both clusters
// are looked at for that.
func (p *Plane) trusted(ctx context.Context, doc v1.Journal) error {
	if err := p.keepsRules(doc); err != nil {
		return err
	}
	live := p.Gather(ctx)
	if err := bounded(live, p.Memory); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := unread(live); err != nil {
		return fmt.Errorf(
			"migration %s is not gone on with before its journal is compared with the clusters: %w; run again when they answer",
			doc.Run,
			err,
		)
	}
	return trust.CheckJournal(doc, live)
}

// keepsRules says which rule a journal breaks, without a look at a cluster.
func (p *Plane) keepsRules(doc v1.Journal) error {
	for _, of := range []*v1.Plan{&doc.Plan, doc.Rollback} {
		if of != nil && of.Cluster.Seed != p.Namespace {
			return &trust.UntrustedError{
				What: "the journal in namespace " + p.Namespace,
				Err:  fmt.Errorf("its plan is for a control plane in namespace %q", of.Cluster.Seed),
			}
		}
	}
	return trust.CheckJournal(doc, nil)
}

// unread says why a snapshot does not tell which cluster it is of, or what its control plane runs. A journal that
// differs from such a snapshot is not thereby foreign.
func unread(snap *v1.Snapshot) error {
	for _, e := range snap.Errors {
		if slices.Contains([]string{"cluster/uid", "seed/namespace", "seed/deployments", "seed/pods"}, e.Fact) {
			return errors.New(e.Error)
		}
	}
	if snap.Cluster.UID == "" {
		return errors.New("namespace kube-system of the cluster has no uid")
	}
	return nil
}

func (p *Plane) endRun(ctx context.Context, j *journal.Journal, phase string) error {
	ended := p.clock().Now().UTC()
	return j.SetPhase(ctx, phase, nil, &ended)
}

// cause adds why a run's context ended: a lost lock reads otherwise than an operator that stops.
func cause(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if c := context.Cause(ctx); c != nil && !errors.Is(err, c) {
		return fmt.Errorf("%w: %w", c, err)
	}
	return err
}

// releaseTimeout bounds giving the lock up after the caller's context has ended.
const releaseTimeout = 10 * time.Second

// locked holds the lock on the cluster during do.
func (p *Plane) locked(ctx context.Context, do func(context.Context, func(string)) error) (err error) {
	t := lock.Taking{
		Holder: p.Holder,
		Steal:  p.StealLock,
		From:   p.Ended,
		Boot:   p.Boot,
		Tell:   p.Tell,
	}
	if t.Holder == "" {
		t.Holder = lock.Holder("transplant")
	}
	held, lock, err := lock.AcquireAt(ctx, p.Location(Handover), p.clock(), t)
	if err != nil {
		return err
	}
	defer func() { // also when do panics, or it would be renewed as long as this process runs
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		err = errors.Join(err, lock.Release(release))
	}()
	return do(held, lock.Publish)
}

// Location is where the journal, the pause and the lock of a part are kept in the seed.
func (p *Plane) Location(part Part) journal.ObjectLocation {
	h := journal.ObjectLocation{Kube: p.Seed.Kube, Namespace: p.Namespace, Memory: p.Memory}
	if part == Finish {
		h.Part = string(part)
	}
	return h
}

// carryOut executes a plan, and reports progress to the caller and to readers of the lock.
func (p *Plane) carryOut(
	ctx context.Context,
	j *journal.Journal,
	made *v1.Plan,
	before *v1.Snapshot,
	tell func(step.Event),
	publish func(string),
	stop <-chan struct{},
) error {
	progress := lock.NewProgress(j.Doc().Run, publish)
	defer judgeManagers(ctx, p, progress)()
	tellBoth := func(e step.Event) {
		progress.Saw(e)
		if tell != nil {
			tell(e)
		}
	}
	return cause(ctx, migrate.New(p.engineOptions(before, tellBoth), j).Run(ctx, made, stop))
}

func (p *Plane) engineOptions(before *v1.Snapshot, tell func(step.Event)) step.Options {
	return step.Options{
		Kube: p.User.Kube, Dynamic: p.User.Dynamic,
		Seed:   &step.Seed{Kube: p.Seed.Kube, Dynamic: p.Seed.Dynamic, Namespace: p.Namespace},
		Scrape: p.scrape, ToolVersion: p.ToolVersion, Before: before, Tell: tell, Clock: p.clock(), Hook: p.Hook,
		Objectives: judgedOf(p),
	}
}

func (p *Plane) clock() clock.Clock {
	if p.Clock == nil {
		return clock.RealClock{}
	}
	return p.Clock
}

func (p *Plane) scrape(ctx context.Context, component, pod, address string) (v1.Manager, error) {
	if p.Scrape == nil {
		return v1.Manager{}, errors.New("there is no way to reach it: nothing scrapes the pods of the seed")
	}
	return p.Scrape(ctx, component, pod, address)
}
