package service

import (
	"testing"

	"k8s.io/component-base/metrics"

	"github.com/transplant-dev/transplant/ccm/metrics/metricstest"
)

func TestUpstreamsSeriesAreServed(t *testing.T) {
	registerMetrics()
	metricstest.Served(t, map[string]metrics.Registerable{
		"loadBalancerSyncCount": loadBalancerSyncCount,
		"nodeSyncErrorCount":    nodeSyncErrorCount,
		"nodeSyncLatency":       nodeSyncLatency,
		"updateHostLatency":     updateHostLatency,
	})
}
