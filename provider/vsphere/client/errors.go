package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25/types"
)

// isSessionLost reports whether a call found that its session has ended, or that the session's view has.
func isSessionLost(err error) bool {
	return err != nil &&
		(fault.Is(err, &types.NotAuthenticated{}) || errors.Is(err, errViewLost) || isRESTSessionLost(err))
}

// isRESTSessionLost reports whether it is the session with the REST API that has ended.
func isRESTSessionLost(err error) bool { return rest.IsStatusError(err, http.StatusUnauthorized) }

// errViewLost is that the view of a session does not exist any more.
var errViewLost = errors.New("the view of all machines has ended")

// NotFound reports whether vCenter has said that an object does not exist.
func NotFound(err error) bool { return err != nil && fault.Is(err, &types.ManagedObjectNotFound{}) }

// Refused reports whether a login failed for good: vCenter has answered and does not take the credentials.
func Refused(err error) bool {
	return err != nil && (fault.Is(err, &types.InvalidLogin{}) || fault.Is(err, &types.NoPermission{}))
}

// explained is an error with a text of ours. HTTPStatusCode has the library count it as what it is.
type explained struct {
	err    error
	text   string
	status int
}

func (e *explained) Error() string       { return e.text }
func (e *explained) Unwrap() error       { return e.err }
func (e *explained) HTTPStatusCode() int { return e.status }

// explain names the vCenter, and says what to do where that is known.
func (v *VCenter) explain(err error) error {
	conf := v.options.Config
	at := fmt.Sprintf("vCenter %s", conf.Name)
	if conf.Server != conf.Name {
		at += fmt.Sprintf(" (%s)", conf.Server)
	}
	said := &explained{err: err, text: at + ": " + strings.TrimPrefix(err.Error(), "ServerFaultCode: ")}
	var untrusted *tls.CertificateVerificationError
	switch {
	case fault.Is(err, &types.InvalidLogin{}):
		said.status = http.StatusUnauthorized
		said.text = at + ": it does not take the user and password; " + v.whereCredentials()
	case fault.Is(err, &types.NoPermission{}):
		said.status = http.StatusForbidden
		said.text = at + ": the user has not the privilege for it: give it the role Read-only, " +
			"with propagation, on the vCenter"
	case fault.Is(err, &types.NotAuthenticated{}), rest.IsStatusError(err, http.StatusUnauthorized):
		said.status = http.StatusUnauthorized
		said.text = at + ": it ends each session at once: " + strings.TrimPrefix(err.Error(), "ServerFaultCode: ")
	case errors.As(err, &untrusted):
		said.text = fmt.Sprintf("%s: its certificate is not trusted: %v; set ca-file to the authority that signed it, "+
			"or thumbprint to its own", at, untrusted.Err)
		return fmt.Errorf("%w", said)
	}
	return said
}

func (v *VCenter) whereCredentials() string {
	conf := v.options.Config
	switch {
	case conf.SecretName != "":
		return fmt.Sprintf("correct %s.username and %s.password in the Secret %s/%s",
			conf.Server, conf.Server, conf.SecretNamespace, conf.SecretName)
	case conf.SecretsDirectory != "":
		return fmt.Sprintf("correct %s.username and %s.password in %s", conf.Server, conf.Server, conf.SecretsDirectory)
	}
	return "correct them in the cloud config"
}
