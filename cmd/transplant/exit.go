package main

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
	exitOK          = 0
	exitError       = 1
	exitPending     = 2
	exitBlocked     = 3
	exitUnverified  = 4
	exitTimeout     = 5
	exitStale       = 6
	exitNotApproved = 7
	exitLocked      = 8
	exitDiffError   = 9
	exitDifferent   = 1 // of diff, as kubectl diff has it
	exitInterrupted = 130
)

const exitCodes = `Exit codes:
  0    done, nothing blocks
  1    error; of diff: there are differences
  2    changes are pending (plan --detailed-exitcode)
  3    blocked by findings
  4    verification failed; the cluster is in the state that the message names
  5    timed out; run the same command again to go on
  6    the plan is stale; the message names what changed
  7    not approved, or no terminal to ask on and no --yes
  8    somebody else holds the lock
  9    error of diff
  130  interrupted; run the same command again to go on`

// codeError is an error with an exit code of its own.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }

func (e *codeError) Unwrap() error { return e.err }

func withCode(code int, format string, args ...any) error {
	return &codeError{code, fmt.Errorf(format, args...)}
}

// codeOf finds the exit code of an error.
func codeOf(err error) int {
	var code *codeError
	var stale *step.StaleError
	var locked *lock.HeldError
	var verify *step.VerifyError
	var lost *lostnode.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &locked), errors.Is(err, lock.ErrLockLost): // before what the lost lock has cancelled
		return exitLocked
	case errors.Is(err, step.ErrInterrupted), errors.Is(err, hostaccess.ErrStopped), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &stale):
		return exitStale
	case errors.As(err, &verify):
		return exitUnverified
	case errors.As(err, &lost), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitError
}
