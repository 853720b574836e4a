package simcloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// Settings are how the cloud behaves. They can be changed while it runs.
type Settings struct {
	// Latency is the time from the arrival of a call to its answer. Refused calls take it too.
	Latency Duration `json:"latency"`
	// Throttles limit calls; each one lets pass or refuses. A refused call costs the others nothing.
	Throttles []Throttle `json:"throttles,omitempty"`
	// Faults spoil calls. The first one that matches a call is applied.
	Faults []Fault `json:"faults,omitempty"`
}

// DefaultLatency is that of a cloud nobody has changed.
const DefaultLatency = Duration(50 * time.Millisecond)

// Throttle is a bucket of tokens. A call that finds it empty gets 429.
type Throttle struct {
	Operations []api.Operation `json:"operations,omitempty"` // empty: all of them together
	Rate       float64         `json:"rate"`                 // calls per second
	Burst      int             `json:"burst"`
}

// Fault is what happens to some calls.
type Fault struct {
	Operation api.Operation `json:"operation,omitempty"` // empty: any
	Caller    string        `json:"caller,omitempty"`    // empty: any
	Object    string        `json:"object,omitempty"`    // empty: any; see Call.Object
	// Rate is the share of the matching calls that are spoilt. 0 stands for all of them.
	Rate float64 `json:"rate,omitempty"`
	// Times is how many calls are spoilt before the fault is over. 0 stands for no end.
	Times int `json:"times,omitempty"`
	// Code is the HTTP status of the answer, and the call has no effect. 0: the call is not refused.
	Code int `json:"code,omitempty"`
	// Hang keeps the call, without effect, until the settings change, the client goes away or the cloud is closed.
	Hang bool `json:"hang,omitempty"`
	// Latency is added to that of the cloud.
	Latency Duration `json:"latency,omitempty"`
}

// Duration is a time.Duration that is written as Go writes it, such as 50ms.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(text)
	*d = Duration(parsed)
	return err
}

// validate says everything that is wrong: a fault that never applies would make a test pass.
func (s Settings) validate() error {
	var errs []error
	if s.Latency < 0 {
		errs = append(errs, fmt.Errorf("latency %s is negative", time.Duration(s.Latency)))
	}
	for i, t := range s.Throttles {
		if err := t.validate(); err != nil {
			errs = append(errs, fmt.Errorf("throttles[%d]: %w", i, err))
		}
	}
	for i, f := range s.Faults {
		if err := f.validate(); err != nil {
			errs = append(errs, fmt.Errorf("faults[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func (t Throttle) validate() error {
	for _, operation := range t.Operations {
		if !operation.Known() {
			return fmt.Errorf("%q is not an operation", operation)
		}
	}
	if t.Rate <= 0 || t.Burst <= 0 {
		return fmt.Errorf("rate %v and burst %d let nothing pass", t.Rate, t.Burst)
	}
	return nil
}

func (f Fault) validate() error {
	switch {
	case f.Operation != "" && !f.Operation.Known():
		return fmt.Errorf("%q is not an operation", f.Operation)
	case f.Rate < 0 || f.Rate > 1 || f.Times < 0 || f.Latency < 0:
		return fmt.Errorf("rate %v, times %d or latency %s is out of range", f.Rate, f.Times, time.Duration(f.Latency))
	case f.Code != 0 && (f.Code < 400 || f.Code > 599):
		return fmt.Errorf("code %d is no failure", f.Code)
	case f.Code == 0 && !f.Hang && f.Latency == 0:
		return errors.New("it does nothing")
	}
	return nil
}

// behaviour applies settings to calls.
type behaviour struct {
	mu       sync.Mutex
	settings Settings
	buckets  []*rate.Limiter
	spoilt   []int // how many calls each fault has spoilt
	random   *rand.Rand
	changed  chan struct{} // closed when the settings change
}

func newBehaviour() *behaviour {
	b := &behaviour{random: rand.New(rand.NewPCG(1, 2)), changed: make(chan struct{})} // the same failures in every run
	b.set(Settings{Latency: DefaultLatency})
	return b
}

// set replaces the settings; buckets are full again, and calls that hang are let go.
func (b *behaviour) set(s Settings) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settings, b.buckets, b.spoilt = s, nil, make([]int, len(s.Faults))
	for _, t := range s.Throttles {
		b.buckets = append(b.buckets, rate.NewLimiter(rate.Limit(t.Rate), t.Burst))
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *behaviour) get() Settings {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settings
}

// verdict is what happens to one call.
type verdict struct {
	throttled bool
	fault     Fault
	latency   time.Duration
	changed   <-chan struct{}
}

func (b *behaviour) judge(c Call, now time.Time) verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := verdict{latency: time.Duration(b.settings.Latency), changed: b.changed}
	for i, t := range b.settings.Throttles {
		if (len(t.Operations) == 0 || slices.Contains(t.Operations, c.Operation)) && !b.buckets[i].AllowN(now, 1) {
			v.throttled = true
			return v
		}
	}
	for i, f := range b.settings.Faults {
		if !f.matches(c) || f.Times > 0 && b.spoilt[i] == f.Times || f.Rate > 0 && b.random.Float64() >= f.Rate {
			continue
		}
		b.spoilt[i]++
		v.fault = f
		v.latency += time.Duration(f.Latency)
		break
	}
	return v
}

func (f Fault) matches(c Call) bool {
	return (f.Operation == "" || f.Operation == c.Operation) && (f.Caller == "" || f.Caller == c.Caller) &&
		(f.Object == "" || f.Object == c.Object)
}
