package provider

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// describe asks for the instances of nodes in one call, and returns them in the order of the nodes, nil for one that
// does not exist.
func (p *Provider) describe(ctx context.Context, nodes ...*corev1.Node) ([]*api.Instance, error) {
	var request api.Request
	for _, node := range nodes {
		if id := node.Spec.ProviderID; id != "" {
			request.IDs = append(request.IDs, id)
		} else {
			request.Names = append(request.Names, node.Name)
		}
	}
	answer, err := p.client.call(ctx, api.DescribeInstances, request)
	if err != nil {
		return nil, err
	}
	byID, byName := map[string]*api.Instance{}, map[string]*api.Instance{}
	for i := range answer.Instances {
		instance := &answer.Instances[i]
		byID[instance.ProviderID], byName[instance.Name] = instance, instance
	}
	out := make([]*api.Instance, len(nodes))
	for i, node := range nodes {
		if node.Spec.ProviderID != "" {
			out[i] = byID[node.Spec.ProviderID]
		} else {
			out[i] = byName[node.Name]
		}
	}
	return out, nil
}

// InstanceExists implements cloudprovider.InstancesV2.
func (p *Provider) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	found, err := p.describe(ctx, node)
	return err == nil && found[0] != nil, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (p *Provider) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	instance, err := p.one(ctx, node)
	return err == nil && instance.Shutdown, err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (p *Provider) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	instance, err := p.one(ctx, node)
	if err != nil {
		return nil, err
	}
	return metadata(instance), nil
}

func (p *Provider) one(ctx context.Context, node *corev1.Node) (*api.Instance, error) {
	found, err := p.describe(ctx, node)
	if err == nil && found[0] == nil {
		err = cloudprovider.InstanceNotFound
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func metadata(instance *api.Instance) *cloudprovider.InstanceMetadata {
	out := &cloudprovider.InstanceMetadata{
		ProviderID:       instance.ProviderID,
		InstanceType:     instance.Type,
		Zone:             instance.Zone,
		Region:           instance.Region,
		AdditionalLabels: instance.Labels,
	}
	for _, a := range instance.Addresses {
		out.NodeAddresses = append(
			out.NodeAddresses,
			corev1.NodeAddress{Type: corev1.NodeAddressType(a.Type), Address: a.Address},
		)
	}
	return out
}

// ListInstances implements cloud.InstancesLister.
func (p Lister) ListInstances(ctx context.Context, nodes []*corev1.Node, _ cloud.Want) ([]cloud.InstanceState, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	found, err := p.describe(ctx, nodes...)
	if err != nil {
		return nil, err
	}
	out := make([]cloud.InstanceState, len(nodes))
	for i, instance := range found {
		if instance != nil {
			out[i] = cloud.InstanceState{Exists: true, Shutdown: instance.Shutdown, Metadata: metadata(instance)}
		}
	}
	return out, nil
}

// MaxInstances implements cloud.InstancesLister.
func (Lister) MaxInstances() int { return api.MaxInstances }
