package recorder

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/answerlimit"
)

// scrapeTarget scrapes one manager until ctx ends.
func (r *Recorder) scrapeTarget(ctx context.Context, t Target) {
	src := &source{r: r}
	defer src.flush()
	wake := r.scheduler.wake(t)
	for ctx.Err() == nil {
		if !r.scheduler.isAbsent(t) {
			r.scrapeOnce(ctx, src, t)
		}
		interval := r.opts.SlowInterval
		if r.scheduler.isHot(t, r.opts.Clock.Now()) {
			interval = r.opts.Interval
		}
		r.wait(ctx, interval, wake)
	}
}

func (r *Recorder) scrapeOnce(ctx context.Context, src *source, t Target) {
	asking, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	began := r.now()
	m, err := r.opts.Scrape(asking, t)
	e := v1.OwnershipEvent{
		Time:      r.now(),
		Began:     &began,
		Source:    v1.SourceScrape,
		Component: t.Component,
		Host:      t.Host,
	}
	if ctx.Err() != nil {
		return // the recording ended in the middle of a look: it says nothing
	}
	if err != nil {
		r.scheduler.recordFailure(t)
		src.recordFailure(e, err)
		return
	}
	r.scheduler.recordAnswer(t, m)
	e.Loops, e.Leads, e.ProcessStarted, e.Series = m.Loops, m.Leads, m.ProcessStarted, m.Series
	state := strings.Join(m.Loops, ",") + ";" + strings.Join(m.Leads, ",")
	if m.ProcessStarted != nil {
		state += ";" + m.ProcessStarted.Round(time.Second).String() // it jitters: see startTolerance
	}
	src.ok(e, state)
}

// now is the time as it is written down.
func (r *Recorder) now() time.Time { return r.opts.Clock.Now().UTC().Round(0) }

// maxMetrics bounds what is read of a manager's /metrics: a kube-controller-manager of a large cluster serves a few
// megabytes.
const maxMetrics = 64 << 20

// maxWanted bounds, in bytes, the lines that are parsed. A manager has a few hundred of them, and to parse one takes
// some twenty times its size. In a seed the operator asks the managers of every user cluster.
const maxWanted = 1 << 20

// The metrics that are looked at; every other line is skipped before it is parsed.
const (
	metricLoops   = "running_managed_controllers"
	metricLeads   = "leader_election_master_status"
	metricStarted = "process_start_time_seconds"
	metricBuild   = "kubernetes_build_info"
)

// cloudCallMetrics are the histograms in which the providers count their calls, one observation for each that
// succeeded.
var cloudCallMetrics = []string{
	"cloudprovider_aws_api_request_duration_seconds",
	"cloudprovider_azure_api_request_duration_seconds",
	"cloudprovider_gce_api_request_duration_seconds",
	"cloudprovider_vsphere_api_request_duration_seconds",
	"openstack_api_request_duration_seconds",
}

// NewClient returns an HTTP client for Scrape. With roots, a manager's certificate must be signed by one of them.
// Without, any certificate is accepted: managers sign their own one at every start (--cert-dir unset), so there is
// nothing to verify against. A process in between can then read the token and forge gauges. So the token must be good
// for nothing but GET /metrics, and gauges are never the proof of an end.
func NewClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		// No proxy: a manager listens on its own host, often on an address that only hosts of the cluster reach.
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: roots == nil},
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     30 * time.Second,
			// A manager's answer has some hundred bytes of them.
			MaxResponseHeaderBytes: answerlimit.MaxHeader,
			DisableCompression:     true, // gzip would cost the manager more than the loopback or a local network does
		},
		CheckRedirect: neverRedirect,
	}
}

func neverRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// get asks for a URL with a token. It never follows a redirect, which would send the token to another server.
func get(
	ctx context.Context,
	client *http.Client,
	target url.URL,
	token string,
	header http.Header,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := *client
	c.CheckRedirect = neverRedirect
	resp, err := c.Do(req)
	if err != nil {
		var urlErr *url.Error
		if errors.As(err, &urlErr) { // its text repeats the whole query
			err = urlErr.Err
		}
		return nil, err
	}
	return resp, nil
}

