package migrate

import (
	"errors"
	"io"
	"net"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Transient tells the errors that an API server shows while it restarts behind a load balancer from those that mean something. A 403 right
// after a start (the authorizer's cache is cold) is measured to happen with a load balancer that does not ask /readyz; it is not hidden here.
func Transient(err error) bool {
	var netErr net.Error
	switch {
	case apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsInternalError(err):
		return true
	case utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return true
	case errors.As(err, &netErr) && netErr.Timeout():
		return true
	}
	return false
}
