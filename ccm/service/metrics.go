package service

import (
	"sync"

	upstream "k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/metrics"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
)

// Upstream's, by its names and help texts: with another text its collector could not be adopted.
var (
	loadBalancerSyncCount = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem:      "service_controller",
		Name:           "loadbalancer_sync_total",
		Help:           "A metric counting the amount of times any load balancer has been configured, as an effect of service/node changes on the cluster",
		StabilityLevel: metrics.ALPHA,
	})
	nodeSyncErrorCount = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem:      "service_controller",
		Name:           "nodesync_error_total",
		Help:           "A metric counting the amount of times any load balancer has been configured and errored, as an effect of node changes on the cluster",
		StabilityLevel: metrics.ALPHA,
	})
	nodeSyncLatency = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      "service_controller",
		Name:           "nodesync_latency_seconds",
		Help:           "A metric measuring the latency for nodesync which updates loadbalancer hosts on cluster node updates.",
		Buckets:        metrics.ExponentialBuckets(1, 2, 15),
		StabilityLevel: metrics.ALPHA,
	})
	updateHostLatency = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      "service_controller",
		Name:           "update_loadbalancer_host_latency_seconds",
		Help:           "A metric measuring the latency for updating each load balancer hosts.",
		Buckets:        metrics.ExponentialBuckets(1, 2, 15),
		StabilityLevel: metrics.ALPHA,
	})
)

// Ours.
var (
	callDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "transplant_ccm_service_ensure_duration_seconds",
		Help:           "Seconds that one EnsureLoadBalancer took, by outcome: ok, error, retry (the provider asked for another try later), elsewhere, fenced.",
		Buckets:        metrics.ExponentialBuckets(0.05, 2, 15),
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	deleteDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "transplant_ccm_service_delete_duration_seconds",
		Help:           "Seconds that one EnsureLoadBalancerDeleted took, by outcome: ok, error, retry, elsewhere, fenced.",
		Buckets:        metrics.ExponentialBuckets(0.05, 2, 15),
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	pendingServices = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "transplant_ccm_service_pending",
		Help:           "Number of Services whose load balancer is not known to be what they ask for: waiting, being worked on, or failing. 0 is idle.",
		StabilityLevel: metrics.ALPHA,
	})
	nodeBatches = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "transplant_ccm_service_node_batches_total",
		Help:           "Number of batches of changed nodes that were given to the load balancers.",
		StabilityLevel: metrics.ALPHA,
	})
	driftChecks = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_service_drift_checks_total",
		Help: "Number of load balancers that were looked at for drift, by result: in_line, gone, not_found, moved or error. not_found: it is gone, and ensuring it has changed nothing. " +
			"moved: it has other addresses.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	statusRepairs = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "transplant_ccm_service_status_repairs_total",
		Help:           "Number of times that a Service's status was written back after another client had changed it.",
		StabilityLevel: metrics.ALPHA,
	})
	adoptedServices = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_service_adopted_total",
		Help: "Number of load balancers that were found on taking over, by what the last leader had noted. in_line: no call is needed. " +
			"members: nodes have changed since. changed: the Service, the program or its configuration has. unknown: there is no note, or it cannot be trusted.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"noted"})
	stateWrites = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "transplant_ccm_service_state_writes_total",
		Help:           "Number of writes of the ConfigMap that tells the next leader which load balancers are in line, by outcome: ok, error.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
	stateKept = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "transplant_ccm_service_state_kept",
		Help: "1 while the next leader can be told which load balancers are in line; 0 when the ConfigMap may not be read or written, " +
			"and it will ensure them all.",
		StabilityLevel: metrics.ALPHA,
	})
)

var registerMetrics = sync.OnceFunc(func() {
	ccmmetrics.RegisterUpstreams(func() { _, _ = upstream.New(nil, nil, nil, nil, "", nil) })
	loadBalancerSyncCount, nodeSyncErrorCount = ccmmetrics.Adopt(
		loadBalancerSyncCount,
	), ccmmetrics.Adopt(
		nodeSyncErrorCount,
	)
	nodeSyncLatency, updateHostLatency = ccmmetrics.Adopt(nodeSyncLatency), ccmmetrics.Adopt(updateHostLatency)
	ccmmetrics.Register(
		callDuration,
		deleteDuration,
		pendingServices,
		nodeBatches,
		driftChecks,
		statusRepairs,
		adoptedServices,
		stateWrites,
		stateKept,
	)
})
