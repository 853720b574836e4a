package inventory

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
)

// apiCode is the code that AWS answered with, e.g. InvalidInstanceID.NotFound; empty when it did not answer.
func apiCode(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return ""
}

// translate says which right or which endpoint is missing. The SDK's own text holds request ids, which differ from run
// to run.
func translate(action string, err error) error {
	if code := apiCode(err); code != "" {
		e, _ := errors.AsType[smithy.APIError](err)
		return &callError{text: fmt.Sprintf("%s was refused: %s: %s", action, code, e.ErrorMessage()), err: err}
	}
	// The chain of credentials ends at the instance's metadata service, whose address would not help a user who forgot a
	// profile.
	if strings.Contains(err.Error(), "get credentials") {
		return &callError{
			text: action + " was not tried: there are no AWS credentials; set AWS_PROFILE or AWS_SHARED_CREDENTIALS_FILE, or run where the instance has a role",
			err:  err,
		}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		at := e.URL
		if u, parseErr := url.Parse(e.URL); parseErr == nil {
			at = u.Scheme + "://" + u.Host
		}
		return &callError{text: fmt.Sprintf("%s did not reach %s: %v", action, at, e.Err), err: err}
	}
	return fmt.Errorf("%s: %w", action, err)
}

// callError has a text of its own and the SDK's error underneath.
type callError struct {
	text string
	err  error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.err }
