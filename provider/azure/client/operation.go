package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// operations are those of changes that Resource Manager has accepted and not ended yet. One that fails is the failure
// of its change: the SDK's own error has several lines, and upstream may only log it.
type operations struct {
	mu sync.Mutex
	of map[string]string // which change, by where the operation is asked for
}

// maxOperations bounds the changes that are remembered. Those of callers who have left are asked for no more.
const maxOperations = 1000

// note keeps which change has begun an operation. It returns the failure of one that has ended without success.
func (o *operations) note(in *http.Request, out *http.Response, body []byte) error {
	if at := out.Header.Get("Azure-AsyncOperation"); at != "" && mutates(in.Method) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.of == nil || len(o.of) >= maxOperations {
			o.of = map[string]string{}
		}
		o.of[at] = operation(in)
		return nil
	}
	if !isPoll(in) {
		return nil
	}
	var answer struct {
		Status string `json:"status"`
		Error  struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil // the SDK says what is wrong with it
	}
	switch strings.ToLower(answer.Status) {
	case "succeeded":
		o.forget(in)
		return nil
	case "failed", "canceled", "cancelled":
	default:
		return nil // it goes on
	}
	failed := &RefusalError{
		Operation: o.forget(in), Status: http.StatusBadRequest, answered: out.StatusCode, ended: answer.Status,
		Code: answer.Error.Code, Message: inOneLine(answer.Error.Message),
	}
	errors.As(runtime.NewResponseError(out), &failed.cause)
	return failed
}

// forget is the change that an operation was of, which is remembered no more.
func (o *operations) forget(in *http.Request) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	change, isKnown := o.of[in.URL.String()]
	if !isKnown {
		return operation(in)
	}
	delete(o.of, in.URL.String())
	return change
}

// isPoll reports whether a request asks what has become of an operation.
func isPoll(in *http.Request) bool {
	return in.Method == http.MethodGet && Describe(in).Operation == "GET operations/{name}"
}
