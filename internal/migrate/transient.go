package migrate

import (
	"errors"
	"io"
	"net"
	"slices"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Transient tells the errors that an API server shows while it restarts, or its host does, from those that mean something. A 403 right after a start
// (the authorizer's cache is cold) is measured to happen with a load balancer that does not ask /readyz; it is not hidden here.
func Transient(err error) bool {
	switch {
	case apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsInternalError(err):
		return true
	case utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err):
		return true
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || unconnected(err)
}

// unreached are what a kernel says of an address whose host restarts or whose virtual IP moves: no router or neighbour answers for it, for as long as that takes.
var unreached = []syscall.Errno{syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN}

// unconnected tells the errors of a network that pass. That a name does not exist is none of them: it is a wrong address in a kubeconfig.
func unconnected(err error) bool {
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
