package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Result is what one measurement found.
type Result struct {
	Scenario       string `json:"scenario"`
	Implementation string `json:"implementation"`
	Nodes          int    `json:"nodes"`
	Services       int    `json:"services"`
	Throttled      bool   `json:"throttled"`
	// Seconds is until everything was done, or the limit if it was not; of a watched state how long it was watched.
	// Of handovers it is the longest round.
	Seconds float64 `json:"seconds"`
	// P50Seconds and P99Seconds are of the times until a single object was done: of Done samples, and of how long the
	// others had been waiting when the limit came.
	P50Seconds float64 `json:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
	// FirstSeconds is the least of these times: until the first object was done. It is 0 where none was.
	FirstSeconds float64 `json:"firstSeconds,omitzero"`
	CloudCalls   int     `json:"cloudCalls"`
	// APIWrites are the requests that changed, or tried to change, something in the API: events count, renewals of leases
	// do not.
	APIWrites   int     `json:"apiWrites"`
	CPUSeconds  float64 `json:"cpuSeconds"`  // of the manager
	MaxRSSBytes int64   `json:"maxRSSBytes"` // of the manager, since its start
	// OwnBytes are resident at the end and in no file, such as the program's own: what no other process can share, and
	// the kernel cannot drop. 0 where the manager has ended.
	OwnBytes int64 `json:"ownBytes,omitzero"`

	Complete       bool `json:"complete"`       // everything was done within the limit
	Done           int  `json:"done"`           // objects that were done
	Of             int  `json:"of"`             // objects there were
	MutatingCalls  int  `json:"mutatingCalls"`  // of CloudCalls, without those that were throttled
	ThrottledCalls int  `json:"throttledCalls"` // of CloudCalls, refused with 429
	EventWrites    int  `json:"eventWrites"`    // of APIWrites
	// the most mutating calls for a single load balancer or route, without those that were throttled
	MostPerObject int `json:"mostPerObject,omitzero"`
	// BusySeconds is from becoming the leader to the last call or write, of a process that takes over.
	BusySeconds float64 `json:"busySeconds,omitzero"`
	// CorePercent is which share of a core the manager used, of a state that is watched: in the window alone.
	CorePercent float64 `json:"corePercent,omitzero"`
}

// samples are the times of single objects.
type samples struct {
	of      int // objects there are
	times   []time.Duration
	pending []time.Duration // how long those have been waiting that are not done; missing ones count with the limit
	total   time.Duration   // until the last one
}

// samplesOf are the times of objects that were begun, until each was done. The total is from the first beginning on.
func samplesOf(begun, done map[string]time.Time) samples {
	s := samples{of: len(begun)}
	var first, last time.Time
	for name, since := range begun {
		if first.IsZero() || since.Before(first) {
			first = since
		}
		at, ok := done[name]
		if !ok {
			s.pending = append(s.pending, time.Since(since))
			continue
		}
		s.times = append(s.times, at.Sub(since))
		if at.After(last) {
			last = at
		}
	}
	slices.Sort(s.times)
	if !last.IsZero() {
		s.total = last.Sub(first)
	}
	return s
}

// into writes what the samples say into a result.
func (s samples) into(r *Result, limit time.Duration) {
	r.Done, r.Of, r.Complete = len(s.times), s.of, len(s.times) >= s.of
	r.Seconds = s.total.Seconds()
	all := slices.Concat(s.times, s.pending)
	if !r.Complete {
		r.Seconds = limit.Seconds()
		for len(all) < s.of {
			all = append(all, limit)
		}
	}
	slices.Sort(all)
	r.FirstSeconds = 0
	if len(s.times) > 0 {
		r.FirstSeconds = slices.Min(s.times).Seconds()
	}
	r.P50Seconds, r.P99Seconds = percentile(all, 50).Seconds(), percentile(all, 99).Seconds()
}

// percentile returns the smallest time that at least p of 100 samples do not exceed, exactly; 0 of none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(float64(p) * float64(len(sorted)) / 100))
	return sorted[max(rank, 1)-1]
}

// WriteJSON writes results to a file, and replaces those that were there.
func WriteJSON(path string, results []Result) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding results: %w", err)
	}
	return writeFile(path, append(data, '\n'))
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(path string) ([]Result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	var out []Result
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("reading results from %q: %w", path, err)
	}
	return out, nil
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating directory of %q: %w", path, err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}

// Merge replaces the results among the earlier ones that have been measured again, and adds the others.
func Merge(earlier, results []Result) []Result {
	out := slices.Clone(earlier)
	for _, r := range results {
		same := func(old Result) bool { return old.group() == r.group() && old.Implementation == r.Implementation }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = r
		} else {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Result) int { return slices.Compare(a.place(), b.place()) })
	return out
}

// scenario finds the scenario of a result, or -1.
func (r Result) scenario() int {
	return slices.IndexFunc(
		scenarios,
		func(s scenario) bool { return s.name == r.Scenario || slices.Contains(s.parts, r.Scenario) },
	)
}

// watched reports whether its seconds are those of the window and say nothing about the implementation.
func (r Result) watched() bool {
	i := r.scenario()
	return i >= 0 && scenarios[i].watched && r.Scenario == scenarios[i].name // and no start before it
}

// sampled reports whether there are times of single objects.
func (r Result) sampled() bool { return r.Of > 0 && !r.watched() }

// place orders results as the scenarios are, then by size and cloud, and the implementations of a group side by side.
func (r Result) place() []int {
	scenario, part, throttled := r.scenario(), 0, 0
	if scenario >= 0 {
		part = slices.Index(scenarios[scenario].parts, r.Scenario)
	}
	if r.Throttled {
		throttled = 1
	}
	return []int{scenario, part, r.Nodes, r.Services, throttled, slices.Index(ImplementationNames(), r.Implementation)}
}
