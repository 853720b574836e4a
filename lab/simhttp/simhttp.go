// Package simhttp decides what the simulated clouds with one HTTP API have in common: which requests they have had, and
// which of them fail because a test wants it.
package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Call is a request that was made to the API.
type Call struct {
	// Identity is whose the token is; empty for a token that is not known.
	Identity string
	// Method, Path and Query of the request.
	Method, Path, Query string
	Status              int
	// Mutates is that the request changes something.
	Mutates bool
	// Unknown is that the simulator does not know the request.
	Unknown bool
}

func (c Call) String() string { return fmt.Sprintf("%s %s %d", c.Method, c.Path, c.Status) }

// Fault makes requests fail.
type Fault struct {
	// Method, Path and Query choose the requests; an empty one stands for all. Path and Query are parts of the request's,
	// in whatever case.
	Method, Path, Query string
	// Times is how many requests fail; 0 for all from now on.
	Times int
	// Status and Code are the answer, in the form of the API; status 0 closes the connection.
	Status int
	Code   string
	// RetryAfter is that header of the answer; empty for none.
	RetryAfter string
	// AfterEffect lets the request have its effect.
	AfterEffect bool
	// Half lets the request have its effect, and its answer end in the middle. The status stays that of the answer.
	Half bool
}

// HasEffect reports whether the simulator does what the request asks for; also without a fault.
func (f *Fault) HasEffect() bool { return f == nil || f.AfterEffect || f.Half }

// IsRefusal reports whether the fault's status is the answer.
func (f *Fault) IsRefusal() bool { return f != nil && !f.Half }

// WriteJSON writes an answer that no fault concerns.
func WriteJSON(w http.ResponseWriter, status int, body any) { (*Fault)(nil).WriteJSON(w, status, body) }

// WriteJSON writes an answer, and the half of it where the fault says so.
func (f *Fault) WriteJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // maps of strings and numbers marshal
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if f != nil && f.Half {
		text = text[:len(text)/2]
	}
	_, _ = w.Write(text) // the client may have left
}

// Requests are what a simulator knows of its requests. The zero value has had none.
type Requests struct {
	mu     sync.Mutex
	calls  []Call
	faults []*Fault
}

// Record keeps a request that was answered.
func (r *Requests) Record(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

// Calls are the requests that were made since the last call of Calls.
func (r *Requests) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// Fail adds a fault. Heal removes all of them.
func (r *Requests) Fail(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, &f)
}

// Heal removes all faults.
func (r *Requests) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = nil
}

// Fault returns the fault that a request gets; nil for none. Its header is on the answer then.
func (r *Requests) Fault(w http.ResponseWriter, in *http.Request) *Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	path, query := strings.ToLower(in.URL.Path), strings.ToLower(in.URL.RawQuery)
	for i, f := range r.faults {
		isMeant := strings.Contains(path, strings.ToLower(f.Path)) && strings.Contains(query, strings.ToLower(f.Query))
		if f.Method != "" && f.Method != in.Method || !isMeant {
			continue
		}
		switch f.Times {
		case 0:
		case 1:
			r.faults = slices.Delete(slices.Clone(r.faults), i, i+1)
		default:
			f.Times--
		}
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		return f
	}
	return nil
}
