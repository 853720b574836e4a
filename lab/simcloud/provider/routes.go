package provider

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// routes implements cloudprovider.Routes.
type routes struct{ client *client }

// ListRoutes implements cloudprovider.Routes.
func (r routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	answer, err := r.client.call(ctx, api.ListRoutes, api.Request{})
	if err != nil {
		return nil, err
	}
	out := []*cloudprovider.Route{}
	for _, route := range answer.Routes {
		out = append(out, &cloudprovider.Route{
			Name: route.Name, TargetNode: types.NodeName(route.Node), DestinationCIDR: route.CIDR, Blackhole: route.Blackhole,
		})
	}
	return out, nil
}

// CreateRoute implements cloudprovider.Routes.
func (r routes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	_, err := r.client.call(ctx, api.CreateRoute, api.Request{Route: &api.Route{
		Name: cluster + "-" + hint, CIDR: route.DestinationCIDR, Node: string(route.TargetNode),
	}})
	return err
}

// DeleteRoute implements cloudprovider.Routes.
func (r routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	_, err := r.client.call(ctx, api.DeleteRoute, api.Request{Name: route.Name})
	return err
}
