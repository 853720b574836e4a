package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/transplant-dev/transplant/provider/transport"
)

// maxRefusal is how much of a refusal is read.
const maxRefusal = 1 << 20

// IsNotFound reports whether Compute Engine has said that an object does not exist. A 404 of a proxy never gets here,
// see refusing.
func IsNotFound(err error) bool {
	var refusal *googleapi.Error
	return errors.As(err, &refusal) && refusal.Code == http.StatusNotFound
}

// IsConflict reports whether Compute Engine has said that an object is there already.
func IsConflict(err error) bool {
	var refusal *googleapi.Error
	return errors.As(err, &refusal) && refusal.Code == http.StatusConflict
}

// IsInUse reports whether Compute Engine has said that another object uses the one that was to be deleted.
func IsInUse(err error) bool {
	var refusal *googleapi.Error
	return errors.As(err, &refusal) && refusal.Code == http.StatusBadRequest &&
		(strings.Contains(refusal.Message, "being used by") || strings.Contains(refusal.Message, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"))
}

// refusing turns refusals that are not Compute Engine's into errors. Upstream takes any 404 for "does not exist", any
// 409 for "is there already" and some 400 for "is in use".
type refusing struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r *refusing) RoundTrip(in *http.Request) (*http.Response, error) {
	out, err := r.next.RoundTrip(in)
	if err != nil {
		return out, err
	}
	switch out.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed:
	default:
		return out, nil
	}
	body, err := io.ReadAll(io.LimitReader(out.Body, maxRefusal))
	_ = out.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the answer to compute %s: %w", Describe(in).Operation, err)
	}
	if !isGoogles(body, out.StatusCode) {
		return nil, &transport.StrangeAnswerError{
			Request: Describe(in), Status: out.StatusCode, API: "Compute Engine", Settings: "api-endpoint",
		}
	}
	out.Body = io.NopCloser(bytes.NewReader(body))
	if err := nameSetting(out); err != nil {
		return nil, err
	}
	return out, nil
}

// isGoogles reports whether the body of a refusal is in the form of Google's APIs, and of this status.
func isGoogles(body []byte, status int) bool {
	var refusal struct {
		Error *struct {
			Code   int               `json:"code"`
			Errors []json.RawMessage `json:"errors"`
		} `json:"error"`
	}
	return json.Unmarshal(body, &refusal) == nil && refusal.Error != nil && refusal.Error.Code == status &&
		len(refusal.Error.Errors) > 0
}

// OperationError is the error of an operation that has ended; nil for one that did what it was to do.
func OperationError(operation *compute.Operation) error {
	status := int(operation.HttpErrorStatusCode)
	if operation.Error == nil || len(operation.Error.Errors) == 0 {
		if status < http.StatusBadRequest {
			return nil
		}
		return &googleapi.Error{Code: status, Message: operation.HttpErrorMessage}
	}
	first := operation.Error.Errors[0]
	return &googleapi.Error{
		Code: cmp.Or(status, http.StatusBadRequest), Message: first.Message,
		Errors: []googleapi.ErrorItem{{Reason: first.Code, Message: first.Message}},
	}
}
