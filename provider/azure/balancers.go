package azure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
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
	groups   *armnetwork.SecurityGroupsClient
}

func newLoadBalancers(reach *client.Client, conf *upstreamconfig.Config) *loadBalancers {
	return &loadBalancers{upstream: newLane(reach, conf), groups: reach.SecurityGroups}
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
		if err := made.EnsureLoadBalancerDeleted(ctx, cluster, service); err != nil {
			return err
		}
		return b.dropInTreeRules(ctx, service)
	})
	if err = correct(err); err == nil {
		err = call.Failed()
	}
	return explain(err, "deleting the load balancer of Service %s/%s", service.Namespace, service.Name)
}

// dropInTreeRules deletes the security rules that the in-tree provider has made for a Service. Upstream knows rules by
// its own names alone. Those left would let traffic to an address in that may be another one's by then.
func (b *loadBalancers) dropInTreeRules(ctx context.Context, service *corev1.Service) error {
	conf := b.upstream.conf
	if conf.SecurityGroupName == "" {
		return nil
	}
	in := cmp.Or(conf.SecurityGroupResourceGroup, conf.ResourceGroup)
	got, err := b.groups.Get(ctx, in, conf.SecurityGroupName, nil)
	if client.IsNotFound(err) || err == nil && got.Properties == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the security group %s: %w", conf.SecurityGroupName, err)
	}
	prefix := cloudprovider.DefaultLoadBalancerName(service) + "-"
	rules := slices.DeleteFunc(slices.Clone(got.Properties.SecurityRules), func(r *armnetwork.SecurityRule) bool {
		return r != nil && strings.HasPrefix(strings.ToLower(deref(r.Name)), prefix)
	})
	if len(rules) == len(got.Properties.SecurityRules) {
		return nil
	}
	got.Properties.SecurityRules = rules
	poller, err := b.groups.BeginCreateOrUpdate(ctx, in, conf.SecurityGroupName, got.SecurityGroup, nil)
	if err == nil {
		_, err = poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: pollEvery})
	}
	if err != nil {
		return fmt.Errorf("deleting in-tree rules of the security group %s: %w", conf.SecurityGroupName, err)
	}
	return nil
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
