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
	text := refused.Error()
	return &tokenError{
		cause:  err,
		status: status,
		code:   codeIn(text),
		tenant: unknownTenantIn(text),
	}
}

type tokenError struct {
	cause        error
	status, code string
	tenant       string // that the directory does not know; empty for none
}

func (e *tokenError) Error() string {
	if e.tenant != "" {
		return fmt.Sprintf("there is no token for Azure: the directory knows no tenant %q (%s%s); "+
			"check tenantId and cloud in the cloud config", e.tenant, e.status, e.code)
	}
	return fmt.Sprintf("there is no token for Azure: the credentials of the cloud config were refused (%s%s); "+
		"check tenantId, aadClientId and its secret or certificate, or the managed identity", e.status, e.code)
}

func (e *tokenError) Unwrap() error { return e.cause }

// HTTPStatusCode counts a tenant that does not exist as refused credentials. The answer is a 400.
func (e *tokenError) HTTPStatusCode() int {
	if e.tenant != "" {
		return http.StatusUnauthorized
	}
	return 0
}

// codeIn is the code of Entra ID in a text, such as AADSTS7000215; empty for none.
func codeIn(text string) string {
	_, after, found := strings.Cut(text, "AADSTS")
	if !found {
		return ""
	}
	digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
	return ", AADSTS" + digits
}

// unknownTenantIn is the tenant that a text says is not found; empty for none.
func unknownTenantIn(text string) string {
	_, after, found := strings.Cut(text, "AADSTS90002: Tenant '")
	if !found {
		return ""
	}
	tenant, _, _ := strings.Cut(after, "'")
	return tenant
}
