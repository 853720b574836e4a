package cloud

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
)

// What is known of how calls went. The operation is the method's name in package cloudprovider, the outcome one of Outcomes.
var (
	callDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "transplant_ccm_cloud_call_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help: "Seconds that a call to the cloud provider took, by provider, operation and outcome. Waiting for the call budget is not in it. " +
			"dns, connection_refused, tls and timeout are connections that failed.",
		Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200},
	}, []string{"provider", "operation", "outcome"})
	callsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_cloud_calls_total", StabilityLevel: metrics.ALPHA,
		Help: "Calls to the cloud provider that ended, by provider, operation and outcome.",
	}, []string{"provider", "operation", "outcome"})
	inFlight = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "transplant_ccm_cloud_calls_in_flight", StabilityLevel: metrics.ALPHA,
		Help: "Calls to the cloud provider that have not returned, those that were given up among them, by provider and operation.",
	}, []string{"provider", "operation"})
	callsAbandoned = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "transplant_ccm_cloud_calls_abandoned", StabilityLevel: metrics.ALPHA,
		Help: "Calls to the cloud provider that were given up because they did not answer in time, and have not returned yet, by provider and operation.",
	}, []string{"provider", "operation"})
	lastSuccess = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "transplant_ccm_cloud_last_success_timestamp_seconds", StabilityLevel: metrics.ALPHA,
		Help: "When the cloud last answered a call (outcome ok or not_found), in seconds since 1970, by provider and operation.",
	}, []string{"provider", "operation"})
	retriesTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_cloud_retries_total", StabilityLevel: metrics.ALPHA,
		Help: "Calls to the cloud provider that were made again because the cloud throttled them, by provider and operation.",
	}, []string{"provider", "operation"})
	budgetWait = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "transplant_ccm_cloud_budget_wait_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Seconds that a call waited for the call budget, by class.",
		Buckets: []float64{0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300},
	}, []string{"class"})
	budgetRate = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "transplant_ccm_cloud_budget_rate", StabilityLevel: metrics.ALPHA,
		Help: "Calls per second that the call budget allows, by class; class all is the sum of all. +Inf while nothing is throttled.",
	}, []string{"class"})
	batchSize = metrics.NewHistogram(&metrics.HistogramOpts{
		Name: "transplant_ccm_cloud_batch_size_nodes", StabilityLevel: metrics.ALPHA,
		Help:    "Nodes whose instances one call to the cloud provider described.",
		Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000},
	})
	readsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_cloud_instance_reads_total", StabilityLevel: metrics.ALPHA,
		Help: "Instances that controllers asked for, by where the answer came from: cache, shared (a call for another caller), cloud.",
	}, []string{"source"})
)

var registerMetrics = sync.OnceFunc(func() {
	ccmmetrics.Register(callDuration, callsTotal, inFlight, callsAbandoned, lastSuccess, retriesTotal, budgetWait, budgetRate, batchSize, readsTotal)
})

// observe notes how a call went.
func (c *caller) observe(operation string, outcome Outcome, took time.Duration) {
	callDuration.WithLabelValues(c.provider, operation, string(outcome)).Observe(took.Seconds())
	callsTotal.WithLabelValues(c.provider, operation, string(outcome)).Inc()
	if outcome == OutcomeOK || outcome == OutcomeNotFound {
		lastSuccess.WithLabelValues(c.provider, operation).SetToCurrentTime()
	}
}
