package collect

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// offsetFrom is how many of the newest answers say what time it is at the API server. A clock that is set while a
// command runs counts from then on.
const offsetFrom = 20

// Offset is the API server's clock minus this machine's, as the newest answers show it. It is zero where they agree
// with both clocks being right, and where no answer had a date.
func (t *Traffic) Offset() time.Duration {
	t.mu.Lock()
	from := max(0, len(t.bounds)-offsetFrom)
	t.mu.Unlock()
	_, c := t.Since(Mark{bounds: from})
	if c == nil {
		return 0
	}
	offset, uncertain := time.Duration(
		c.OffsetMillis,
	)*time.Millisecond, time.Duration(
		c.UncertaintyMillis,
	)*time.Millisecond
	if offset.Abs() <= uncertain {
		return 0
	}
	return offset
}

// Traffic watches the requests of clients: how many there were, and what the API server's clock said in its answers.
// The zero value is ready, and safe for several goroutines.
type Traffic struct {
	mu    sync.Mutex
	calls map[string]int
	// bounds are of the server's clock minus ours. Each answer's Date is the server's second in which it was written, some
	// time between our sending and our receiving.
	bounds []bound
	Now    func() time.Time
	// Tell is called for each request when its answer begins, with how long that took. Nil calls nothing. With an error
	// the answer is nil.
	Tell func(req *http.Request, resp *http.Response, err error, took time.Duration)
}

type bound struct{ low, high time.Duration }

// Watch makes the clients of a configuration tell this what they do. It must be called before they are made.
func (t *Traffic) Watch(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &watched{next: next, traffic: t} })
}

type watched struct {
	next    http.RoundTripper
	traffic *Traffic
}

// RoundTrip implements http.RoundTripper.
func (w *watched) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := w.traffic.clock()
	resp, err := w.next.RoundTrip(req)
	w.traffic.Saw(req, resp, sent)
	if w.traffic.Tell != nil {
		w.traffic.Tell(req, resp, err, w.traffic.clock().Sub(sent))
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport underneath.
func (w *watched) WrappedRoundTripper() http.RoundTripper { return w.next }

func (t *Traffic) clock() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// Saw counts a request and learns from the date of its answer.
func (t *Traffic) Saw(req *http.Request, resp *http.Response, sent time.Time) {
	received := t.clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == nil {
		t.calls = map[string]int{}
	}
	t.calls[verbOf(req)]++
	if resp == nil {
		return
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	t.bounds = append(t.bounds, bound{low: date.Sub(received), high: date.Add(time.Second).Sub(sent)})
}

// verbOf is what the API server's authorizer would call a request; "discovery" is what is asked of no resource.
func verbOf(req *http.Request) string {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "discovery"
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch req.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	switch {
	case req.URL.Query().Get("watch") == "true":
		return "watch"
	case len(parts) == 1:
		return "list"
	}
	return "get"
}

// Mark is the state that since compares with.
type Mark struct {
	calls  map[string]int
	bounds int
}

// Mark returns what was seen so far.
func (t *Traffic) Mark() Mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Mark{calls: maps.Clone(t.calls), bounds: len(t.bounds)}
}

// Since returns the calls after a mark, and how far the API server's clock is from ours as the answers after it show.
// It is nil when none had a date.
//
// A Date has a resolution of one second, so one answer tells the offset to within a second and the time it took.
// Several that fall into their seconds differently narrow it down. Where they exclude each other (API servers behind
// one address whose clocks differ) the clock is anything that one of them says.
func (t *Traffic) Since(m Mark) (map[string]int, *v1.Clock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := map[string]int{}
	for verb, n := range t.calls {
		if n -= m.calls[verb]; n > 0 {
			calls[verb] = n
		}
	}
	bounds := t.bounds[m.bounds:]
	if len(bounds) == 0 {
		return calls, nil
	}
	both, any := bounds[0], bounds[0]
	for _, b := range bounds[1:] {
		both = bound{low: max(both.low, b.low), high: min(both.high, b.high)}
		any = bound{low: min(any.low, b.low), high: max(any.high, b.high)}
	}
	if both.low > both.high {
		both = any
	}
	half := (both.high - both.low) / 2
	return calls, &v1.Clock{
		Who:               "api",
		OffsetMillis:      (both.low + half).Milliseconds(),
		UncertaintyMillis: half.Milliseconds() + 1,
	}
}
