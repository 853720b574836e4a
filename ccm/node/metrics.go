package node

import (
	"sync"

	_ "k8s.io/cloud-provider/controllers/node"
	"k8s.io/component-base/metrics"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
)

const subsystem = "node_controller"

var (
	taintRemovalDelay = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      subsystem,
		Name:           "cloud_provider_taint_removal_delay_seconds",
		Help:           "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single node.",
		Buckets:        metrics.ExponentialBuckets(1, 4, 6),
		StabilityLevel: metrics.ALPHA,
	})
	initialSyncDelay = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      subsystem,
		Name:           "initial_node_sync_delay_seconds",
		Help:           "Number of seconds after node creation when NodeController finished the initial synchronization of a single node.",
		Buckets:        metrics.ExponentialBuckets(1, 4, 6),
		StabilityLevel: metrics.ALPHA,
	})
	failures = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_node_sync_failures_total",
		Help: "Number of attempts to initialise a node, or to update its labels or addresses, that failed and are retried, labeled by reason. " +
			"The event on the node has the same reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	batchNodes = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "transplant_ccm_node_sync_batch_nodes",
		Help:           "Number of nodes that were asked for together when they joined.",
		Buckets:        metrics.ExponentialBuckets(1, 2, 11),
		StabilityLevel: metrics.ALPHA,
	})
)

var registration sync.Once

func registerMetrics() {
	registration.Do(func() {
		taintRemovalDelay, initialSyncDelay = ccmmetrics.Adopt(taintRemovalDelay), ccmmetrics.Adopt(initialSyncDelay)
		ccmmetrics.Register(failures, batchNodes)
	})
}
