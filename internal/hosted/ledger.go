package hosted

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Ledger keeps which plans were begun, in a place that the writers of a journal cannot write. A journal is a ConfigMap
// in the namespace of the control plane. Without a ledger the next run would execute whatever plan is there.
type Ledger interface {
	// Note is called before the journal of a plan is made.
	Note(ctx context.Context, part Part, p *v1.Plan) error
	// Check says why a run does not go on with a plan, or back from it. It returns an *UnknownPlanError when the plan was
	// not started here and is not approved.
	Check(ctx context.Context, part Part, p *v1.Plan) error
	// NoteBack is called before the journal of a handover says that its plan is rolled back.
	NoteBack(ctx context.Context, p *v1.Plan) error
	// HasBack reports whether NoteBack was called for this plan, and neither Note nor Forget for the handover since.
	HasBack(ctx context.Context, p *v1.Plan) (bool, error)
	// Forget is called when a part is at its end: a journal with its plan that comes later is foreign.
	Forget(ctx context.Context, part Part) error
}

// UnknownPlanError says that a journal holds a plan that was not begun here. Nothing was changed.
type UnknownPlanError struct {
	// Journal is the ConfigMap, as namespace/name. SHA256 is that of the steps of the plan in it.
	Journal, SHA256 string
	// Rollback reports whether it is the rollback in the journal, whose plan was begun here.
	Rollback bool
	// Why is said when there is more to say than that.
	Why string
}

func (e *UnknownPlanError) Error() string {
	what := "plan"
	if e.Rollback {
		what = "rollback"
	}
	out := fmt.Sprintf("ConfigMap %s holds a %s that was not begun here (sha256 %s)", e.Journal, what, e.SHA256)
	if e.Why != "" {
		out += ": " + e.Why
	}
	return out
}

// checkPlan asks the ledger about the plan of a journal.
func (p *Plane) checkPlan(ctx context.Context, part Part, doc *v1.Journal) error {
	if p.Ledger == nil {
		return nil
	}
	err := p.Ledger.Check(ctx, journalOf(part), &doc.Plan)
	if unknown, is := errors.AsType[*UnknownPlanError](err); is {
		unknown.Journal = p.Location(part).JournalName()
	}
	return err
}

func (p *Plane) recordPlan(ctx context.Context, part Part, made *v1.Plan) error {
	if p.Ledger == nil {
		return nil
	}
	return p.Ledger.Note(ctx, journalOf(part), made)
}

// GoesBack reports whether a rollback of the handover in the journal was noted and is not finished, whatever the
// journal says.
func (p *Plane) GoesBack(ctx context.Context) (bool, error) {
	j, err := p.Location(Handover).Open(ctx)
	if errors.Is(err, ErrNothingBegun) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	doc := j.Doc()
	return p.isGoingBack(ctx, &doc)
}

// isGoingBack reports whether the ledger says that the plan of a journal is being rolled back. It never is without a
// ledger.
func (p *Plane) isGoingBack(ctx context.Context, doc *v1.Journal) (bool, error) {
	if p.Ledger == nil {
		return false, nil
	}
	return p.Ledger.HasBack(ctx, &doc.Plan)
}

// forward refuses to go on with a handover of which a rollback was noted: the run that noted it ended before its
// journal said so.
func (p *Plane) forward(ctx context.Context, part Part, doc *v1.Journal) error {
	if part == Finish {
		return nil
	}
	if back, err := p.isGoingBack(ctx, doc); err != nil || !back {
		return err
	}
	return ErrRollback
}

// noteBack notes a rollback before the journal tells of it. If a journal says that one was started, it asks whether
// that was noted. The phase of a journal is text in a ConfigMap, and by itself it must not take a handover back.
func (p *Plane) noteBack(ctx context.Context, doc *v1.Journal, back *v1.Plan) error {
	if p.Ledger == nil {
		return nil
	}
	if doc.Phase != v1.RunRollingBack {
		return p.Ledger.NoteBack(ctx, &doc.Plan)
	}
	noted, err := p.Ledger.HasBack(ctx, &doc.Plan)
	if err != nil || noted {
		return err
	}
	return &UnknownPlanError{
		Journal: p.Location(Handover).JournalName(), SHA256: Sum(back.Steps), Rollback: true,
		Why: "its phase says " + v1.RunRollingBack + ", and no rollback of this handover is noted here",
	}
}

func (p *Plane) forget(ctx context.Context, parts ...Part) error {
	if p.Ledger == nil {
		return nil
	}
	for _, part := range parts {
		if err := p.Ledger.Forget(ctx, journalOf(part)); err != nil {
			return err
		}
	}
	return nil
}

// journalOf is the part by which a journal is called: an Install has that of Handover.
func journalOf(part Part) Part {
	if part == Install {
		return Handover
	}
	return part
}

// Journal reads the journal of a part; ErrNothingBegun when there is none. It also returns the plan in it as Run goes
// on with it.
func (p *Plane) Journal(ctx context.Context, part Part) (doc v1.Journal, rest *v1.Plan, err error) {
	home := p.Location(part)
	j, err := home.Open(ctx)
	if err != nil {
		return doc, nil, err
	}
	doc = j.Doc()
	rest, _, err = reworded(ctx, home, &doc)
	return doc, rest, err
}
