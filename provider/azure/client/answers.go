package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/transplant-dev/transplant/provider/transport"
)

// answers reads each answer whole, and makes an error of what is none of Resource Manager, and of each refusal. The SDK
// repeats none of them: the controllers call again, when it is their turn.
type answers struct {
	next    http.RoundTripper
	timeout time.Duration
	begun   operations
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(in *http.Request) (*http.Response, error) {
	bounded, cancel := limit(in, a.timeout)
	defer cancel()
	out, err := a.next.RoundTrip(bounded)
	if err != nil {
		return nil, &sendError{err}
	}
	body, err := io.ReadAll(out.Body)
	_ = out.Body.Close()
	if err != nil {
		return nil, &sendError{fmt.Errorf("reading the answer to %s: %w", operation(in), err)}
	}
	out.Body, out.Request = io.NopCloser(bytes.NewReader(body)), in
	if out.StatusCode < http.StatusMultipleChoices {
		if !isExpected(in.Method, out.StatusCode, body) {
			return nil, strange(in, out.StatusCode)
		}
		if failed := a.begun.note(in, out, body); failed != nil {
			return nil, failed
		}
		return out, nil
	}
	if out.StatusCode == http.StatusUnauthorized && out.Header.Get("WWW-Authenticate") != "" {
		return out, nil // the SDK answers a challenge
	}
	return nil, refusalOf(in, out, body)
}

func operation(in *http.Request) string {
	request := Describe(in)
	return request.Service + " " + request.Operation
}

// isExpected reports whether the body of an answer that takes the request is one of Resource Manager. An empty list
// would say that there is nothing.
func isExpected(method string, status int, body []byte) bool {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		isCreated := method == http.MethodPut && (status == http.StatusOK || status == http.StatusCreated)
		return method != http.MethodGet && !isCreated
	}
	return json.Valid(trimmed) && trimmed[0] == '{'
}

// sendError is a request that was not sent, or has got no answer.
type sendError struct{ err error }

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }

// NonRetriable implements errorinfo.NonRetriable of the SDK.
func (e *sendError) NonRetriable() {}

// strange is the error of an answer that is not Resource Manager's.
func strange(in *http.Request, status int) error {
	return &transport.StrangeAnswerError{
		Request: Describe(in), Status: status, API: "Azure Resource Manager",
		Settings: "the cloud and resourceManagerEndpoint of the cloud config",
	}
}

// RefusalError is what Resource Manager refuses. Its text is one line, and says what to do where that is known.
type RefusalError struct {
	Operation string
	// Status is what is made of the answer, and answered what it was.
	Status, answered int
	// ended is how an operation has ended that was accepted, such as Failed; empty for a request that was not.
	ended   string
	Code    string
	Message string
	cause   *azcore.ResponseError // upstream looks for it
}

func (e *RefusalError) Error() string {
	text := fmt.Sprintf("Azure refused %s: %d %s: %s", e.Operation, e.answered, e.Code, e.Message)
	if e.ended != "" {
		text = fmt.Sprintf("Azure accepted %s, and its operation has ended as %s: %s: %s", e.Operation, e.ended, e.Code, e.Message)
	}
	if remedy := remedies[e.Code]; remedy != "" {
		return text + " (" + remedy + ")"
	}
	return text
}

// Unwrap gives the SDK's error to those that look for it.
func (e *RefusalError) Unwrap() error { return e.cause }

// HTTPStatusCode gives the library the status.
func (e *RefusalError) HTTPStatusCode() int { return e.Status }

// ErrorCode gives the library the code.
func (e *RefusalError) ErrorCode() string { return e.Code }

// NonRetriable implements errorinfo.NonRetriable of the SDK.
func (e *RefusalError) NonRetriable() {}

// remedies are what to do about a refusal, by its code.
var remedies = map[string]string{
	"SubscriptionNotFound":             "check subscriptionId in the cloud config",
	"InvalidSubscriptionId":            "check subscriptionId in the cloud config",
	"ResourceGroupNotFound":            "check resourceGroup and the other resource groups in the cloud config",
	"InvalidAuthenticationTokenTenant": "the subscription is of another tenant: check tenantId in the cloud config",
	"AuthorizationFailed":              "give the identity of the cloud config a role with this action",
	"LinkedAuthorizationFailed":        "give the identity of the cloud config a role with this action on both objects",
	"InvalidAuthenticationToken":       "check the credentials and the cloud of the cloud config",
	"ExpiredAuthenticationToken":       "check the clock of this machine",
	"AuthenticationFailed":             "check the credentials and the cloud of the cloud config",
}

// missing are the codes by which Resource Manager says that an object does not exist. That its group or subscription
// does not exist says nothing about the object.
var missing = []string{"ResourceNotFound", "NotFound", "ParentResourceNotFound", "InstanceNotFound", "ResourceNotFoundInGroup"}

// IsNotFound reports whether Resource Manager has said that an object does not exist.
func IsNotFound(err error) bool {
	var refusal *RefusalError
	return errors.As(err, &refusal) && refusal.Status == http.StatusNotFound
}

// IsOutdated reports whether Resource Manager has refused a change of an object that others have changed since it was
// read.
func IsOutdated(err error) bool {
	var refusal *RefusalError
	return errors.As(err, &refusal) && refusal.Status == http.StatusPreconditionFailed
}

// inOneLine is the start of a message, in one line.
func inOneLine(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	return message[:min(len(message), maxMessage)]
}

// maxMessage is how much of a message is shown.
const maxMessage = 600

func refusalOf(in *http.Request, out *http.Response, body []byte) error {
	var sent struct {
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &sent) != nil || sent.Error == nil || sent.Error.Code == "" {
		switch out.StatusCode {
		case http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed, http.StatusBadRequest:
			return strange(in, out.StatusCode)
		}
		if out.StatusCode < http.StatusBadRequest {
			return strange(in, out.StatusCode)
		}
	}
	refusal := &RefusalError{
		Operation: operation(in), Status: out.StatusCode, answered: out.StatusCode, Message: http.StatusText(out.StatusCode),
	}
	if sent.Error != nil {
		refusal.Code, refusal.Message = sent.Error.Code, inOneLine(sent.Error.Message)
	}
	if refusal.Status == http.StatusNotFound && !slices.Contains(missing, refusal.Code) {
		// upstream takes any 404 for "does not exist"
		refusal.Status, out.StatusCode = http.StatusBadRequest, http.StatusBadRequest
	}
	errors.As(runtime.NewResponseError(out), &refusal.cause)
	return refusal
}
