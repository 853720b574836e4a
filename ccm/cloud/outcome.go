package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/transplant-dev/transplant/ccm/election"
)

// Outcome is how a call to the cloud ended. It is a label of the metrics.
type Outcome string

// The outcomes.
const (
	OutcomeOK          Outcome = "ok"                 // also that the provider does not implement what was asked, or wants to be asked again later
	OutcomeNotFound    Outcome = "not_found"          // the cloud answered that there is no such thing
	OutcomeClientError Outcome = "client_error"       // the cloud refuses this request: asking again will not help
	OutcomeServerError Outcome = "server_error"       // the cloud is at fault
	OutcomeThrottled   Outcome = "throttled"          // too many requests
	OutcomeAuth        Outcome = "auth"               // the credentials are missing, expired, or not enough
	OutcomeTimeout     Outcome = "timeout"            // no answer in time
	OutcomeDNS         Outcome = "dns"                // the cloud's name was not resolved
	OutcomeRefused     Outcome = "connection_refused" // or reset, closed before the answer, or without a route
	OutcomeTLS         Outcome = "tls"                // the certificate, or the handshake
	OutcomeCancelled   Outcome = "cancelled"          // by the caller
	OutcomeFenced      Outcome = "fenced"             // not made, since the lease is not certainly held
	OutcomePanic       Outcome = "panic"              // of the provider
	OutcomeOther       Outcome = "other"
)

// Outcomes are all of them.
var Outcomes = []Outcome{
	OutcomeOK, OutcomeNotFound, OutcomeClientError, OutcomeServerError, OutcomeThrottled, OutcomeAuth, OutcomeTimeout, OutcomeDNS, OutcomeRefused,
	OutcomeTLS, OutcomeCancelled, OutcomeFenced, OutcomePanic, OutcomeOther,
}

// reached is whether an outcome says that the cloud took the request and dealt with it, whatever it answered.
func (o Outcome) reached() bool {
	switch o {
	case OutcomeOK, OutcomeNotFound, OutcomeClientError:
		return true
	default:
		return false
	}
}

// Classify judges the error of a call to a cloud. What it knows best goes first: what the shell itself says, what the cloud answered, how the connection
// failed, how the context ended, and, for providers that lose all of that with a %v, the text.
func Classify(err error) (outcome Outcome) {
	if err == nil {
		return OutcomeOK
	}
	defer func() {
		if recover() != nil { // an error whose methods panic, as those of a nil pointer do
			outcome = OutcomeOther
		}
	}()
	for _, judge := range []func(error) Outcome{own, protocol, answered, connection, interrupted, text} {
		if outcome := judge(err); outcome != "" {
			return outcome
		}
	}
	return OutcomeOther
}

// own are the errors of the shell and of the fence.
func own(err error) Outcome {
	switch {
	case errors.Is(err, election.ErrFenced):
		return OutcomeFenced
	case errors.Is(err, ErrPanic):
		return OutcomePanic
	case errors.Is(err, ErrStillRunning):
		return OutcomeTimeout
	}
	return ""
}

// protocol are the errors by which providers talk with controllers. They say nothing bad about the cloud.
func protocol(err error) Outcome {
	var retry *api.RetryError
	switch {
	case errors.Is(err, cloudprovider.InstanceNotFound), errors.Is(err, cloudprovider.DiskNotFound):
		return OutcomeNotFound
	case errors.Is(err, cloudprovider.NotImplemented), errors.Is(err, cloudprovider.ImplementedElsewhere), errors.As(err, &retry):
		return OutcomeOK
	}
	return ""
}

// answered is what the cloud said: by its code, which tells throttling from other refusals with the same status, or by the status.
func answered(err error) Outcome {
	answer := answerOf(err)
	if outcome := ofCode(answer.code); outcome != "" {
		return outcome
	}
	if outcome := ofStatus(answer.status); outcome != "" {
		if outcome == OutcomeAuth && throttledText(err.Error()) { // Google throttles with 403
			return OutcomeThrottled
		}
		return outcome
	}
	if answer.code != "" {
		return OutcomeClientError
	}
	return ""
}

// ofStatus is what an HTTP status says; nothing for one that is none.
func ofStatus(status int) Outcome {
	switch {
	case status < 400 || status > 599:
		return ""
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired:
		return OutcomeAuth
	case status == http.StatusNotFound || status == http.StatusGone:
		return OutcomeNotFound
	case status == http.StatusRequestTimeout:
		return OutcomeTimeout
	case status == http.StatusTooManyRequests || status == http.StatusRequestEntityTooLarge: // the latter is how old OpenStack throttles
		return OutcomeThrottled
	case status >= 500:
		return OutcomeServerError
	}
	return OutcomeClientError
}

// connection is how a connection failed.
func connection(err error) Outcome {
	var (
		dns       *net.DNSError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &dns):
		return OutcomeDNS
	case errors.As(err, &verify), errors.As(err, &record), errors.As(err, &alert), errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid):
		return OutcomeTLS
	}
	for _, errno := range []syscall.Errno{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN,
	} {
		if errors.Is(err, errno) {
			return OutcomeRefused
		}
	}
	return ""
}

// interrupted is that the answer was not waited for to the end, or the connection ended before it.
func interrupted(err error) Outcome {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return OutcomeCancelled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return OutcomeTimeout
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return OutcomeRefused
	}
	return ""
}

// text is the last resort.
func text(err error) Outcome { return ofText(strings.ToLower(err.Error())) }
