package recorder

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// metricsPage is what a kube-controller-manager 1.26 serves, shortened.
const metricsPage = `# HELP apiserver_audit_event_total [ALPHA] Counter of audit events generated and sent to the audit backend.
# TYPE apiserver_audit_event_total counter
apiserver_audit_event_total 0
# HELP cloudprovider_aws_api_request_duration_seconds [ALPHA] Latency of AWS API calls
# TYPE cloudprovider_aws_api_request_duration_seconds histogram
cloudprovider_aws_api_request_duration_seconds_bucket{request="describe_instance",le="0.005"} 3
cloudprovider_aws_api_request_duration_seconds_bucket{request="describe_instance",le="+Inf"} 7
cloudprovider_aws_api_request_duration_seconds_sum{request="describe_instance"} 0.31
cloudprovider_aws_api_request_duration_seconds_count{request="describe_instance"} 7
cloudprovider_aws_api_request_duration_seconds_bucket{request="create_route",le="+Inf"} 2
cloudprovider_aws_api_request_duration_seconds_sum{request="create_route"} 0.1
cloudprovider_aws_api_request_duration_seconds_count{request="create_route"} 2
# HELP leader_election_master_status [ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master.
# TYPE leader_election_master_status gauge
leader_election_master_status{name="cloud-provider-extraction-migration"} 0
leader_election_master_status{name="kube-controller-manager"} 1
# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.77236640025e+09
# HELP running_managed_controllers [BETA] Indicates where instances of a controller are currently running
# TYPE running_managed_controllers gauge
running_managed_controllers{manager="kube-controller-manager",name="service"} 0
running_managed_controllers{manager="kube-controller-manager",name="route"} 1
running_managed_controllers{manager="kube-controller-manager",name="nodeipam"} 1
# TYPE workqueue_depth gauge
workqueue_depth{name="a{b"} 1
`

// metricsServer serves metrics over TLS, as managers do.
func metricsServer(t *testing.T, handler http.HandlerFunc) (address string, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(handler)
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return strings.TrimPrefix(s.URL, "https://"), roots
}

func scrapeOnce(t *testing.T, client *http.Client, address string) (v1.Manager, error) {
	t.Helper()
	t.Cleanup(client.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return Scrape(ctx, client, address, "secret-token")
}

func TestScrapeReadsTheGaugesOfAManager(t *testing.T) {
	var asked *http.Request
	address, roots := metricsServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		_, _ = io.WriteString(w, metricsPage)
	})
	got, err := scrapeOnce(t, NewClient(roots), address)
	if err != nil {
		t.Fatal(err)
	}
	calls, started := int64(9), time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)
	want := v1.Manager{
		Address: address, Loops: []string{"nodeipam", "route"}, Leads: []string{"kube-controller-manager"}, CloudCalls: &calls, ProcessStarted: &started,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manager (-want +got):\n%s", diff)
	}
	if got := asked.Header.Get("Authorization"); got != "Bearer secret-token" {
		t.Errorf("Authorization is %q", got)
	}
	if asked.URL.Path != "/metrics" || len(asked.URL.Query()["name[]"]) < 3 || asked.Header.Get("Accept-Encoding") != "identity" {
		t.Errorf("asked for %s with %v", asked.URL, asked.Header)
	}
}

func TestScrapeRefuses(t *testing.T) {
	elsewhere := 0
	other, _ := metricsServer(t, func(http.ResponseWriter, *http.Request) { elsewhere++ })
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"a redirect, which would hand on the token", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://"+other+"/metrics", http.StatusFound)
		}, "redirects"},
		{"an unknown token", status(http.StatusUnauthorized), "does not know the token"},
		{"a token without rights", status(http.StatusForbidden), "may not GET /metrics"},
		{"a broken server", status(http.StatusInternalServerError), "status 500"},
		{"a page that is no metrics", body("<html>hello</html>"), "no metric of a controller manager"},
		{"an empty page", body(""), "no metric of a controller manager"},
		{"metrics that are none", body("running_managed_controllers{name=\"route\" 1\n"), "understanding the metrics"},
		{"a line without end", body(strings.Repeat("x", 2<<20)), "token too long"},
		{"more loops than a manager can have", body(strings.Repeat("running_managed_controllers{name=\"a\"} 1\n", 40_000)), "of the metrics that are looked at"},
		{"a body that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, "running_managed_controllers{name=\"route\"} 1\n")
		}, "reading the metrics"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, roots := metricsServer(t, c.handler)
			_, err := scrapeOnce(t, NewClient(roots), address)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "secret-token") || strings.Contains(err.Error(), "name%5B%5D")) {
				t.Errorf("error %q says too much", err)
			}
		})
	}
	if elsewhere > 0 {
		t.Error("a redirect was followed")
	}
}

