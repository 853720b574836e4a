// Package exitcode maps errors to the exit codes of the command line.
package exitcode

import (
	"context"
	"errors"
	"fmt"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Exit codes; they are part of the interface and printed by --help.
const (
	OK          = 0
	Error       = 1
	Pending     = 2
	Blocked     = 3
	Unverified  = 4
	Timeout     = 5
	Stale       = 6
	NotApproved = 7
	Locked      = 8
	DiffError   = 9
	Different   = 1 // of diff, as kubectl diff has it
	Interrupted = 130
)

// codedError is an error with an exit code of its own.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }

// With returns an error that ends the program with a code.
func With(code int, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}

// Of finds the exit code of an error.
func Of(err error) int {
	var code *codedError
	var stale *step.StaleError
	var locked *lock.HeldError
	var verify *step.VerifyError
	var lost *lostnode.Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &locked), errors.Is(err, lock.ErrLockLost): // before what the lost lock has cancelled
		return Locked
	case errors.Is(err, step.ErrInterrupted), errors.Is(err, hostaccess.ErrStopped), errors.Is(err, context.Canceled):
		return Interrupted
	case errors.As(err, &stale):
		return Stale
	case errors.As(err, &verify):
		return Unverified
	case errors.As(err, &lost), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Error
}
