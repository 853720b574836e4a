package migrate

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// StepError is an error of one step.
type StepError struct {
	Step v1.Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step.ID, e.Err) }

func (e *StepError) Unwrap() error { return e.Err }

// StaleError says that the cluster is no longer as it was when the plan was made.
type StaleError struct{ Changed []string }

func (e *StaleError) Error() string {
	return "the plan is stale: " + strings.Join(e.Changed, "; ")
}

// VerifyError says that a step was carried out and its effect did not show.
type VerifyError struct {
	Waited time.Duration
	Reason string
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("verifying, for %s: %s", e.Waited, e.Reason)
}

// pendingError says why a step is not done. It is worth waiting for, where another error of a look is not.
type pendingError string

func (e pendingError) Error() string { return string(e) }

// LockedError says that somebody else is changing this cluster.
type LockedError struct {
	Holder string
	Age    time.Duration
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("the cluster is locked by %s, which renewed its lock %s ago: wait for it, or, if it is certainly dead, run again with --steal-lock",
		e.Holder, e.Age.Round(time.Second))
}
