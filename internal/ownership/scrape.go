package ownership

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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
)

// maxMetrics bounds what is read of a manager's /metrics: a kube-controller-manager of a large cluster serves a few megabytes.
const maxMetrics = 64 << 20

// The metrics that are looked at; every other line is skipped before it is parsed.
const (
	metricLoops   = "running_managed_controllers"
	metricLeads   = "leader_election_master_status"
	metricStarted = "process_start_time_seconds"
	metricBuild   = "kubernetes_build_info"
)

// cloudCallMetrics are the histograms in which the providers count their calls, one observation for each that succeeded.
var cloudCallMetrics = []string{
	"cloudprovider_aws_api_request_duration_seconds",
	"cloudprovider_azure_api_request_duration_seconds",
	"cloudprovider_gce_api_request_duration_seconds",
	"cloudprovider_vsphere_api_request_duration_seconds",
	"openstack_api_request_duration_seconds",
}

// NewClient returns an HTTP client for Scrape. With roots, a manager's certificate must be signed by one of them. Without, any certificate is
// accepted: managers sign their own one at every start (--cert-dir unset), so there is nothing to verify against. Whoever sits between can then
// read the token and forge gauges; so the token must be good for nothing but GET /metrics, and what gauges say is never the proof of an end.
func NewClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		// No proxy: a manager listens on its own host, often on an address that only hosts of the cluster reach.
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: roots == nil},
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     30 * time.Second,
			DisableCompression:  true, // gzip would cost the manager more than the loopback or a local network does
		},
		CheckRedirect: neverRedirect,
	}
}

func neverRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Scrape asks the manager at address (host:port) what it runs and which leases it leads. Component and Host of the answer are left to the caller.
// It never follows a redirect, which would hand the token to somebody else, and never puts the token into an error.
func Scrape(ctx context.Context, client *http.Client, address, token string) (v1.Manager, error) {
	m := v1.Manager{Address: address}
	// Servers since client_golang 1.23 answer only the named metrics, which spares them most of the work; older ones ignore the query.
	query := url.Values{"name[]": askedMetrics}
	target := url.URL{Scheme: "https", Host: address, Path: "/metrics", RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return m, fmt.Errorf("asking for the metrics of %s: %w", address, err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	req.Header.Set("Accept-Encoding", "identity")
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
	if err := read(&m, text); err != nil {
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

// wanted copies the lines of the metrics that are looked at: a manager serves tens of thousands of others, and parsing them all ten times a
// second would take a core.
func wanted(body io.Reader) ([]byte, error) {
	limited := &io.LimitedReader{R: body, N: maxMetrics}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	var out bytes.Buffer
	for lines.Scan() {
		if isWanted(lines.Bytes()) {
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

// read fills in what the metrics say.
func read(m *v1.Manager, text []byte) error {
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
				count(m, int64(metric.GetHistogram().GetSampleCount()))
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

// count adds calls to the cloud.
func count(m *v1.Manager, calls int64) {
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
