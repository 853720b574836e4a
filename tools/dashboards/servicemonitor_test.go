package dashboards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// The ServiceMonitor of the installed managers has prometheus-operator's fields and no other: a cluster without its definition takes none, so that no
// API server of the lab says what is wrong with it.
func TestTheServiceMonitorIsOneOfPrometheusOperator(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "deploy/kustomize/components/service-monitor/servicemonitor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m monitoringv1.ServiceMonitor
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Spec.Endpoints) != 1 {
		t.Fatalf("%+v", m.Spec)
	}
	e := m.Spec.Endpoints[0]
	file := e.BearerTokenFile //nolint:staticcheck // its successor takes a token from a Secret, and Prometheus has its own in a file
	if e.Port != "https-metrics" || e.Scheme != "https" || file == "" || e.TLSConfig == nil || m.Spec.Selector.MatchLabels["app.kubernetes.io/name"] == "" {
		t.Errorf("%+v", m.Spec)
	}
	if err := yaml.UnmarshalStrict([]byte("spec: {podEndpoints: []}"), &m); err == nil {
		t.Error("a field of a PodMonitor is taken")
	}
}

// What the charts render is in their snapshots.
func TestTheServiceMonitorsOfTheChartsAreSomeOfPrometheusOperator(t *testing.T) {
	for snapshot, port := range map[string]string{"cloud-controller-manager/migration.yaml": "https-metrics", "transplant-operator/strict.yaml": "metrics"} {
		data, err := os.ReadFile(filepath.Join(root, "lab/install/testdata/charts", snapshot))
		if err != nil {
			t.Fatal(err)
		}
		var found []monitoringv1.ServiceMonitor
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			if !strings.Contains(document, "\nkind: ServiceMonitor\n") {
				continue
			}
			var m monitoringv1.ServiceMonitor
			if err := yaml.UnmarshalStrict([]byte(document), &m); err != nil {
				t.Errorf("%s: %v", snapshot, err)
			}
			found = append(found, m)
		}
		if len(found) != 1 || len(found[0].Spec.Endpoints) != 1 || found[0].Spec.Endpoints[0].Port != port || found[0].Labels["release"] != "kps" {
			t.Errorf("%s: %+v", snapshot, found)
		}
	}
}
