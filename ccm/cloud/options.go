package cloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
)

// What is known of how calls went. The operation is the method's name in package cloudprovider, the outcome one of
// Outcomes.
var (
	callDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "transplant_ccm_cloud_call_duration_seconds",
		StabilityLevel: metrics.ALPHA,
		Help: "Seconds that a call to the cloud provider took, by provider, operation and outcome. Waiting because of the call rate is not in it. " +
			"dns, connection_refused, tls and timeout are connections that failed.",
		Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200},
	}, []string{"provider", "operation", "outcome"})
	callsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_cloud_calls_total", StabilityLevel: metrics.ALPHA,
		Help: "Calls to the cloud provider that ended, by provider, operation and outcome.",
	}, []string{"provider", "operation", "outcome"})
	inFlight = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "transplant_ccm_cloud_calls_in_flight",
		StabilityLevel: metrics.ALPHA,
		Help:           "Calls to the cloud provider that have not returned, those that were given up among them, by provider and operation.",
	}, []string{"provider", "operation"})
	callsAbandoned = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "transplant_ccm_cloud_calls_abandoned",
		StabilityLevel: metrics.ALPHA,
		Help:           "Calls to the cloud provider that were given up because they did not answer in time, and have not returned yet, by provider and operation.",
	}, []string{"provider", "operation"})
	lastSuccess = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "transplant_ccm_cloud_last_success_timestamp_seconds",
		StabilityLevel: metrics.ALPHA,
		Help:           "When the cloud last answered a call (outcome ok or not_found), in seconds since 1970, by provider and operation.",
	}, []string{"provider", "operation"})
	retriesTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_cloud_retries_total", StabilityLevel: metrics.ALPHA,
		Help: "Calls to the cloud provider that were made again because the cloud throttled them, by provider and operation.",
	}, []string{"provider", "operation"})
	budgetWait = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "transplant_ccm_cloud_budget_wait_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Seconds that a call waited because of the call rate, by class.",
		Buckets: []float64{0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300},
	}, []string{"class"})
	budgetRate = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "transplant_ccm_cloud_budget_rate",
		StabilityLevel: metrics.ALPHA,
		Help:           "Call rate, in calls per second, by class; class all is the sum of all. +Inf while nothing is throttled.",
	}, []string{"class"})
	batchSize = metrics.NewHistogram(&metrics.HistogramOpts{
		Name: "transplant_ccm_cloud_batch_size_nodes", StabilityLevel: metrics.ALPHA,
		Help:    "Nodes whose instances one call to the cloud provider described.",
		Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000},
	})
	readsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "transplant_ccm_cloud_instance_reads_total",
		StabilityLevel: metrics.ALPHA,
		Help:           "Instances that controllers asked for, by where the answer came from: cache, shared (a call for another caller), cloud.",
	}, []string{"source"})
)

var registerMetrics = sync.OnceFunc(func() {
	ccmmetrics.Register(
		callDuration,
		callsTotal,
		inFlight,
		callsAbandoned,
		lastSuccess,
		retriesTotal,
		budgetWait,
		budgetRate,
		batchSize,
		readsTotal,
	)
})

// observe notes how a call went.
func (c *caller) observe(operation string, outcome Outcome, took time.Duration) {
	callDuration.WithLabelValues(c.provider, operation, string(outcome)).Observe(took.Seconds())
	callsTotal.WithLabelValues(c.provider, operation, string(outcome)).Inc()
	if outcome == OutcomeOK || outcome == OutcomeNotFound {
		lastSuccess.WithLabelValues(c.provider, operation).SetToCurrentTime()
	}
}

// Options are the settings of a guard. The zero value has the defaults.
type Options struct {
	// CallTimeout is how long a call may take before its caller is told that it did not answer. Default 2 minutes.
	CallTimeout time.Duration
	// LoadBalancerTimeout is CallTimeout for the calls that change load balancers. They may wait for minutes for what
	// they made or deleted. On AWS a security group is deleted only once nothing uses it; the provider waits 10 minutes
	// for that. Default 15 minutes.
	LoadBalancerTimeout time.Duration
	// MaxQPS is the most calls per second that all controllers together make. 0 is as many as the cloud takes without
	// throttling.
	MaxQPS float64
}

