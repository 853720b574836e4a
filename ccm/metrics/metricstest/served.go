// Package metricstest has what tests of several controllers ask of their metrics.
package metricstest

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Served fails a test unless each collector, by its name in the code, is the one that the registry serves. Upstream's
// is there first in every program: what is counted in another one is never served.
func Served(t *testing.T, collectors map[string]metrics.Registerable) {
	t.Helper()
	for name, collector := range collectors {
		err := legacyregistry.Register(collector)
		if err == nil {
			t.Errorf("%s was not registered", name)
			continue
		}
		if already := (prometheus.AlreadyRegisteredError{}); !errors.As(err, &already) ||
			already.ExistingCollector != prometheus.Collector(collector) {
			t.Errorf("%s is counted in a collector that is not served: %v", name, err)
		}
	}
}
