package node

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Upstream's collector is there first in every program: what is counted has to be counted in the one that is served.
func TestUpstreamsSeriesAreServed(t *testing.T) {
	registerMetrics()
	for name, collector := range map[string]metrics.Registerable{
		"taintRemovalDelay": taintRemovalDelay,
		"initialSyncDelay":  initialSyncDelay,
	} {
		if err := legacyregistry.Register(collector); err == nil {
			t.Errorf("%s was not registered", name)
			continue
		} else if already := (prometheus.AlreadyRegisteredError{}); !errors.As(err, &already) || already.ExistingCollector != prometheus.Collector(collector) {
			t.Errorf("%s is counted in a collector that is not served: %v", name, err)
		}
	}
}