// The defaults.
const (
	DefaultCallTimeout         = 2 * time.Minute
	DefaultLoadBalancerTimeout = 15 * time.Minute
)

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{CallTimeout: DefaultCallTimeout, LoadBalancerTimeout: DefaultLoadBalancerTimeout}
}

// AddFlags adds the flags of the settings.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(
		&o.CallTimeout,
		"cloud-call-timeout",
		o.CallTimeout,
		"How long a call to the cloud provider may take. A call that goes on for longer is given up and counts as failed, also if the provider hangs.",
	)
	fs.DurationVar(
		&o.LoadBalancerTimeout,
		"cloud-load-balancer-timeout",
		o.LoadBalancerTimeout,
		"How long a call to the cloud provider that creates, changes or deletes a load balancer may take. Some providers wait in it for minutes.",
	)
	fs.Float64Var(
		&o.MaxQPS,
		"cloud-max-qps",
		o.MaxQPS,
		"The most calls per second to the cloud provider. 0 sets no limit of its own: the rate adapts to what the cloud takes without throttling.",
	)
}

// Validate returns everything that is wrong with the settings.
func (o *Options) Validate() []error {
	var errs []error
	if o.CallTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--cloud-call-timeout is %s, and must be more than 0", o.CallTimeout))
	}
	if o.LoadBalancerTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--cloud-load-balancer-timeout is %s, and must be more than 0", o.LoadBalancerTimeout))
	}
	if !(o.MaxQPS >= 0) { // not a number is refused, too
		errs = append(errs, fmt.Errorf("--cloud-max-qps is %v, and must be 0 or more", o.MaxQPS))
	}
	return errs
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.LoadBalancerTimeout <= 0 {
		o.LoadBalancerTimeout = DefaultLoadBalancerTimeout
	}
	return o
}

// Prober may be implemented next to cloudprovider.Interface. It says whether the cloud answers, with a call that is
// cheap and needs no object.
type Prober interface {
	// Probe returns nil if the cloud answers and takes the credentials.
	Probe(ctx context.Context) error
}

// ErrNothingToProbe is that whether the cloud answers cannot be known yet: the provider is no Prober, and there is no
// node to ask for.
var ErrNothingToProbe = errors.New("there is nothing to ask the cloud for yet")

// Probe asks the cloud something that changes nothing: what the provider's Prober asks, or whether the node has an
// instance. An answer is any that the cloud gave. It may also say: no such instance, invalid request, too many
// requests.
func (s *Guard) Probe(ctx context.Context, node *corev1.Node) error {
	var err error
	ctx = WithClass(ctx, ClassOther)
	prober, isProber := s.provider.(Prober)
	switch {
	case isProber:
		c := s.caller.read(ctx, "Probe", object{kind: "the cloud"}, ClassOther)
		_, err = do(ctx, s.caller, c, errorOnly(prober.Probe))
	case node == nil || !canDescribeInstances(s.provider):
		return ErrNothingToProbe
	default:
		err = s.reader.probe(ctx, node)
	}
	switch outcome := Classify(err); outcome {
	case OutcomeOK, OutcomeNotFound, OutcomeClientError, OutcomeThrottled:
		return nil
	default:
		return fmt.Errorf("probing the cloud, outcome %s: %w", outcome, err)
	}
}

// probe asks whether a node has an instance, alone and once.
func (r *reader) probe(ctx context.Context, node *corev1.Node) error {
	lister, ok := r.provider.(InstancesLister)
	if !ok {
		return r.single(ctx, node, WantExists, false).Err
	}
	nodes := []*corev1.Node{node}
	states, err := do(ctx, r.caller, r.caller.listing(ctx, nodes), func(ctx context.Context) ([]InstanceState, error) {
		return lister.ListInstances(ctx, nodes, WantExists)
	})
	if err == nil && len(states) == 1 {
		err = states[0].Err
	}
	return err
}
