package transport

import (
	"fmt"
	"net/http"
)

// StrangeAnswerError is an answer that is not the cloud's: a proxy, or another address, has answered.
type StrangeAnswerError struct {
	// Request is what was asked, and Status what was answered.
	Request Request
	Status  int
	// API is what should have answered, and Settings name where the cloud config says how it is reached.
	API, Settings string
}

func (e *StrangeAnswerError) Error() string {
	return fmt.Sprintf("the answer to %s %s has status %d and is not one of %s; look for a proxy in between, and at %s",
		e.Request.Service, e.Request.Operation, e.Status, e.API, e.Settings)
}

// HTTPStatusCode counts it as the fault of what is in between: as a 404 it would say that an object is gone.
func (e *StrangeAnswerError) HTTPStatusCode() int { return http.StatusBadGateway }

// NonRetriable is how Azure's SDK asks whether to send the request again.
func (e *StrangeAnswerError) NonRetriable() {}
