package step

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// CheckAllowed checks before a step is executed whether it does what a migration does. The plan was judged as a whole
// before; here each step is judged alone.
func (e *Env) CheckAllowed(s v1.Step) error {
	if e.Unjudged {
		return nil
	}
	if err := allowed.CheckStep(e.Plan, s, e.LatestSnapshot()); err != nil {
		return &trust.UntrustedError{What: "step " + s.ID, Err: err}
	}
	return nil
}

// CheckAllowedOn checks right before a step edits a component. It must change only what a migration changes of the
// component's current flags.
func (e *Env) CheckAllowedOn(s v1.Step, command []string) error {
	if e.Unjudged || len(s.Edits) == 0 {
		return nil
	}
	if err := allowed.CheckCommand(e.Plan, s, command); err != nil {
		return &trust.UntrustedError{What: "step " + s.ID, Err: err}
	}
	return nil
}

// LatestSnapshot is how the cluster is, as last read; how it was before if it was not read since.
func (e *Env) LatestSnapshot() *v1.Snapshot {
	if e.Live != nil {
		return e.Live
	}
	return e.Before
}

// IsInterrupted reports whether the operator asked for the end of a wait, which is no failure.
func IsInterrupted(err error) bool {
	return errors.Is(err, ErrInterrupted) || errors.Is(err, hostaccess.ErrStopped)
}

// ErrNotBegun is what a step of a batch returns that was not begun, because another one of its batch went wrong. It
// passes through as an interruption does: nothing is written about the step.
var ErrNotBegun = fmt.Errorf("another step of the batch went wrong: %w", ErrInterrupted)

// Executor executes one kind of step.
type Executor interface {
	// Done looks at the live cluster, whether the step's change is there and shows. It changes nothing.
	Done(ctx context.Context, s v1.Step) (bool, error)
	// Do makes the change. It is repeated after a crash, with the record that was saved; it saves the record before it
	// changes anything.
	Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error
}

// ExecutorOf returns what executes a step.
func (e *Env) ExecutorOf(s v1.Step) (Executor, error) {
	x, ok := e.Kinds[s.Kind]
	if !ok {
		return nil, fmt.Errorf("step %s is of kind %q, which this version of transplant does not know", s.ID, s.Kind)
	}
	if what := planstep.WritesMask(s); what != "" {
		return nil, fmt.Errorf(
			"step %s would write %s where a secret was: make the plan again with transplant plan",
			s.ID,
			what,
		)
	}
	return x(e), nil
}

// CheckSeed returns why a plan is not for where the control plane runs. Which objects steps may change depends on that.
func (e *Env) CheckSeed(p *v1.Plan) error {
	namespace := ""
	if e.Seed != nil {
		namespace = e.Seed.Namespace
	}
	return trust.CheckSeed(p, namespace)
}
