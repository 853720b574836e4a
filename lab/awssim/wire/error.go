package wire

import (
	"fmt"
	"net/http"
)

// Error is an answer of the API that is not a success.
type Error struct {
	// Code is what SDKs and the managers decide by.
	Code string
	// Message is for people.
	Message string
	// Status is the HTTP status.
	Status int
	// Unknown marks a request that the simulator does not implement, as opposed to one that AWS refuses too.
	Unknown bool
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// statuses of codes that are not answered with 400, from "Error codes for the Amazon EC2 API".
var statuses = map[string]int{
	"AuthFailure":           http.StatusUnauthorized,
	"UnauthorizedOperation": http.StatusForbidden,
	"DryRunOperation":       http.StatusPreconditionFailed,
	"InternalError":         http.StatusInternalServerError,
	"InternalFailure":       http.StatusInternalServerError,
	"RequestLimitExceeded":  http.StatusServiceUnavailable,
	"ServiceUnavailable":    http.StatusServiceUnavailable,
	"Unavailable":           http.StatusServiceUnavailable,
}

// Fail builds an error answer with the status that its code has in AWS.
func Fail(code, format string, args ...any) *Error {
	status, ok := statuses[code]
	if !ok {
		status = http.StatusBadRequest
	}
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: status}
}

func unknownf(code, format string, args ...any) *Error {
	e := Fail(code, format, args...)
	e.Unknown = true
	return e
}

// Unknown builds the answer to something that the simulator does not implement.
func Unknown(code, format string, args ...any) *Error { return unknownf(code, format, args...) }