func TestScrapeFollowsNoRedirectWithAnyClient(t *testing.T) {
	address, _ := metricsServer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	client := NewClient(nil)
	client.CheckRedirect = nil
	if _, err := scrapeOnce(t, client, address); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("error is %v", err)
	}
}

func TestScrapeVerifiesOnlyWithRoots(t *testing.T) {
	address, _ := metricsServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, metricsPage) })
	if _, err := scrapeOnce(t, NewClient(x509.NewCertPool()), address); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error is %v, want one about the certificate", err)
	}
	if _, err := scrapeOnce(t, NewClient(nil), address); err != nil {
		t.Errorf("without roots: %v", err)
	}
}

func TestScrapeEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	address, roots := metricsServer(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	client := NewClient(roots)
	t.Cleanup(client.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Scrape(ctx, client, address, ""); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("error is %v", err)
	}
}

func BenchmarkParseMetrics(b *testing.B) {
	var page strings.Builder
	for i := range 12000 {
		fmt.Fprintf(&page, "rest_client_request_duration_seconds_bucket{host=\"127.0.0.1:6443\",verb=\"GET\",le=\"%d\"} %d\n", i, i)
	}
	page.WriteString(metricsPage)
	b.SetBytes(int64(page.Len()))
	for b.Loop() {
		text, err := wanted(strings.NewReader(page.String()))
		if err != nil {
			b.Fatal(err)
		}
		var m v1.Manager
		if err := parseMetrics(&m, text); err != nil {
			b.Fatal(err)
		}
	}
}

func TestScrapeReadsTheSeriesOfKEP2395(t *testing.T) {
	const page = `# TYPE node_controller_initial_node_sync_delay_seconds histogram
node_controller_initial_node_sync_delay_seconds_bucket{le="16"} 2
node_controller_initial_node_sync_delay_seconds_bucket{le="64"} 3
node_controller_initial_node_sync_delay_seconds_bucket{le="256"} 4
node_controller_initial_node_sync_delay_seconds_bucket{le="+Inf"} 4
node_controller_initial_node_sync_delay_seconds_sum 120.5
node_controller_initial_node_sync_delay_seconds_count 4
# TYPE service_controller_nodesync_error_total counter
service_controller_nodesync_error_total 7
# TYPE service_controller_update_loadbalancer_host_latency_seconds histogram
service_controller_update_loadbalancer_host_latency_seconds_bucket{le="+Inf"} 0
service_controller_update_loadbalancer_host_latency_seconds_sum 0
service_controller_update_loadbalancer_host_latency_seconds_count 0
# TYPE service_controller_loadbalancer_sync_total counter
service_controller_loadbalancer_sync_total 9
# TYPE running_managed_controllers gauge
running_managed_controllers{manager="cloud-controller-manager",name="service"} 1
`
	var query []string
	address, roots := metricsServer(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query()["name[]"]
		_, _ = io.WriteString(w, page)
	})
	got, err := scrapeOnce(t, NewClient(roots), address)
	if err != nil {
		t.Fatal(err)
	}
	three, none := uint64(3), uint64(0)
	want := []v1.Series{
		{Name: "initial_node_sync_delay_seconds", Count: 4, Sum: 120.5, Within60: &three},
		{Name: "nodesync_error_total", Sum: 7},
		{Name: "update_loadbalancer_host_latency_seconds", Within60: &none},
	}
	if diff := cmp.Diff(want, got.Series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if got.CloudCalls != nil {
		t.Errorf("%d calls to the cloud were counted where none is told of", *got.CloudCalls)
	}
	if !slices.Contains(query, "service_controller_nodesync_error_total") {
		t.Errorf("asked for %q", query)
	}
}
