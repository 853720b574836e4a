// Package simcloud decides how a cloud answers that exists for measurements: instances, load balancers and routes
// behind an API in which each request takes as long, is throttled as hard and fails as often as a test wants, and is
// written down with its caller.
//
//	arrival --> throttle (429) --> fault (refused, hung, slower) --> effect --> latency --> answer
//
// A call takes effect when it arrives, as a request does whose client is killed before the answer comes. What the cloud
// does not know it refuses loudly, and Unknown lists it.
package simcloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// Cloud is a running cloud.
type Cloud struct {
	url       string
	server    *http.Server
	behaviour *behaviour
	store     *store
	audit     audit
	closing   chan struct{}
	done      chan struct{}
	stop      sync.Once

	mu      sync.Mutex
	unknown []string
}

// Start starts a cloud at a loopback address and port, by default a free one of 127.0.0.1. It runs until Close.
func Start(ctx context.Context, address string) (*Cloud, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the simulated cloud: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf(
			"listening on %q: nobody has to prove who calls here, so that only loopback addresses are allowed",
			address,
		)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %q: %w", address, err)
	}
	c := &Cloud{
		url: "http://" + listener.Addr().String(), behaviour: newBehaviour(), store: newStore(),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc(api.PathPrefix, c.call)
	mux.Handle(api.AdminPrefix, c.admin())
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { c.refuseUnknown(w, r.Method+" "+r.URL.Path) })
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(c.done)
		_ = c.server.Serve(listener) // it ends with Close
	}()
	return c, nil
}

// Close ends the cloud: calls under way are cut off.
func (c *Cloud) Close() {
	c.stop.Do(func() {
		close(c.closing)
		_ = c.server.Close() // nothing is left that could be lost
	})
	<-c.done
}

// URL is where the API and its controls are served.
func (c *Cloud) URL() string { return c.url }

// Set replaces the settings.
func (c *Cloud) Set(s Settings) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("changing the settings of the simulated cloud: %w", err)
	}
	c.behaviour.set(s)
	return nil
}

// Settings are the ones that hold.
func (c *Cloud) Settings() Settings { return c.behaviour.get() }

// Apply makes a change that is no call.
func (c *Cloud) Apply(change Change) error {
	if err := c.store.apply(change); err != nil {
		return fmt.Errorf("changing the simulated cloud: %w", err)
	}
	return nil
}

// State is what the cloud holds.
func (c *Cloud) State() State { return c.store.state() }

// LoadBalancers are those that the cloud holds, sorted by name. Their lists of members are never changed. Most equal
// ones are one, so that many large ones can be compared at little cost.
func (c *Cloud) LoadBalancers() []api.LoadBalancer { return c.store.loadBalancers() }

// Unknown lists what was asked for and is not known: a test that finds something here has simulated too little.
func (c *Cloud) Unknown() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.unknown...)
}

func (c *Cloud) refuseUnknown(w http.ResponseWriter, what string) {
	c.mu.Lock()
	c.unknown = append(c.unknown, what)
	c.mu.Unlock()
	write(w, http.StatusNotImplemented, api.Refusal{Message: "the simulated cloud does not know " + what})
}

// call serves one call.
func (c *Cloud) call(w http.ResponseWriter, r *http.Request) {
	call := Call{
		Arrived:   time.Now(),
		Caller:    r.Header.Get(api.CallerHeader),
		Operation: api.Operation(strings.TrimPrefix(r.URL.Path, api.PathPrefix)),
	}
	if !call.Operation.Known() || r.Method != http.MethodPost || call.Caller == "" {
		c.refuseUnknown(w, fmt.Sprintf("%s %s by %q", r.Method, r.URL.Path, call.Caller))
		return
	}
	var request api.Request
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		c.refuseUnknown(w, fmt.Sprintf("the request of %s by %q: %v", call.Operation, call.Caller, err))
		return
	}
	call.Object, call.Count = object(call.Operation, request)
	call.Mutating = call.Operation.Mutating()
	c.audit.arrive(&call)
	code, answer := c.answer(r.Context(), &call, request)
	call.Answered = time.Now()
	c.audit.note(call)
	write(w, code, answer)
}

// answer lets a call have its effect, or not, and returns when the answer is due.
func (c *Cloud) answer(ctx context.Context, call *Call, request api.Request) (code int, answer any) {
	v := c.behaviour.judge(*call, call.Arrived)
	switch {
	case v.throttled:
		call.Outcome = Throttled
		code, answer = http.StatusTooManyRequests, api.Refusal{Message: "rate exceeded"}
	case v.fault.Hang:
		call.Outcome = Hung
		c.wait(ctx, v.changed)
		code, answer = http.StatusGatewayTimeout, api.Refusal{Message: "the call was kept"}
	case v.fault.Code != 0:
		call.Outcome = Failed
		code, answer = v.fault.Code, api.Refusal{Message: fmt.Sprintf("%s failed, as it was told to", call.Operation)}
	default:
		code, answer = c.effect(call, request)
	}
	outcome := *call
	outcome.Answered = time.Time{}
	c.audit.note(outcome) // what a client that is killed now will never hear
	due := time.NewTimer(time.Until(call.Arrived.Add(v.latency)))
	defer due.Stop()
	select {
	case <-due.C:
	case <-ctx.Done():
	case <-c.closing:
	}
	return code, answer
}

func (c *Cloud) effect(call *Call, request api.Request) (code int, answer any) {
	answer, changed, err := c.store.serve(call.Operation, request)
	call.Changed, call.Outcome = changed, OK
	refused := &refusal{}
	if !errors.As(err, &refused) {
		return http.StatusOK, answer
	}
	call.Outcome = Refused
	if refused.code == http.StatusNotFound {
		call.Outcome = NotFound
	}
	return refused.code, api.Refusal{Message: refused.message}
}

// wait blocks until the settings change, the client goes away or the cloud is closed.
func (c *Cloud) wait(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-changed:
	case <-ctx.Done():
	case <-c.closing:
	}
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone away does not read it
}
