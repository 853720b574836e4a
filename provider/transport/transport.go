package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/listcount"
)

// Request is what the transport says of a request, in logs, errors and metrics. It holds no IDs: each value becomes a
// series.
type Request struct {
	// Service is the API that is asked: "compute", "load-balancer".
	Service string
	// Operation is what is asked of it: "GET servers/{id}".
	Operation string
	// Mutates is that the request changes something, and so needs an open fence.
	Mutates bool
}

// Options are the settings of a Transport.
type Options struct {
	// Next sends the requests; nil for a clone of http.DefaultTransport.
	Next http.RoundTripper
	// Sent counts the requests that are sent; nil for none.
	Sent *atomic.Int64
	// Gate says whether requests that change something may be sent.
	Gate *Gate
	// Describe says what a request is. It must not keep the request.
	Describe func(*http.Request) Request
	// Metrics count the requests; nil for none.
	Metrics *Metrics
	// MaxAnswer is how many bytes an answer may have; 0 for no limit. A longer one ends in an error.
	MaxAnswer int64
	// List bounds lists in pages; it needs MaxAnswer.
	List List
}

// Transport is an http.RoundTripper that asks the fence, counts and bounds.
type Transport struct {
	options Options
	lists   *lists
}

// New makes a Transport.
func New(o Options) *Transport {
	if o.Next == nil {
		o.Next = http.DefaultTransport.(*http.Transport).Clone()
	}
	if o.Sent != nil {
		o.Next = &counting{o.Next, o.Sent}
	}
	return &Transport{options: o, lists: newLists(o.List)}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(in *http.Request) (*http.Response, error) {
	request := t.options.Describe(in)
	if request.Mutates {
		ctx := in.Context()
		ask := func() error { return t.options.Gate.Ask(ctx, request.Service, request.Operation) }
		if err := ask(); err != nil {
			if in.Body != nil {
				_ = in.Body.Close() // as a RoundTripper must
			}
			return nil, err
		}
		in = election.AskAgain(in, ask)
	}
	page, err := t.lists.page(in, request)
	if err != nil {
		if in.Body != nil {
			_ = in.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	start := time.Now()
	out, err := t.options.Next.RoundTrip(in)
	t.options.Metrics.observe(request, out, err, time.Since(start))
	if err != nil {
		return out, err
	}
	if out.StatusCode == http.StatusSwitchingProtocols { // no cloud's API does that, and no context ends such a connection
		_ = out.Body.Close()
		return nil, fmt.Errorf("the answer to %s %s gives the connection to another protocol", request.Service, request.Operation)
	}
	if t.options.MaxAnswer > 0 {
		out.Body = bound(in.Context(), out.Body, request, t.options.MaxAnswer, page)
	}
	return out, nil
}

// Bound returns the body of an answer that ends in an error when it is longer than limit. It counts for the list of the
// context (List.Read). It is for clients that have no Transport.
func Bound(ctx context.Context, body io.ReadCloser, request Request, limit int64) io.ReadCloser {
	return bound(ctx, body, request, limit, nil)
}

func bound(ctx context.Context, body io.ReadCloser, request Request, limit int64, page *listcount.Count) io.ReadCloser {
	if page == nil {
		page, _ = ctx.Value(readingKey{}).(*listcount.Count)
	}
	return &bounded{
		ReadCloser: body,
		left:       limit,
		request:    request,
		limit:      limit,
		page:       page,
	}
}

// bounded is the body of an answer, which ends in an error when it is longer than it may be. A proxy that answers
// without end would take the manager's memory.
type bounded struct {
	io.ReadCloser

	left, limit int64
	request     Request
	page        *listcount.Count // nil for what is no page
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// one byte more than the limit tells an answer of exactly the limit from a longer one
		n, err := b.ReadCloser.Read(make([]byte, 1))
		if n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("reading the answer to %s %s: it is longer than %d bytes",
			b.request.Service, b.request.Operation, b.limit)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.page != nil {
		b.page.Bytes.Add(int64(n))
	}
	return n, err
}

// Metrics are the series of one cloud's requests.
type Metrics struct {
	requests *metrics.CounterVec
	duration *metrics.HistogramVec
}

// NewMetrics registers transplant_ccm_<cloud>_requests_total and transplant_ccm_<cloud>_request_duration_seconds. The
// title is the cloud's name in their help.
func NewMetrics(name, title string) *Metrics {
	m := &Metrics{
		requests: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "transplant_ccm_" + name + "_requests_total",
			Help: "Requests to " + title + ", every attempt counted, by service, operation and outcome. An outcome that is no answer of " +
				title + " says how the connection failed (dns, connection_refused, tls, timeout). " +
				"Requests that the fence refused are not sent and not counted.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"service", "operation", "outcome"}),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: "transplant_ccm_" + name + "_request_duration_seconds",
			Help: "Seconds until the headers of an answer of " + title +
				" came, or until the request failed, by service and operation.",
			Buckets:        []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
			StabilityLevel: metrics.ALPHA,
		}, []string{"service", "operation"}),
	}
	legacyregistry.MustRegister(m.requests, m.duration)
	return m
}

func (m *Metrics) observe(request Request, answer *http.Response, err error, took time.Duration) {
	if m == nil {
		return
	}
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = statusError(answer.StatusCode)
	}
	outcome := string(cloud.Classify(err))
	m.requests.WithLabelValues(request.Service, request.Operation, outcome).Inc()
	m.duration.WithLabelValues(request.Service, request.Operation).Observe(took.Seconds())
	if log := klog.V(4); log.Enabled() {
		log.InfoS("Request to the cloud", "service", request.Service, "operation", request.Operation,
			"outcome", outcome, "took", took.Round(time.Millisecond))
	}
}

// statusError is an answer that refuses, as far as its status says it.
type statusError int

func (s statusError) Error() string       { return http.StatusText(int(s)) }
func (s statusError) GetStatusCode() int  { return int(s) }
func (s statusError) HTTPStatusCode() int { return int(s) }
