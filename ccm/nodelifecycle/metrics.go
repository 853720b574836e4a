package nodelifecycle

import (
	"context"
	"errors"
	"sync"

	cloudprovider "k8s.io/cloud-provider"
	upstream "k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/component-base/metrics"

	"github.com/transplant-dev/transplant/ccm/cloud"
	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
)

const subsystem = "cloud_node_lifecycle_controller"

// The values of the label "operation". Upstream has instance_metadata too, for nodes without a provider ID; here that
// is part of asking whether the instance exists.
const (
	instanceExists   = "instance_exists"
	instanceShutdown = "instance_shutdown"
	instanceMetadata = "instance_metadata"
)

var (
	monitorDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      subsystem,
		Name:           "monitor_nodes_duration_seconds",
		Help:           "A metric measuring the duration in seconds of a single MonitorNodes loop execution.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15),
		StabilityLevel: metrics.ALPHA,
	})
	providerCalls = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem,
		Name:      "cloud_provider_calls_total",
		// Upstream's text: with another one its collector could not be adopted. What is counted are answers about a node, of
		// which one call may give many; transplant_ccm_cloud_calls_total counts calls.
		Help:           "The total number of cloud provider API calls, labeled by operation and result.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"operation", "result"})
	kept = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "transplant_ccm_node_deletions_delayed",
		Help:           "Number of nodes without an instance that are kept because of --node-deletion-grace-after-takeover.",
		StabilityLevel: metrics.ALPHA,
	})
	held = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "transplant_ccm_node_deletions_held",
		Help: "Number of nodes without an instance that are not deleted, labeled by reason. limit: there are more than may be deleted (see " +
			"--node-deletion-limit). terminated: the cloud calls more of them terminated than may be deleted (see " +
			"--node-deletion-limit-terminated-percent). no_instance: the cloud finds no instance at all. " +
			"own_instance: it does not find the manager's own, or calls it terminated. restart: the manager took over from " +
			"another of its kind within --node-deletion-window, and may not delete as many yet.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	holds = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_node_deletion_holds_total",
		Help: "Number of times that the manager has begun to hold deletions of nodes, labeled by reason as " +
			"transplant_ccm_node_deletions_held.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	deletions = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_node_deletions_total",
		Help: "Number of attempts to delete a node whose instance is gone, labeled by result: success, error or other. other: the node had become Ready, " +
			"was replaced or had got another provider ID by then.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
)

var registration sync.Once

func registerMetrics() {
	registration.Do(func() {
		ccmmetrics.RegisterUpstreams(func() { _, _ = upstream.NewCloudNodeLifecycleController(nil, nil, nil, 0, 0) })
		monitorDuration, providerCalls = ccmmetrics.Adopt(monitorDuration), ccmmetrics.Adopt(providerCalls)
		ccmmetrics.Register(kept, held, holds, deletions)
	})
}

// observe counts an answer as upstream counts its calls. These are the one for a provider ID, whether the instance
// exists, and, if it does and that was asked, whether it is shut down. An error is that of the question that it
// answers.
func observe(state cloud.InstanceState, want cloud.Want) {
	atShutdown, atID := cloud.FailedAt(state.Err)
	missing := state.Err == nil && want&cloud.WantExists != 0 && !state.Exists
	if state.IDAsked {
		result := resultOf(state.Err, atID)
		if state.IDNotFound {
			result = notFound
		}
		providerCalls.WithLabelValues(instanceMetadata, result).Inc()
	}
	if atID || state.IDNotFound {
		return
	}
	exists := resultOf(state.Err, !atShutdown)
	if missing {
		exists = notFound
	}
	if want&cloud.WantExists != 0 {
		providerCalls.WithLabelValues(instanceExists, exists).Inc()
	}
	if want&cloud.WantShutdown == 0 || want&cloud.WantExists != 0 && exists != succeeded {
		return
	}
	result := resultOf(state.Err, true)
	if state.ShutdownUnknown {
		result = notImplemented
	}
	providerCalls.WithLabelValues(instanceShutdown, result).Inc()
}

const (
	succeeded      = "success"
	notFound       = "instance_not_found"
	notImplemented = "not_implemented"
)

// resultOf is what a call returned, if it was the call that the error is of.
func resultOf(err error, here bool) string {
	switch {
	case !here || err == nil:
		return succeeded
	case errors.Is(err, cloudprovider.NotImplemented):
		return notImplemented
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return notFound
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "error"
}
