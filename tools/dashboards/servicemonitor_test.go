package dashboards

import (
	"os"
	"path/filepath"
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
