package gce

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/provider/gce/client"
)

const (
	// routeTag is the description of routes to nodes, by which upstream's provider finds its own.
	routeTag = "k8s-node-route"
	// routePriority is what upstream gives them.
	routePriority = 1000
	// clusterNameLength is how much of the cluster's name is in the name of a route. Another name loses the routes.
	clusterNameLength = 26
	// routeTimeout bounds one change of a route with its operation.
	routeTimeout = 5 * time.Minute
)

// routes are those of the network that lead to nodes, by upstream's names.
type routes struct {
	project   *project
	instances *instances
	nodes     corelisters.NodeLister // nil until SetInformers
}

func routePrefix(cluster string) string { return cluster[:min(len(cluster), clusterNameLength)] + "-" }

// ListRoutes reads the cluster's routes. A list that is not complete is an error: the routes that it lacks would be
// made again.
func (r *routes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	project, err := r.project.networkName(ctx)
	if err != nil {
		return nil, err
	}
	all, err := r.read(ctx, project, cluster)
	if err != nil {
		return nil, err
	}
	out := []*cloudprovider.Route{}
	for _, route := range all {
		out = append(out, &cloudprovider.Route{
			Name: route.Name, TargetNode: r.nodeOf(path.Base(route.NextHopInstance)), DestinationCIDR: route.DestRange,
		})
	}
	return out, nil
}

// read are the routes of a cluster.
func (r *routes) read(ctx context.Context, project, cluster string) ([]*compute.Route, error) {
	all, err := r.readAll(ctx, project)
	return slices.DeleteFunc(all, func(route *compute.Route) bool {
		return !strings.HasPrefix(route.Name, routePrefix(cluster)) ||
			path.Base(route.Network) != path.Base(r.project.conf.NetworkName)
	}), err
}

// readAll are the routes of the project that lead to nodes.
func (r *routes) readAll(ctx context.Context, project string) (all []*compute.Route, err error) {
	call := r.project.compute().Routes.List(project).Filter(fmt.Sprintf("description eq %s", routeTag)).MaxResults(pageSize)
	err = call.Pages(ctx, func(page *compute.RouteList) error {
		for _, route := range page.Items {
			if route.Description == routeTag {
				all = append(all, route)
			}
		}
		return incomplete(page.Warning)
	})
	return all, explain(err, "listing the routes of project %s", project)
}

// nodeOf is the Node of an instance. Most are called by its name; some by its whole DNS name.
func (r *routes) nodeOf(instance string) types.NodeName {
	if r.nodes == nil {
		return types.NodeName(instance)
	}
	if _, err := r.nodes.Get(instance); err == nil {
		return types.NodeName(instance)
	}
	nodes, err := r.nodes.List(everything)
	if err != nil {
		return types.NodeName(instance)
	}
	for _, node := range nodes {
		if strings.HasPrefix(node.Name, instance+".") {
			return types.NodeName(node.Name)
		}
	}
	return types.NodeName(instance)
}

// CreateRoute makes a route to a node's instance. One of that name that leads elsewhere is an error.
func (r *routes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	project, err := r.project.networkName(ctx)
	if err != nil {
		return err
	}
	instance, err := r.target(ctx, route.TargetNode)
	if err != nil {
		return fmt.Errorf("making the route to %s of node %q: %w", route.DestinationCIDR, route.TargetNode, err)
	}
	want := &compute.Route{
		Name: routePrefix(cluster) + hint, DestRange: route.DestinationCIDR, Priority: routePriority, Description: routeTag,
		NextHopInstance: instance.SelfLink, Network: r.project.networkURL(project),
	}
	ctx, cancel := context.WithTimeout(ctx, routeTimeout)
	defer cancel()
	operation, err := r.project.compute().Routes.Insert(project, want).Context(ctx).Do()
	if err == nil {
		err = r.wait(ctx, project, operation)
	}
	if client.IsConflict(err) {
		err = r.compare(ctx, project, want)
	}
	return explain(err, "making the route to %s of node %q", route.DestinationCIDR, route.TargetNode)
}

// compare returns an error for a route that is there already and leads elsewhere.
func (r *routes) compare(ctx context.Context, project string, want *compute.Route) error {
	have, err := r.project.compute().Routes.Get(project, want.Name).Context(ctx).Do()
	if err != nil {
		return err
	}
	if have.DestRange != want.DestRange || path.Base(have.NextHopInstance) != path.Base(want.NextHopInstance) {
		return fmt.Errorf("the route %s is there already and leads %s to %s: delete it if it is no longer needed",
			have.Name, have.DestRange, path.Base(have.NextHopInstance))
	}
	return nil
}

// target is the instance of a Node.
func (r *routes) target(ctx context.Context, name types.NodeName) (*compute.Instance, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(name)}}
	if r.nodes != nil {
		if cached, err := r.nodes.Get(string(name)); err == nil {
			node = cached
		}
	}
	l, err := r.instances.open(ctx)
	if err != nil {
		return nil, err
	}
	instance, err := l.find(ctx, node)
	if err == nil && instance == nil {
		err = cloudprovider.InstanceNotFound
	}
	return instance, err
}

// DeleteRoute deletes a route. One that is gone already is no error.
func (r *routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	project, err := r.project.networkName(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, routeTimeout)
	defer cancel()
	names := []string{route.Name}
	if route.Name == "" {
		names = nil
		all, err := r.read(ctx, project, cluster)
		if err != nil {
			return err
		}
		for _, have := range all {
			if have.DestRange == route.DestinationCIDR {
				names = append(names, have.Name)
			}
		}
	}
	for _, name := range names {
		operation, err := r.project.compute().Routes.Delete(project, name).Context(ctx).Do()
		if err == nil {
			err = r.wait(ctx, project, operation)
		}
		if err != nil && !client.IsNotFound(err) {
			return explain(err, "deleting the route %s to %s", name, route.DestinationCIDR)
		}
	}
	return nil
}

func (r *routes) wait(ctx context.Context, project string, operation *compute.Operation) error {
	for operation.Status != "DONE" {
		if operation.Name == "" {
			return errors.New("the answer to the change has no operation")
		}
		if err := r.project.pause(ctx); err != nil {
			return err
		}
		next, err := r.project.compute().GlobalOperations.Wait(project, operation.Name).Context(ctx).Do()
		if err != nil {
			return err
		}
		operation = next
	}
	return client.OperationError(operation)
}

// NodeRoutes are all routes of the project that lead to nodes, of this cluster and of others.
func (c *Cloud) NodeRoutes(ctx context.Context) ([]*compute.Route, error) {
	project, err := c.project.networkName(ctx)
	if err != nil {
		return nil, err
	}
	return c.routes.readAll(ctx, project)
}
