package aws

import (
	"context"
	"fmt"
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/provider/aws/client"
	"github.com/transplant-dev/transplant/provider/aws/leftover"
	"github.com/transplant-dev/transplant/provider/transport"
)

// loadBalancers are the provider's load balancers. One call is 10 to 20 requests, so the fence may close in the middle
// of it. The provider turns most errors into text, and the caller could not recognise them.
//
// It removes nodes from load balancers whose instances are not in its list of all instances. An answer that is not
// complete, or one from another account, would empty them all: the list is checked first.
type loadBalancers struct {
	cloudprovider.LoadBalancer
	cloud *Cloud
}

func (b loadBalancers) EnsureLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	ctx, correct := transport.Watch(b.checked(ctx, nodes))
	status, err := b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
	return status, correct(err)
}

func (b loadBalancers) UpdateLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
	nodes []*corev1.Node,
) error {
	ctx, correct := transport.Watch(b.checked(ctx, nodes))
	return correct(b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes))
}

// GetLoadBalancer returns the status of a load balancer, and whether there is one. For a Service that is leaving there
// always is one. The provider does not find a load balancer that is gone, and the controller would remove none of its
// other parts. Removing changes nothing where nothing is left.
func (b loadBalancers) GetLoadBalancer(
	ctx context.Context,
	cluster string,
	service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	status, exists, err := b.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
	isLeaving := service.DeletionTimestamp != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer
	if err == nil && !exists && isLeaving && b.cloud.cluster != "" {
		return &corev1.LoadBalancerStatus{}, true, nil
	}
	return status, exists, err
}

// EnsureLoadBalancerDeleted deletes a load balancer and what belongs to it. The provider takes a load balancer that it
// does not find for one that is deleted, with all its parts. A call that ended in its middle, with a lease for
// instance, would leave security groups, target groups and rules behind for ever.
func (b loadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	ctx, correct := transport.Watch(ctx)
	err := b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
	if err == nil && b.cloud.cluster != "" {
		err = b.leftovers().Remove(ctx, b.GetLoadBalancerName(ctx, cluster, service), service)
	}
	return correct(err)
}

func (b loadBalancers) leftovers() leftover.Remover {
	return leftover.Remover{EC2: b.cloud.ec2, ELBV2: b.cloud.elbv2, Cluster: b.cloud.cluster}
}

// checked returns a context in which a list of instances is an error that lacks some of nodes though they exist, or all
// of them.
func (b loadBalancers) checked(ctx context.Context, nodes []*corev1.Node) context.Context {
	return client.CheckListings(ctx, func(ctx context.Context, listed []ec2types.Instance) error {
		var ids []string // only for a list: most calls find the instances that were listed before
		for _, node := range nodes {
			if node.Spec.ProviderID == "" {
				continue // the provider leaves it out of load balancers
			}
			if q := b.cloud.queryFor(ctx, node); q.err == nil && usualID.MatchString(q.id) {
				ids = append(ids, q.id)
			}
		}
		return b.cloud.checkListing(ctx, ids, listed)
	})
}

// checkListing asks for the instances by ID that a list of all lacks.
func (c *Cloud) checkListing(ctx context.Context, ids []string, listed []ec2types.Instance) error {
	found := newAnswers()
	found.add(listed)
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return found.byID[id] != nil })
	for part := range slices.Chunk(missing, idsPerRequest) {
		if err := c.byID(ctx, part, &found); err != nil {
			return err
		}
	}
	for _, id := range missing {
		if instance := found.byID[id]; instance != nil || !found.gone[id] {
			return fmt.Errorf("listing instances: EC2's list lacks %s, but EC2 does not say that it does not exist; "+
				"load balancers keep their members, and it will be asked again", id)
		}
	}
	if len(ids) > 1 && len(missing) == len(ids) {
		return fmt.Errorf(
			"listing instances: EC2 knows none of the instances of %d nodes: load balancers keep their members. "+
				"Check the account and the region of the credentials",
			len(ids),
		)
	}
	return nil
}
