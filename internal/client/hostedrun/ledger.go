package hostedrun

import (
	"context"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// approvalLedger is the Ledger of the command line: what was approved on this machine. It is asked under the lock, when
// the journal may be another one than before.
type approvalLedger struct{ *Migration }

// Note implements hosted.Ledger.
func (a approvalLedger) Note(_ context.Context, part hosted.Part, p *v1.Plan) error {
	return a.Client.NoteApproval(p, a.approval(part))
}

// Check implements hosted.Ledger.
func (a approvalLedger) Check(_ context.Context, part hosted.Part, p *v1.Plan) error {
	if a.Client.IsApprovedHere(p, a.approval(part)) {
		return nil
	}
	return &hosted.UnknownPlanError{
		SHA256: hosted.Sum(p.Steps),
		Why:    "it is another one than the one that was approved; run the same command again and look at it",
	}
}

// NoteBack implements hosted.Ledger: apply takes nothing back.
func (a approvalLedger) NoteBack(context.Context, *v1.Plan) error { return nil }

// HasBack implements hosted.Ledger.
func (a approvalLedger) HasBack(context.Context, *v1.Plan) (bool, error) { return false, nil }

// Forget implements hosted.Ledger: an approval is of one plan, and ends with the next one.
func (a approvalLedger) Forget(context.Context, hosted.Part) error { return nil }

// SeenPlan is the Ledger of a rollback of the command line. It allows only the plan that was in the journal when its
// rollback was shown.
type SeenPlan struct{ Plan *v1.Plan }

// Note implements hosted.Ledger: a rollback begins no plan.
func (SeenPlan) Note(context.Context, hosted.Part, *v1.Plan) error { return nil }

// Check implements hosted.Ledger.
func (l SeenPlan) Check(_ context.Context, _ hosted.Part, p *v1.Plan) error {
	if compare.Seal(p) == compare.Seal(l.Plan) {
		return nil
	}
	return &hosted.UnknownPlanError{
		SHA256: hosted.Sum(p.Steps),
		Why:    "it is another one than a moment ago; run the same command again and look at its rollback",
	}
}

// NoteBack implements hosted.Ledger: a person approves of each rollback.
func (SeenPlan) NoteBack(context.Context, *v1.Plan) error { return nil }

// HasBack implements hosted.Ledger: the rollback that was looked at is of one plan.
func (l SeenPlan) HasBack(_ context.Context, p *v1.Plan) (bool, error) {
	return compare.Seal(p) == compare.Seal(l.Plan), nil
}

// Forget implements hosted.Ledger.
func (SeenPlan) Forget(context.Context, hosted.Part) error { return nil }
