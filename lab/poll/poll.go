// Package poll decides how the lab waits for what no one reports to it: it asks again and again, and an error says what
// was missing last.
package poll

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// finalError ends a poll: waiting longer cannot help.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Final makes an error end the poll that it is returned to.
func Final(err error) error { return finalError{err} }

// Until calls check until it returns nil or a final error, or ctx ends. The error then says what was still missing.
func Until(ctx context.Context, every time.Duration, what string, check func(context.Context) error) error {
	var missing error
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if end := (finalError{}); errors.As(err, &end) {
			missing = nil
			return false, end.error
		}
		if ctx.Err() == nil || missing == nil { // an attempt that ctx cut off says less than the one before
			missing = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case missing == nil:
		return fmt.Errorf("waiting for %s: %w", what, err)
	default:
		return fmt.Errorf("waiting for %s: %w: %w", what, err, missing)
	}
}

// Pause waits, and reports whether ctx went on for as long.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Within is Until with a limit of its own.
func Within(
	ctx context.Context,
	every, limit time.Duration,
	what string,
	check func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return Until(ctx, every, what, check)
}

const (
	// Patience is how long anything may take in a test that does not measure it: much longer than it does, even on a
	// busy machine.
	Patience = 3 * time.Minute
	// often is how often a test asks: an API server on the same machine does not mind.
	often = 100 * time.Millisecond
)

// Eventually waits until check returns nil, and fails the test with what was missing last.
func Eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	if err := Within(t.Context(), often, Patience, what, check); err != nil {
		t.Fatal(err)
	}
}

// EventuallyComplete waits until missing returns "", and fails the test with its last answer.
func EventuallyComplete(t testing.TB, what string, missing func(context.Context) string) {
	t.Helper()
	Eventually(t, what, func(ctx context.Context) error {
		if text := missing(ctx); text != "" {
			return errors.New(text)
		}
		return nil
	})
}
