package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/component-base/metrics"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/progress"
)

// cloudClient calls the provider. A provider may panic, change the Service that it is given, and return nothing without
// an error.
type cloudClient struct {
	provider cloudprovider.LoadBalancer
	cluster  string
	tracker  *progress.Tracker
}

// track follows one call for a Service, since only in that a provider may hang. A Service that waits because of the
// call rate takes long as well, and so does one that needs several calls.
func (b cloudClient) track(ctx context.Context, service *corev1.Service) (context.Context, func()) {
	what := "service " + keyOf(service)
	ctx = cloud.WithClass(ctx, cloud.ClassLoadBalancer)
	return cloud.Track(ctx, func() func() { return b.tracker.Start(what) })
}

// errNoStatus is what a provider's status of nil is taken for. To go on with an empty one would remove the address from
// a Service that has one.
var errNoStatus = errors.New("service status returned by EnsureLoadBalancer is nil")

func (b cloudClient) get(
	ctx context.Context,
	service *corev1.Service,
) (status *corev1.LoadBalancerStatus, exists bool, err error) {
	ctx, end := b.track(ctx, service)
	defer end()
	defer recovered("GetLoadBalancer", &err)
	status, exists, err = b.provider.GetLoadBalancer(ctx, b.cluster, service.DeepCopy())
	if err == nil && exists && status == nil {
		status = &corev1.LoadBalancerStatus{}
	}
	return status, exists, err
}

func (b cloudClient) ensure(
	ctx context.Context,
	service *corev1.Service,
	nodes []*corev1.Node,
) (status *corev1.LoadBalancerStatus, err error) {
	defer timed(callDuration, time.Now(), &err)
	ctx, end := b.track(ctx, service)
	defer end()
	defer recovered("EnsureLoadBalancer", &err)
	status, err = b.provider.EnsureLoadBalancer(ctx, b.cluster, service.DeepCopy(), nodes)
	if err == nil && status == nil {
		return nil, errNoStatus
	}
	return status.DeepCopy(), err
}

func (b cloudClient) update(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) (err error) {
	loadBalancerSyncCount.Inc()
	begun := time.Now()
	defer func() { updateHostLatency.Observe(time.Since(begun).Seconds()) }()
	ctx, end := b.track(ctx, service)
	defer end()
	defer recovered("UpdateLoadBalancer", &err)
	return b.provider.UpdateLoadBalancer(ctx, b.cluster, service.DeepCopy(), nodes)
}

// remove deletes a load balancer. It is no error that another controller implements it: there is nothing for us to
// delete.
func (b cloudClient) remove(ctx context.Context, service *corev1.Service) error {
	if err := b.callDelete(ctx, service); !isElsewhere(err) {
		return err
	}
	return nil
}

func (b cloudClient) callDelete(ctx context.Context, service *corev1.Service) (err error) {
	defer timed(deleteDuration, time.Now(), &err)
	ctx, end := b.track(ctx, service)
	defer end()
	defer recovered("EnsureLoadBalancerDeleted", &err)
	return b.provider.EnsureLoadBalancerDeleted(ctx, b.cluster, service.DeepCopy())
}

// recovered makes a panic an error. One Service that a provider cannot handle must not end the process, and so the work
// on all others.
func recovered(call string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the cloud provider panicked in %s: %v", call, p)
	}
}

func timed(histogram *metrics.HistogramVec, begun time.Time, err *error) {
	histogram.WithLabelValues(outcome(*err)).Observe(time.Since(begun).Seconds())
}

func outcome(err error) string {
	var retry *api.RetryError
	switch {
	case err == nil:
		return "ok"
	case isElsewhere(err):
		return "elsewhere"
	case errors.Is(err, election.ErrFenced):
		return "fenced"
	case errors.As(err, &retry):
		return "retry"
	}
	return "error"
}

// isElsewhere reports whether the provider says that another controller implements a load balancer.
func isElsewhere(err error) bool { return errors.Is(err, cloudprovider.ImplementedElsewhere) }

// isFinal reports whether an error says that this process may no longer act. A provider may have made an error of its
// own of its context's end.
func isFinal(ctx context.Context, err error) bool {
	return errors.Is(err, election.ErrFenced) || ctx.Err() != nil && errors.Is(context.Cause(ctx), election.ErrFenced)
}
