package route

import (
	"net"
	"sync"

	upstream "k8s.io/cloud-provider/controllers/route"
	"k8s.io/component-base/metrics"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
)

var (
	syncs = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "route_controller",
		Name:      "route_sync_total",
		// Upstream's text: with another one its collector could not be adopted.
		Help: "A metric counting the number of route reconciles with the cloud provider, labeled by the trigger (periodic or node_change) and the outcome " +
			"(error if the reconcile failed, changed if at least one route was created or deleted, otherwise noop).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome", "trigger"})
	failing = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "transplant_ccm_route_failing",
		Help:           "Number of routes whose last create or delete call failed and is waiting for its retry. For list it is 1 if the last list of routes failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"operation"})
	createSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "transplant_ccm_route_create_duration_seconds",
		Help:           "Time in seconds of creating a route that succeeded, from the start of its first attempt to the end of its last.",
		StabilityLevel: metrics.ALPHA,
		Buckets:        metrics.ExponentialBuckets(0.05, 2, 14),
	})
)

var registration sync.Once

func registerMetrics() {
	registration.Do(func() {
		ccmmetrics.RegisterUpstreams(func() { // without a CIDR it would end the process
			_, _ = upstream.New(nil, nil, nil, "", []*net.IPNet{{}})
		})
		syncs = ccmmetrics.Adopt(syncs)
		ccmmetrics.Register(failing, createSeconds)
	})
}

// recordSync counts a pass that has called the cloud, as upstream does it: only one that could not list routes is an
// error. What else fails is in failing.
func recordSync(trigger string, changed, failed bool) {
	outcome := "noop"
	switch {
	case failed:
		outcome = "error"
	case changed:
		outcome = "changed"
	}
	if trigger == retry {
		trigger = nodeChange
	}
	syncs.WithLabelValues(outcome, trigger).Inc()
}
