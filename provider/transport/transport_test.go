package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/testutil"

	"github.com/transplant-dev/transplant/ccm/election"
)

// wire answers every request with a body of so many bytes, or with an error.
type wire struct {
	status, size int
	err          error
	sent         int
}

func (w *wire) RoundTrip(*http.Request) (*http.Response, error) {
	w.sent++
	if w.err != nil {
		return nil, w.err
	}
	return &http.Response{StatusCode: w.status, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", w.size)))}, nil
}

func describe(r *http.Request) Request {
	return Request{Service: "compute", Operation: r.Method, Mutates: r.Method != http.MethodGet}
}

// body notes that it was closed.
type body struct {
	io.Reader

	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func TestARequestThatChangesSomethingNeedsAnOpenFence(t *testing.T) {
	next, gate := &wire{status: http.StatusOK}, &Gate{}
	transport := New(Options{Next: next, Gate: gate, Describe: describe})
	ctx, correct := Watch(t.Context())
	send := func(ctx context.Context, method string) (*body, error) {
		b := &body{Reader: strings.NewReader("{}")}
		request, err := http.NewRequestWithContext(ctx, method, "http://cloud/", b)
		if err != nil {
			t.Fatal(err)
		}
		_, err = transport.RoundTrip(request) //nolint:bodyclose // the wire's body holds nothing
		return b, err
	}
	if _, err := send(ctx, http.MethodGet); err != nil || next.sent != 1 {
		t.Errorf("a read: %v, %d sent", err, next.sent)
	}
	given, err := send(ctx, http.MethodPost)
	if !errors.Is(err, election.ErrFenced) || next.sent != 1 || !given.closed {
		t.Errorf("a write without a lease: %v, %d sent, its body closed %v", err, next.sent, given.closed)
	}
	// the provider has formatted the refusal into text
	if err := correct(errors.New("creating failed: " + err.Error())); !errors.Is(err, election.ErrFenced) {
		t.Errorf("the corrected error is %v", err)
	}
	gate.Use(election.Unfenced(time.Now()))
	if _, err := send(ctx, http.MethodPost); err != nil || next.sent != 2 {
		t.Errorf("a write with a lease: %v, %d sent", err, next.sent)
	}
}

// slow sends a request's body after its connection was made, which takes until the lease is lost.
type slow struct{ lose func() }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	s.lose()
	if _, err := io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestTheFenceIsAskedAgainWhenABodyIsSent(t *testing.T) {
	gate, fence := &Gate{}, election.Unfenced(time.Now())
	gate.Use(fence)
	transport := New(Options{Next: slow{func() { fence.Revoke("it was lost") }}, Gate: gate, Describe: describe})
	ctx, correct := Watch(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cloud/", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = transport.RoundTrip(request) //nolint:bodyclose // there is no answer
	if !errors.Is(err, election.ErrFenced) || !strings.Contains(err.Error(), "not sending compute POST") {
		t.Errorf("the error is %v", err)
	}
	if err := correct(errors.New("creating failed")); !errors.Is(err, election.ErrFenced) {
		t.Errorf("the corrected error is %v", err)
	}
	request.Body, err = request.GetBody() // the caller's request is as it was
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(request.Body); string(data) != "{}" {
		t.Errorf("its body is %q: %v", data, err)
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	for size, whole := range map[int]bool{0: true, 9: true, 10: true, 11: false, 100: false} {
		transport := New(Options{Next: &wire{status: http.StatusOK, size: size}, Gate: &Gate{}, Describe: describe, MaxAnswer: 10})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://cloud/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if whole != (err == nil) || len(data) > 10 {
			t.Errorf("%d bytes: %d were read, error %v", size, len(data), err)
		}
	}
}

// TestAConnectionIsNotTakenOver: what answers in place of a cloud could keep a worker waiting for ever.
func TestAConnectionIsNotTakenOver(t *testing.T) {
	transport := New(Options{Next: &wire{status: http.StatusSwitchingProtocols, size: 1}, Gate: &Gate{}, Describe: describe})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://cloud/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(request)
	if err == nil {
		_ = answer.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "another protocol") {
		t.Errorf("the error is %v", err)
	}
}

// exampleMetrics are registered once in a process: of several runs of a test, each counts on.
var exampleMetrics = NewMetrics("example", "the example cloud")

func TestRequestsAreCountedByOutcome(t *testing.T) {
	metrics := exampleMetrics
	before, outcomes := map[string]float64{}, []string{"ok", "throttled", "not_found", "timeout"}
	count := func(outcome string) float64 {
		n, err := testutil.GetCounterMetricValue(metrics.requests.WithLabelValues("compute", "GET", outcome))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, outcome := range outcomes {
		before[outcome] = count(outcome)
	}
	for _, next := range []*wire{{status: http.StatusOK}, {status: http.StatusTooManyRequests}, {status: http.StatusNotFound}, {err: context.DeadlineExceeded}} {
		transport := New(Options{Next: next, Gate: &Gate{}, Describe: describe, Metrics: metrics})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://cloud/", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = transport.RoundTrip(request) //nolint:bodyclose // the wire's body holds nothing
	}
	for _, outcome := range outcomes {
		if got := count(outcome) - before[outcome]; got != 1 {
			t.Errorf("%s: %v", outcome, got)
		}
	}
}
