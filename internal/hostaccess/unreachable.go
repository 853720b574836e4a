package hostaccess

import (
	"context"
	"errors"
	"fmt"
)

// UnreachableError says that a whole machine is out of reach, so nothing of it is known. It proves neither that a file
// is absent, nor that a process has ended.
type UnreachableError struct {
	// Host is the machine's name.
	Host string
	// Err is what the attempt ended with. It is shown and not wrapped: that a machine's directory is absent does not mean
	// that a file of it is.
	Err error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("reaching host %s: %v", e.Host, e.Err) }

// IsUnreachable reports whether an error says that a whole machine is out of reach.
func IsUnreachable(err error) bool {
	_, ok := errors.AsType[*UnreachableError](err)
	return ok
}

// ErrStopped is what a wait for people ends with when Stopping's channel is closed.
var ErrStopped = errors.New("stopped while it waited; run the same command again to go on")

type (
	progressKey struct{}
	stoppingKey struct{}
)

// WithProgress makes Progress call tell, for everything that is done with the context.
func WithProgress(ctx context.Context, tell func(message string)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Progress says what a long call waits for, to the caller that asked with WithProgress, if any.
func Progress(ctx context.Context, format string, args ...any) {
	if tell, ok := ctx.Value(progressKey{}).(func(string)); ok {
		tell(fmt.Sprintf(format, args...))
	}
}

// WithStopping hands on the channel that is closed when the operator asks to stop. A wait for people ends then; a
// change that is under way is finished.
func WithStopping(ctx context.Context, stop <-chan struct{}) context.Context {
	return context.WithValue(ctx, stoppingKey{}, stop)
}

// Stopping is the channel of WithStopping; one that is never closed where there is none.
func Stopping(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return stop
}
