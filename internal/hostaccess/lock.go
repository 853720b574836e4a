package hostaccess

import (
	"context"
	"errors"
	"time"
)

// ErrLockLost says that the lock on the cluster is not certainly held any longer. Nothing was begun after that.
var ErrLockLost = errors.New("the lock on the cluster was lost: another process may be changing it")

// HeldUntil returns until when changes may be begun, as package boottime counts on this machine. It waits while that
// time has passed and the lock may still be renewed; its error is ErrLockLost when that does not succeed.
type HeldUntil func(context.Context) (time.Duration, error)

type lockKey struct{}

// WithLock has every change of a host that is asked for with the context depend on a lock.
func WithLock(ctx context.Context, until HeldUntil) context.Context {
	return context.WithValue(ctx, lockKey{}, until)
}

// LockedUntil returns until when changes may be begun; false where they depend on no lock.
func LockedUntil(ctx context.Context) (until time.Duration, depends bool, err error) {
	held, ok := ctx.Value(lockKey{}).(HeldUntil)
	if !ok {
		return 0, false, nil
	}
	until, err = held(ctx)
	return until, true, err
}

// CheckLock returns ErrLockLost when a change of this machine's own files may not be begun any longer.
func CheckLock(ctx context.Context) error {
	_, _, err := LockedUntil(ctx)
	return err
}
