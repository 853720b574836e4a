package hosted

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Ledger keeps which plans were begun, in a place that the writers of a journal cannot write. A journal is a ConfigMap in the namespace of the control plane,
// and without a ledger the next run would carry out whatever plan stands there.
type Ledger interface {
	// Note is called before the journal of a plan is made.
	Note(ctx context.Context, part Part, p *v1.Plan) error
	// Check says why a run does not go on with a plan, or back from it: an *UnknownPlanError when the plan was not begun here and nobody has approved it.
	Check(ctx context.Context, part Part, p *v1.Plan) error
	// Forget is called when a part is at its end: a journal with its plan that comes later is somebody else's.
	Forget(ctx context.Context, part Part) error
}

// UnknownPlanError says that a journal holds a plan that was not begun here. Nothing was changed.
type UnknownPlanError struct {
	// Journal is the ConfigMap, as namespace/name. SHA256 is that of the steps of the plan in it.
	Journal, SHA256 string
	// Rollback tells that it is the rollback in the journal, whose plan was begun here.
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

// known asks the ledger about the plan of a journal.
func (p *Plane) known(ctx context.Context, part Part, doc *v1.Journal) error {
	if p.Ledger == nil {
		return nil
	}
	err := p.Ledger.Check(ctx, journalOf(part), &doc.Plan)
	if unknown, is := errors.AsType[*UnknownPlanError](err); is {
		unknown.Journal = p.home(part).Journal()
	}
	return err
}

func (p *Plane) note(ctx context.Context, part Part, made *v1.Plan) error {
	if p.Ledger == nil {
		return nil
	}
	return p.Ledger.Note(ctx, journalOf(part), made)
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

// Journal reads the journal of a part; ErrNothingBegun when there is none.
func (p *Plane) Journal(ctx context.Context, part Part) (v1.Journal, error) {
	j, err := p.home(part).Open(ctx)
	if err != nil {
		return v1.Journal{}, err
	}
	return j.Doc(), nil
}
