package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// TokenError says of an error about credentials which settings of the cloud config to look at; nil for another error.
// The SDK's own text has an answer of several lines.
func TokenError(err error) error {
	var refused *azidentity.AuthenticationFailedError
	if !errors.As(err, &refused) {
		return nil
	}
	status := "no answer"
	if refused.RawResponse != nil {
		status = fmt.Sprintf("%d %s", refused.RawResponse.StatusCode, http.StatusText(refused.RawResponse.StatusCode))
	}
	return &tokenError{cause: err, status: status, code: codeIn(refused.Error())}
}

type tokenError struct {
	cause        error
	status, code string
}

func (e *tokenError) Error() string {
	return fmt.Sprintf("there is no token for Azure: the credentials of the cloud config were refused (%s%s); "+
		"check tenantId, aadClientId and its secret or certificate, or the managed identity", e.status, e.code)
}

func (e *tokenError) Unwrap() error { return e.cause }

// codeIn is the code of Entra ID in a text, such as AADSTS7000215; empty for none.
func codeIn(text string) string {
	_, after, found := strings.Cut(text, "AADSTS")
	if !found {
		return ""
	}
	digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
	return ", AADSTS" + digits
}
