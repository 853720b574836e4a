package azure

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	upstream "sigs.k8s.io/cloud-provider-azure/pkg/provider"
	upstreamconfig "sigs.k8s.io/cloud-provider-azure/pkg/provider/config"

	"github.com/transplant-dev/transplant/provider/azure/client"
	"github.com/transplant-dev/transplant/provider/transport"
)

// loadBalancers are upstream's. Where upstream takes a failure for "there is none", or for "that was all", the failure
// is the answer here.
type loadBalancers struct {
	upstream *lane
}

func newLoadBalancers(reach *client.Client, conf *upstreamconfig.Config) *loadBalancers {
	return &loadBalancers{upstream: newLane(reach, conf)}
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer: the name is the same as the in-tree provider's.
func (b *loadBalancers) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. A load balancer is there as long as its public address is.
func (b *loadBalancers) GetLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
) (status *corev1.LoadBalancerStatus, exists bool, err error) {
	service = withFamily(service)
	call, err := b.upstream.call(ctx, about{}, func(ctx context.Context, made *upstream.Cloud) error {
		status, exists, err = made.GetLoadBalancer(ctx, cluster, service)
		return err
	})
	if err == nil {
		err = call.Failed()
	}
	if err != nil {
		return nil, false, explain(err, "looking for the load balancer of Service %s/%s", service.Namespace, service.Name)
	}
	if status == nil {
		status = &corev1.LoadBalancerStatus{}
	}
	return status, exists, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b *loadBalancers) EnsureLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) (status *corev1.LoadBalancerStatus, err error) {
	service = withFamily(service)
	ctx, correct := transport.Watch(ctx)
	of := about{service: service, nodes: nodes}
	_, err = b.upstream.call(ctx, of, func(ctx context.Context, made *upstream.Cloud) error {
		if status, err = made.EnsureLoadBalancer(ctx, cluster, service, nodes); err == nil && status != nil {
			b.upstream.cluster.made(service, status)
		}
		return err
	})
	if err = correct(err); err != nil {
		return nil, explain(err, "making the load balancer of Service %s/%s", service.Namespace, service.Name)
	}
	if status == nil {
		return nil, fmt.Errorf("making the load balancer of Service %s/%s: it has no status", service.Namespace, service.Name)
	}
	return status, nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (b *loadBalancers) UpdateLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) error {
	service = withFamily(service)
	ctx, correct := transport.Watch(ctx)
	of := about{service: service, nodes: nodes}
	_, err := b.upstream.call(ctx, of, func(ctx context.Context, made *upstream.Cloud) error {
		return made.UpdateLoadBalancer(ctx, cluster, service, nodes)
	})
	return explain(correct(err), "changing the nodes of the load balancer of Service %s/%s", service.Namespace, service.Name)
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer. Upstream takes "forbidden" for "gone".
func (b *loadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	service = withFamily(service)
	ctx, correct := transport.Watch(ctx)
	of := about{service: service, isGone: true}
	call, err := b.upstream.call(ctx, of, func(ctx context.Context, made *upstream.Cloud) error {
		return made.EnsureLoadBalancerDeleted(ctx, cluster, service)
	})
	if err = correct(err); err == nil {
		err = call.Failed()
	}
	return explain(err, "deleting the load balancer of Service %s/%s", service.Namespace, service.Name)
}

// withFamily is a Service with an address family. Upstream makes no backend pool for one without, and rules for it.
func withFamily(service *corev1.Service) *corev1.Service {
	if len(service.Spec.IPFamilies) > 0 {
		return service
	}
	service = service.DeepCopy()
	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	return service
}
