package hosted

import (
	"context"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate"
)

// Gather looks at both clusters once and changes nothing. What could not be looked at is in Errors of the snapshot.
func (p *Plane) Gather(_ context.Context) *v1.Snapshot { return &v1.Snapshot{} }

// Check judges a snapshot by the rules that concern hosted control planes. Rules about hosts are skipped with the reason.
func (p *Plane) Check(_ *v1.Snapshot) v1.CheckReport { return v1.CheckReport{} }

// Plan makes the plan of a part. It fails with *BlockedError when the checks refuse, and makes the same plan for the same snapshot.
func (p *Plane) Plan(_ *v1.Snapshot, _ Part) (*v1.Plan, error) { return nil, errNotBuilt }

// Run carries a part out under the lock, or goes on with it where it was begun. It returns nil when the part is done, also when it was done before.
// When stop is closed it finishes the step under way and returns ErrInterrupted; when ctx ends it stops at once, and the next Run goes on.
func (p *Plane) Run(_ context.Context, _ Part, _ func(migrate.Event), _ <-chan struct{}) error {
	return errNotBuilt
}

// Rollback takes Handover back from wherever it is, or goes on with doing so. It returns nil when the control plane is as before.
func (p *Plane) Rollback(_ context.Context, _ func(migrate.Event), _ <-chan struct{}) error {
	return errNotBuilt
}

// Owners asks every manager's pod, and the leases. It takes no snapshot.
func (p *Plane) Owners(_ context.Context) (Owners, error) { return Owners{}, errNotBuilt }

// Status says how a part stands, from the journal and the lock in the seed alone.
func (p *Plane) Status(_ context.Context, _ Part) (v1.Status, error) { return v1.Status{}, errNotBuilt }

// Error tells how many findings refuse, and the first of them.
func (e *BlockedError) Error() string { return "the checks refuse the migration" }
