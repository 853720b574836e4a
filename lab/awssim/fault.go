package awssim

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// Fault makes matching calls go wrong. Several faults can hit one call: their latencies add up, and the first refusal
// counts.
type Fault struct {
	// Key, Service and Action choose the calls by glob (AKIALABCP1*, elb, Create*); empty matches all.
	Key, Service, Action string
	// Mutating, if set, chooses only calls that change something (or only those that don't).
	Mutating *bool
	// Times is how many calls are hit before the fault is spent; 0 means all until it is removed.
	Times int

	// Before is how long a call waits before its effect. A client that goes away meanwhile does not stop it: the call
	// lands late.
	Before time.Duration
	// After is how long the answer waits after the effect.
	After time.Duration

	// Throttle is the probability, 0 to 1, of answering RequestLimitExceeded (503) instead.
	Throttle float64
	// Rate throttles the calls above a rate.
	Rate *Rate
	// Code answers this error instead, e.g. InternalError (500) or Throttling.
	Code string
	// Drop cuts the connection instead of answering.
	Drop bool
	// AfterEffect lets the call have its effect before Code or Drop.
	AfterEffect bool
	// Hang holds the call, without effect, until the fault is removed (then it goes on) or the client goes away (then it
	// never happened).
	Hang bool
}

// Rate is a token bucket: Burst calls at once, then PerSecond.
type Rate struct {
	PerSecond float64 `json:"perSecond"`
	Burst     int     `json:"burst"`
}

// validate reports what cannot be meant.
func (f Fault) validate() error {
	for _, glob := range []string{f.Key, f.Service, f.Action} {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("reading the fault's pattern %q: %w", glob, err)
		}
	}
	if err := f.validNumbers(); err != nil {
		return err
	}
	if f.AfterEffect && f.Code == "" && !f.Drop {
		return errors.New("a fault after the effect needs a code or a dropped connection")
	}
	if f.Throttle == 0 && f.Rate == nil && f.throttlesOnly() {
		return errors.New("the fault does nothing: give it a latency, a throttle, a rate, a code, a drop or a hang")
	}
	return nil
}

func (f Fault) validNumbers() error {
	if f.Throttle < 0 || f.Throttle > 1 {
		return fmt.Errorf("the fault's throttle %v is no probability between 0 and 1", f.Throttle)
	}
	if f.Rate != nil && (f.Rate.PerSecond < 0 || f.Rate.Burst < 0) {
		return fmt.Errorf("the fault's rate %v per second with bursts of %d is negative", f.Rate.PerSecond, f.Rate.Burst)
	}
	if f.Before < 0 || f.After < 0 || f.Times < 0 {
		return errors.New("the fault's latencies and times must not be negative")
	}
	return nil
}

// throttlesOnly reports whether the fault leaves alone the calls that it does not throttle.
func (f Fault) throttlesOnly() bool {
	return f.Before == 0 && f.After == 0 && f.Code == "" && !f.Drop && !f.Hang
}

func (f Fault) matches(req *request) bool {
	return matches(f.Key, req.key) && matches(f.Service, req.service.name) && matches(f.Action, req.action.Name) &&
		(f.Mutating == nil || *f.Mutating == req.action.Mutating)
}

// matches reports a match with a glob that was validated; an empty one matches everything.
func matches(glob, value string) bool {
	ok, err := path.Match(glob, value)
	return glob == "" || (err == nil && ok)
}

// faults are those in force. The zero value has none.
type faults struct {
	mu     sync.Mutex
	next   int
	active map[int]*active
}

// active is a fault with its use so far.
type active struct {
	Fault
	removed chan struct{}
	hits    int
	tokens  float64
	since   time.Time
}

// strike is what faults do to one call.
type strike struct {
	before, after time.Duration
	refusal       *wire.Error
	drop          bool
	afterEffect   bool
	hangs         []<-chan struct{}
}

// Inject puts a fault in force and returns the function that removes it, which may be called more than once. A fault
// that cannot be meant (a bad pattern, a negative latency, nothing to do) is an error of the program and panics; the
// admin API answers 400 for it.
func (s *Server) Inject(f Fault) (remove func()) {
	id, err := s.inject(f)
	if err != nil {
		panic(fmt.Sprintf("injecting a fault into the simulated cloud: %v", err))
	}
	return func() { s.removeFault(id) }
}

func (s *Server) inject(f Fault) (id int, err error) {
	if err := f.validate(); err != nil {
		return 0, err
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	if s.faults.active == nil {
		s.faults.active = map[int]*active{}
	}
	a := &active{Fault: f, removed: make(chan struct{}), since: s.options.Clock.Now()}
	if f.Rate != nil {
		a.tokens = float64(f.Rate.Burst)
	}
	s.faults.next++
	s.faults.active[s.faults.next] = a
	return s.faults.next, nil
}

// removeFault ends a fault and releases what hangs on it; false if there is none.
func (s *Server) removeFault(id int) bool {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	a := s.faults.active[id]
	if a == nil {
		return false
	}
	delete(s.faults.active, id)
	close(a.removed)
	return true
}

// Faults are those in force, by number, with the number of calls that each has hit. One that is spent stays until it is
// removed.
func (s *Server) Faults() map[int]FaultStatus {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := map[int]FaultStatus{}
	for id, a := range s.faults.active {
		out[id] = FaultStatus{Fault: a.Fault, Hits: a.hits}
	}
	return out
}

// FaultStatus is a fault and how many calls it has hit.
type FaultStatus struct {
	Fault Fault `json:"fault"`
	Hits  int   `json:"hits"`
}

// strike decides what the faults do to a call, in the order in which they were injected.
func (f *faults) strike(req *request, now time.Time, random func() float64) strike {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out strike
	for _, id := range slices.Sorted(maps.Keys(f.active)) {
		a := f.active[id]
		if !a.matches(req) || (a.Times > 0 && a.hits >= a.Times) {
			continue
		}
		throttled := (a.Throttle > 0 && random() < a.Throttle) || (a.Rate != nil && !a.token(now))
		if a.throttlesOnly() && !throttled {
			continue
		}
		a.hits++
		out.add(a, throttled)
	}
	return out
}

func (s *strike) add(a *active, throttled bool) {
	s.before += a.Before
	s.after += a.After
	if a.Hang {
		s.hangs = append(s.hangs, a.removed)
	}
	if s.refusal != nil || s.drop {
		return
	}
	switch {
	case throttled:
		s.refusal = wire.Fail("RequestLimitExceeded", "Request limit exceeded.")
	case a.Code != "":
		s.refusal, s.afterEffect = wire.Fail(a.Code, "Injected by the simulator."), a.AfterEffect
	case a.Drop:
		s.drop, s.afterEffect = true, a.AfterEffect
	}
}

// token takes one from the bucket, if there is one.
func (a *active) token(now time.Time) bool {
	a.tokens = min(float64(max(a.Rate.Burst, 1)), a.tokens+now.Sub(a.since).Seconds()*a.Rate.PerSecond)
	a.since = now
	if a.tokens < 1 {
		return false
	}
	a.tokens--
	return true
}
