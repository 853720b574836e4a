package aws

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/provider/aws/client"
)

// balancers are the provider's load balancers. One call is 10 to 20 requests, so that the fence may close in the middle of it; the provider turns
// most errors into text, and whoever called could not tell.
type balancers struct{ cloudprovider.LoadBalancer }

func (b balancers) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	ctx, correct := client.Watch(ctx)
	status, err := b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
	return status, correct(err)
}

func (b balancers) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	ctx, correct := client.Watch(ctx)
	return correct(b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes))
}

func (b balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	ctx, correct := client.Watch(ctx)
	return correct(b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service))
}
