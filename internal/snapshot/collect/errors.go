package collect

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Describe says what was tried and how it ended, in the words of the administrator who has to fix it. It names which
// verb on what was forbidden to whom, or which address did not answer.
func (g *Collector) Describe(doing string, err error) string {
	return doing + ": " + describeError(err, g.Server)
}

func describeError(err error, server string) string {
	switch {
	case apierrors.IsForbidden(err):
		text := err.Error()
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			text = status.Status().Message
		}
		if _, why, ok := strings.Cut(text, "forbidden: "); ok {
			text = why
		}
		return "forbidden: " + text
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept the credentials in the kubeconfig"
	}
	at := server
	e, reached := errors.AsType[*url.Error](err)
	if reached {
		if u, parseErr := url.Parse(e.URL); parseErr == nil && u.Host != "" {
			at = u.Scheme + "://" + u.Host
		}
	}
	if at == "" {
		at = "the API server"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer from " + at + " in time"
	}
	if reached {
		cause := e.Err
		if op, ok := errors.AsType[*net.OpError](err); ok {
			cause = op.Err
		}
		return "cannot reach " + at + ": " + cause.Error()
	}
	return err.Error()
}