// Scrape asks the manager at address (host:port) what it runs and which leases it leads. Component and Host of the
// answer are left to the caller. It never follows a redirect, which would send the token to another server, and never
// puts the token into an error.
func Scrape(ctx context.Context, client *http.Client, address, token string) (v1.Manager, error) {
	m := v1.Manager{Address: address}
	// Servers since client_golang 1.23 answer only the named metrics, which spares them most of the work; older ones
	// ignore the query.
	query := url.Values{"name[]": askedMetrics}
	target := url.URL{
		Scheme:   "https",
		Host:     address,
		Path:     "/metrics",
		RawQuery: query.Encode(),
	}
	header := http.Header{"Accept": {"text/plain;version=0.0.4"}, "Accept-Encoding": {"identity"}}
	resp, err := get(ctx, client, target, token, header)
	if err != nil {
		return m, fmt.Errorf("asking for the metrics of %s: %w", address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return m, statusError(address, resp.StatusCode)
	}
	text, err := wanted(resp.Body)
	if err != nil {
		return m, fmt.Errorf("reading the metrics of %s: %w", address, err)
	}
	if err := parseMetrics(&m, text); err != nil {
		return m, fmt.Errorf("understanding the metrics of %s: %w", address, err)
	}
	return m, nil
}

func statusError(address string, status int) error {
	hint := ""
	switch {
	case status == http.StatusUnauthorized:
		hint = ": it does not know the token"
	case status == http.StatusForbidden:
		hint = ": the token's user may not GET /metrics; bind it to a ClusterRole with nonResourceURLs [/metrics]"
	case status >= 300 && status < 400:
		hint = ": it redirects, and the token is not sent elsewhere"
	}
	return &statusErr{status, fmt.Sprintf("asking for the metrics of %s: status %d%s", address, status, hint)}
}

// wanted copies the lines of the metrics that are looked at. A manager serves tens of thousands of others, and parsing
// them all ten times a second would take a core.
func wanted(body io.Reader) ([]byte, error) {
	limited := &io.LimitedReader{R: body, N: maxMetrics}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	var out bytes.Buffer
	for lines.Scan() {
		if isWanted(lines.Bytes()) {
			if out.Len()+len(lines.Bytes()) > maxWanted {
				return nil, fmt.Errorf("more than %d bytes of the metrics that are looked at", maxWanted)
			}
			out.Write(lines.Bytes())
			out.WriteByte('\n')
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("more than %d bytes", maxMetrics)
	}
	return out.Bytes(), nil
}

func isWanted(line []byte) bool {
	rest, comment := bytes.CutPrefix(line, []byte("# TYPE "))
	if !comment && bytes.HasPrefix(line, []byte("#")) {
		return false
	}
	end := bytes.IndexAny(rest, "{ \t")
	if end < 0 {
		return false
	}
	name := string(rest[:end])
	if name == metricLoops || name == metricLeads || name == metricStarted || name == metricBuild {
		return true
	}
	if seriesOf(name) != "" {
		return true
	}
	for _, calls := range cloudCallMetrics {
		if name == calls || strings.HasPrefix(name, calls) && strings.HasSuffix(name, "_count") {
			return true
		}
	}
	return false
}

// parseMetrics fills in what the metrics say.
func parseMetrics(m *v1.Manager, text []byte) error {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if _, built := families[metricBuild]; len(families) == 0 || built && len(families) == 1 {
		return errors.New("there is no metric of a controller manager among them")
	}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			// A family without a TYPE line is untyped.
			value := metric.GetGauge().GetValue() + metric.GetUntyped().GetValue()
			switch {
			case seriesOf(name) != "":
				m.Series = append(m.Series, series(seriesOf(name), metric))
			case metric.GetHistogram() != nil:
				addCloudCalls(m, int64(metric.GetHistogram().GetSampleCount()))
			case name == metricStarted:
				start(m, value)
			case name == metricBuild:
				m.Version = label(metric, "git_version")
			case value != 1:
			default:
				if of := label(metric, "name"); of != "" {
					claim(m, name, of)
				}
			}
		}
	}
	m.Loops, m.Leads = sortedUnique(m.Loops), sortedUnique(m.Leads)
	slices.SortFunc(m.Series, func(a, b v1.Series) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// label is the value of a label; empty when the metric has none.
func label(metric *dto.Metric, name string) string {
	for _, l := range metric.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// claim adds what a gauge at 1 says that the manager runs or leads.
func claim(m *v1.Manager, gauge, name string) {
	switch gauge {
	case metricLoops:
		m.Loops = append(m.Loops, name)
	case metricLeads:
		m.Leads = append(m.Leads, name)
	}
}

// addCloudCalls adds calls to the cloud.
func addCloudCalls(m *v1.Manager, calls int64) {
	if m.CloudCalls != nil {
		calls += *m.CloudCalls
	}
	m.CloudCalls = &calls
}

// start takes the process's start time from seconds since the epoch.
func start(m *v1.Manager, seconds float64) {
	if seconds <= 0 {
		return
	}
	whole, fraction := math.Modf(seconds)
	started := time.Unix(int64(whole), int64(fraction*1e9)).UTC().Round(10 * time.Millisecond)
	m.ProcessStarted = &started
}

func sortedUnique(in []string) []string {
	sort.Strings(in)
	out := in[:0]
	for i, s := range in {
		if i == 0 || s != in[i-1] {
			out = append(out, s)
		}
	}
	return out
}

// kepSeries are the five series by which KEP-2395 tells operators to judge an extracted provider, without their
// subsystem. That is node_controller_ for the first two (in the cloud's node controller since 1.28). It is
// service_controller_ for the others (the latencies since 1.21, the errors since 1.27).
var kepSeries = []string{
	"cloud_provider_taint_removal_delay_seconds",
	"initial_node_sync_delay_seconds",
	"nodesync_error_total",
	"nodesync_latency_seconds",
	"update_loadbalancer_host_latency_seconds",
}

// subsystems that the series have had.
var subsystems = []string{"", "node_controller_", "service_controller_", "cloud_node_controller_", "cloud_provider_"}

// askedMetrics are the names that a manager is asked for.
var askedMetrics = func() []string {
	out := append([]string{metricLoops, metricLeads, metricStarted, metricBuild}, cloudCallMetrics...)
	for _, name := range kepSeries {
		for _, subsystem := range subsystems {
			out = append(out, subsystem+name)
		}
	}
	return out
}()

// seriesOf is the series that a metric, or a line of a histogram, belongs to; empty for any other.
func seriesOf(metric string) string {
	for _, part := range []string{"", "_bucket", "_sum", "_count"} {
		name, ok := strings.CutSuffix(metric, part)
		if !ok {
			continue
		}
		for _, subsystem := range subsystems {
			if rest, ok := strings.CutPrefix(name, subsystem); ok && slices.Contains(kepSeries, rest) {
				return rest
			}
		}
	}
	return ""
}

// objective is the KEP's: 99% within 60 seconds. The histograms' nearest bound above it is 64, so a few of those within
// may have taken up to 64.
const objective = 60

func series(name string, metric *dto.Metric) v1.Series {
	h := metric.GetHistogram()
	if h == nil {
		return v1.Series{Name: name, Sum: metric.GetCounter().GetValue() + metric.GetUntyped().GetValue()}
	}
	within := h.GetSampleCount() // all of them, unless a bucket says less
	best := 0.0
	for _, b := range h.GetBucket() {
		if bound := b.GetUpperBound(); bound >= objective && (best == 0 || bound < best) {
			best, within = bound, b.GetCumulativeCount()
		}
	}
	return v1.Series{
		Name:     name,
		Count:    h.GetSampleCount(),
		Sum:      h.GetSampleSum(),
		Within60: &within,
	}
}

// statusErr is an answer that is none, with its HTTP status.
type statusErr struct {
	status int
	text   string
}

func (e *statusErr) Error() string { return e.text }

// Refused reports whether an error says that a component runs and does not answer this account.
func Refused(err error) bool {
	var e *statusErr
	return errors.As(err, &e) && (e.status == http.StatusUnauthorized || e.status == http.StatusForbidden)
}

// maxVersion bounds what is read of an answer to /version, which is some hundred bytes.
const maxVersion = 1 << 16

// Version asks the API server at address (host:port) for the version that it was built as, e.g. v1.27.4.
func Version(ctx context.Context, client *http.Client, address, token string) (string, error) {
	target := url.URL{Scheme: "https", Host: address, Path: "/version"}
	resp, err := get(ctx, client, target, token, http.Header{})
	if err != nil {
		return "", fmt.Errorf("asking for the version of %s: %w", address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", &statusErr{
			resp.StatusCode,
			fmt.Sprintf("asking for the version of %s: status %d", address, resp.StatusCode),
		}
	}
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxVersion)).
		Decode(&answer); err != nil ||
		answer.GitVersion == "" {
		return "", fmt.Errorf("understanding the version of %s: it is no answer of an API server", address)
	}
	return answer.GitVersion, nil
}
