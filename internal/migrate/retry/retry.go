// Package retry decides which errors of an API server pass by themselves, and asks again while they last.
package retry

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// WriteTimeout is for how long a write of the journal is tried while API servers restart under a load balancer.
const WriteTimeout = 60 * time.Second

// Do calls f until it succeeds, its error is not one of a restarting API server, or the budget is spent.
func Do(ctx context.Context, budget time.Duration, f func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, budget, true, func(ctx context.Context) (bool, error) {
		last = f(ctx)
		if last == nil {
			return true, nil
		}
		if !IsTransient(last) {
			return false, last
		}
		return false, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// IsTransient reports whether an error is one that an API server shows while it restarts, or its host does. Others mean
// something. A 403 right after a start (the authorizer's cache is cold) is measured to happen with a load balancer that
// does not ask /readyz. It is not hidden here.
func IsTransient(err error) bool {
	switch {
	case apierrors.IsServerTimeout(err),
		apierrors.IsServiceUnavailable(err),
		apierrors.IsTooManyRequests(err),
		apierrors.IsTimeout(err),
		apierrors.IsInternalError(err):
		return true
	case utilnet.IsConnectionRefused(err),
		utilnet.IsConnectionReset(err),
		utilnet.IsProbableEOF(err),
		utilnet.IsHTTP2ConnectionLost(err):
		return true
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || isTransientNetwork(err)
}

// unreached are what a kernel says of an address whose host restarts or whose virtual IP moves. No router or neighbour
// answers for it meanwhile.
var unreached = []syscall.Errno{syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN}

// isTransientNetwork reports whether an error of a network passes. One that says that a name does not exist does not:
// it is a wrong address in a kubeconfig.
func isTransientNetwork(err error) bool {
	var name *net.DNSError
	var wire net.Error
	switch {
	case slices.ContainsFunc(unreached, func(errno syscall.Errno) bool { return errors.Is(err, errno) }):
		return true
	case errors.As(err, &name):
		return name.IsTemporary || name.IsTimeout
	}
	return errors.As(err, &wire) && wire.Timeout()
}
