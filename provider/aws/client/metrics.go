package client

import (
	"context"
	"errors"
	"strconv"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// The provider's own metrics, which only its own clients count: dashboards read them. Names, labels, buckets and help
// must be the provider's, or the registry takes them for others.
var (
	providerDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "cloudprovider_aws_api_request_duration_seconds",
		Help:           "Latency of AWS API calls",
		StabilityLevel: metrics.ALPHA,
	}, []string{"request"})
	providerErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "cloudprovider_aws_api_request_errors", Help: "AWS API errors", StabilityLevel: metrics.ALPHA,
	}, []string{"request"})
	providerThrottles = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "cloudprovider_aws_api_throttled_requests_total",
		Help:           "AWS API throttled requests",
		StabilityLevel: metrics.ALPHA,
	}, []string{"operation_name"})
	providerStatus = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "cloudprovider_aws_api_response_status_total",
		Help:           "AWS API error response status code counts (terminal, after retries are exhausted)",
		StabilityLevel: metrics.ALPHA,
	}, []string{"service", "operation", "status_code"})
)

// Our own: every attempt of every operation, with its outcome, so that connections which fail are seen.
var (
	requests = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "transplant_ccm_aws_requests_total",
		Help: "Requests to AWS, every attempt counted, by service, operation and outcome. An outcome that is no answer of AWS tells how the connection failed " +
			"(dns, connection_refused, tls, timeout). Requests that the fence refused are not sent and not counted.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"service", "operation", "outcome"})
	duration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "transplant_ccm_aws_request_duration_seconds",
		Help:           "Seconds that one attempt of a request to AWS took, whatever its outcome, by service and operation.",
		Buckets:        []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		StabilityLevel: metrics.ALPHA,
	}, []string{"service", "operation"})
)

// The metrics are there as soon as this package is linked, as the provider's are, whose package is initialised first.
func init() {
	providerDuration = registered(providerDuration)
	providerErrors = registered(providerErrors)
	providerThrottles = registered(providerThrottles)
	providerStatus = registered(providerStatus)
	requests = registered(requests)
	duration = registered(duration)
}

// registered registers a collector, or returns the one that is registered by its name. The provider registers its own
// when it is linked, and counts in a second one would never be served.
func registered[C metrics.Registerable](collector C) C {
	err := legacyregistry.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	if err != nil {
		klog.ErrorS(err, "A metric is not served", "metric", collector.FQName())
	}
	return collector
}

// observe measures one call in the provider's metrics: the time of those that succeed, the number of the others.
func observe(request string) func(*error) {
	start := time.Now()
	return func(err *error) {
		if *err != nil {
			providerErrors.WithLabelValues(request).Inc()
			return
		}
		providerDuration.WithLabelValues(request).Observe(time.Since(start).Seconds())
	}
}

// countTerminal counts, in the provider's metrics, how an operation failed after all its attempts.
func countTerminal(stack *middleware.Stack) error {
	count := func(
		ctx context.Context,
		in middleware.FinalizeInput,
		next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleFinalize(ctx, in)
		operation := awsmiddleware.GetOperationName(ctx)
		if answer := (*awshttp.ResponseError)(nil); errors.As(err, &answer) && answer.HTTPStatusCode() >= 400 {
			providerStatus.WithLabelValues(awsmiddleware.GetServiceID(ctx), operation, strconv.Itoa(answer.HTTPStatusCode())).
				Inc()
		}
		if refusal := smithy.APIError(nil); errors.As(err, &refusal) && refusal.ErrorCode() == "RequestLimitExceeded" {
			providerThrottles.WithLabelValues(operation).Inc()
		}
		return out, metadata, err
	}
	return stack.Finalize.Insert(
		middleware.FinalizeMiddlewareFunc("transplant/terminal", count),
		"Retry",
		middleware.Before,
	)
}

// countAttempt counts and measures every request that is sent. It logs no parameters and no headers: those of the first
// may be private, and those of the second are secrets.
func countAttempt() middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc(
		"transplant/attempt",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			middleware.FinalizeOutput, middleware.Metadata, error,
		) {
			service, operation := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)
			start := time.Now()
			out, metadata, err := next.HandleFinalize(ctx, in)
			took, outcome := time.Since(start), string(cloud.Classify(err))
			requests.WithLabelValues(service, operation, outcome).Inc()
			duration.WithLabelValues(service, operation).Observe(took.Seconds())
			if log := klog.V(4); log.Enabled() {
				id, _ := awsmiddleware.GetRequestIDMetadata(metadata)
				log.InfoS(
					"Request to AWS",
					"service",
					service,
					"operation",
					operation,
					"outcome",
					outcome,
					"took",
					took.Round(time.Millisecond),
					"requestID",
					id,
				)
			}
			return out, metadata, err
		},
	)
}
