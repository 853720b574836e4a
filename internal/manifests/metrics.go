package manifests

import (
	"encoding/json"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// The account that may get the managers' metrics. It is the one that kube-prometheus gives its Prometheus.
const (
	scraper          = "prometheus-k8s"
	scraperNamespace = "monitoring"
)

const (
	metricsReader = "transplant-metrics-reader"
	metricsPort   = "https-metrics"
	rbacGroup     = "rbac.authorization.k8s.io"
)

// Metrics returns the right to get /metrics, for Prometheus' account, and the Service by which Prometheus finds the
// managers. A manager answers no other token with its metrics.
func Metrics() []layout.Object {
	role := layout.Object{
		"apiVersion": rbacGroup + "/v1", "kind": "ClusterRole", "metadata": object{"name": metricsReader},
		"rules": []object{{"nonResourceURLs": []string{"/metrics"}, "verbs": []string{"get"}}},
	}
	binding := layout.Object{
		"apiVersion": rbacGroup + "/v1", "kind": "ClusterRoleBinding", "metadata": object{"name": metricsReader},
		"roleRef":  object{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": metricsReader},
		"subjects": []object{{"kind": "ServiceAccount", "name": scraper, "namespace": scraperNamespace}},
	}
	// Without an address of its own: each manager is scraped, and not any one of them.
	service := layout.Object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": component.CCM, "namespace": component.Namespace},
		"spec": object{
			"clusterIP": "None",
			"selector":  ccm.Labels(component.CCM),
			"ports": []object{{
				"name":       metricsPort,
				"port":       json.Number(component.PortCCM),
				"targetPort": json.Number(component.PortCCM),
				"protocol":   "TCP",
			}},
		},
	}
	out := []layout.Object{role, binding, service}
	for _, o := range out {
		label(o)
	}
	return out
}

// ServiceMonitor returns what has the Prometheus of prometheus-operator scrape the managers. It names the token of
// Prometheus' own pod: a PodMonitor would need one that is kept in a Secret.
func ServiceMonitor() layout.Object {
	out := layout.Object{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
		"metadata": object{"name": component.CCM, "namespace": component.Namespace},
		"spec": object{
			"selector": object{"matchLabels": object{"app.kubernetes.io/name": component.CCM}},
			"endpoints": []object{{
				"port": metricsPort, "scheme": "https", "interval": "30s",
				"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
				// The managers sign their certificates themselves.
				"tlsConfig": object{"insecureSkipVerify": true},
			}},
		},
	}
	label(out)
	return out
}
