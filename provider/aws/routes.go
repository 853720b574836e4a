package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

// routes lists, makes and deletes the routes of the cluster's route table, as the provider does, with these
// differences:
//
//   - A route to an instance that no Node stands for is listed without a node. The provider's whole list fails for it,
//     or for one whose instance EC2 has forgotten, and then no route is made or deleted any more.
//   - Instances are found by the cache of Nodes. A list is one request, a new route two: the provider's is four.
type routes struct {
	cloud      *Cloud
	configured string // RouteTableID of the cloud config; empty for the one table that is tagged for the cluster

	mu        sync.Mutex
	table     string          // ID of the table, once known
	unchecked map[string]bool // instances whose check of sources and destinations is off
}

var _ cloudprovider.Routes = (*routes)(nil)

// ListRoutes lists what the table has for IPv4: routes to instances, and those to nowhere.
func (r *routes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	table, err := r.find(ctx, cluster)
	if err != nil {
		return nil, err
	}
	nodes, err := r.nodesOf(ctx, table)
	if err != nil {
		return nil, err
	}
	var list []*cloudprovider.Route
	for _, row := range table.Routes {
		cidr, instance := sdk.ToString(row.DestinationCidrBlock), sdk.ToString(row.InstanceId)
		route := &cloudprovider.Route{Name: cluster + "-" + cidr, DestinationCIDR: cidr}
		switch {
		case cidr == "":
		case row.State == ec2types.RouteStateBlackhole:
			route.Blackhole = true
			list = append(list, route)
		case instance != "":
			if route.TargetNode = nodes.nodeFor(instance, cidr); route.TargetNode == "" {
				klog.V(2).Infof("The route to %s leads to instance %s, which no Node stands for", cidr, instance)
			}
			list = append(list, route)
		}
	}
	return list, nil
}

// find reads the cluster's table.
func (r *routes) find(ctx context.Context, cluster string) (*ec2types.RouteTable, error) {
	in := &ec2.DescribeRouteTablesInput{}
	switch {
	case r.configured != "":
		in.Filters = []ec2types.Filter{filter("route-table-id", r.configured)}
	case r.cloud.cluster != "":
		in.Filters = []ec2types.Filter{filter("tag-key", tagCluster+r.cloud.cluster, tagClusterLegacy)}
	}
	tables, err := r.cloud.ec2.DescribeRouteTables(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("reading the route table of cluster %q: %w", cluster, err)
	}
	if r.configured == "" {
		tables = slices.DeleteFunc(tables, func(t ec2types.RouteTable) bool { return !r.cloud.hasClusterTag(t.Tags) })
	}
	if len(tables) != 1 {
		return nil, fmt.Errorf("finding the route table of cluster %q: there are %d, and there must be one: "+
			"tag it kubernetes.io/cluster/%s, or set RouteTableID in the cloud config",
			cluster, len(tables), r.cloud.cluster)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.table = sdk.ToString(tables[0].RouteTableId)
	return &tables[0], nil
}

// tableID is the table's ID: what is known of it, or else read.
func (r *routes) tableID(ctx context.Context, cluster string) (string, error) {
	r.mu.Lock()
	known := r.table
	r.mu.Unlock()
	if known == "" {
		known = r.configured
	}
	if known != "" {
		return known, nil
	}
	table, err := r.find(ctx, cluster)
	if err != nil {
		return "", err
	}
	return sdk.ToString(table.RouteTableId), nil
}

// targets are the Nodes by instance ID.
type targets map[string][]*corev1.Node

// nodeFor is the node that a route leads to; empty for none. Of several with one instance, the one that has the route's
// range.
func (t targets) nodeFor(instance, cidr string) types.NodeName {
	nodes := t[instance]
	for _, node := range nodes {
		if slices.Contains(node.Spec.PodCIDRs, cidr) || node.Spec.PodCIDR == cidr {
			return types.NodeName(node.Name)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return types.NodeName(nodes[0].Name)
}

// nodesOf finds the Nodes that the table's routes lead to. A Node without providerID is found by its name, for which
// EC2 has to be asked. Otherwise its route would look like that of no node and be deleted.
func (r *routes) nodesOf(ctx context.Context, table *ec2types.RouteTable) (targets, error) {
	nodes, err := r.nodes()
	if err != nil {
		return nil, err
	}
	byInstance := targets{}
	var nameless []*corev1.Node
	for _, node := range nodes {
		if node.Spec.ProviderID == "" {
			nameless = append(nameless, node)
		} else if q := r.cloud.queryFor(ctx, node); q.err == nil {
			byInstance[q.id] = append(byInstance[q.id], node)
		}
	}
	strange := slices.ContainsFunc(table.Routes, func(row ec2types.Route) bool {
		id := sdk.ToString(row.InstanceId)
		return id != "" && byInstance[id] == nil
	})
	if !strange || len(nameless) == 0 {
		return byInstance, nil
	}
	questions := make([]asked, len(nameless))
	for i, node := range nameless {
		questions[i] = r.cloud.queryFor(ctx, node)
	}
	found, err := r.cloud.answers(ctx, questions)
	if err != nil {
		return nil, err
	}
	for i, node := range nameless {
		instance, err := found.to(questions[i])
		if errors.Is(err, errLeftOut) { // its route would look like that of no node
			return nil, fmt.Errorf("finding the nodes that routes lead to: %w", err)
		}
		if err == nil && instance != nil {
			id := sdk.ToString(instance.InstanceId)
			byInstance[id] = append(byInstance[id], node)
		}
	}
	return byInstance, nil
}

// nodes are all Nodes, sorted by name. It is an error not to know them yet: every route would look like that of no
// node.
func (r *routes) nodes() ([]*corev1.Node, error) {
	if r.cloud.nodes == nil || !r.cloud.nodes.Informer().HasSynced() {
		return nil, errors.New("finding the nodes that routes lead to: the cache of Nodes is not filled yet")
	}
	nodes, err := r.cloud.nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("finding the nodes that routes lead to: %w", err)
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// CreateRoute lets the node's instance forward packets that are not its own, once, and adds the route.
func (r *routes) CreateRoute(ctx context.Context, cluster, _ string, route *cloudprovider.Route) error {
	instance, err := r.instanceOf(ctx, route.TargetNode)
	if err != nil {
		return fmt.Errorf("making the route to %s of node %q: %w", route.DestinationCIDR, route.TargetNode, err)
	}
	table, err := r.tableID(ctx, cluster)
	if err != nil {
		return err
	}
	if err := r.forward(ctx, instance); err != nil {
		return fmt.Errorf("making the route to %s of node %q: %w", route.DestinationCIDR, route.TargetNode, err)
	}
	in := &ec2.CreateRouteInput{
		RouteTableId:         sdk.String(table),
		DestinationCidrBlock: sdk.String(route.DestinationCIDR),
		InstanceId:           sdk.String(instance),
	}
	_, err = r.cloud.ec2.CreateRoute(ctx, in)
	if code(err) == "RouteAlreadyExists" {
		err = r.replace(ctx, cluster, in)
	}
	if err != nil {
		return fmt.Errorf("making the route to %s of node %q: %w", route.DestinationCIDR, route.TargetNode, r.forget(err))
	}
	return nil
}

// instanceOf is the ID of a node's instance, from the cache of Nodes or else from EC2.
func (r *routes) instanceOf(ctx context.Context, name types.NodeName) (string, error) {
	node := r.cloud.cachedNode(string(name))
	if node == nil {
		node = nodeNamed(string(name))
	}
	q := r.cloud.queryFor(ctx, node)
	if q.err != nil || q.id != "" {
		return q.id, q.err
	}
	found, err := r.cloud.answers(ctx, []asked{q})
	if err != nil {
		return "", err
	}
	instance, err := found.to(q)
	if err == nil && instance == nil {
		err = cloudprovider.InstanceNotFound
	}
	if err != nil {
		return "", err
	}
	return sdk.ToString(instance.InstanceId), nil
}

// forward turns an instance's check of sources and destinations off, which is done once in the life of an instance.
func (r *routes) forward(ctx context.Context, instance string) error {
	r.mu.Lock()
	done := r.unchecked[instance]
	r.mu.Unlock()
	if done {
		return nil
	}
	_, err := r.cloud.ec2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{
		InstanceId: sdk.String(instance), SourceDestCheck: &ec2types.AttributeBooleanValue{Value: sdk.Bool(false)},
	})
	if err != nil {
		return fmt.Errorf("turning off the source/destination check of instance %q: %w", instance, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unchecked == nil || len(r.unchecked) > 100_000 { // instances come and go for as long as a process lives
		r.unchecked = map[string]bool{}
	}
	r.unchecked[instance] = true
	return nil
}

// replace makes a route whose destination the table has already. For the same instance nothing is left to do. A route
// to an instance that is gone is deleted first. A route to another target belongs to another program, also while that
// target is away: a peering connection or a gateway may come back.
func (r *routes) replace(ctx context.Context, cluster string, in *ec2.CreateRouteInput) error {
	table, err := r.find(ctx, cluster)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(table.Routes, func(row ec2types.Route) bool {
		return sdk.ToString(row.DestinationCidrBlock) == *in.DestinationCidrBlock
	})
	if at >= 0 {
		row := table.Routes[at]
		instance := sdk.ToString(row.InstanceId)
		switch {
		case row.State == ec2types.RouteStateBlackhole && instance != "":
			klog.Infof("The route to %s leads nowhere (instance %s); it is taken away for a new one",
				*in.DestinationCidrBlock, instance)
			if err := r.remove(ctx, *in.RouteTableId, *in.DestinationCidrBlock); err != nil {
				return err
			}
		case instance == *in.InstanceId:
			return nil
		default:
			return fmt.Errorf("the table %s has a route to it already, by %s (%s): "+
				"remove that route by hand if it is no longer needed", *in.RouteTableId, targetOf(row), row.State)
		}
	}
	_, err = r.cloud.ec2.CreateRoute(ctx, in)
	return err
}

// targetOf is the ID of what a route leads to.
func targetOf(row ec2types.Route) string {
	ids := []*string{
		row.InstanceId, row.GatewayId, row.NatGatewayId, row.TransitGatewayId, row.VpcPeeringConnectionId,
		row.LocalGatewayId, row.CarrierGatewayId, row.EgressOnlyInternetGatewayId, row.CoreNetworkArn, row.OdbNetworkArn,
		row.NetworkInterfaceId, // an instance has one, too
	}
	for _, id := range ids {
		if sdk.ToString(id) != "" {
			return *id
		}
	}
	return "a target that EC2 does not name"
}

// DeleteRoute takes a route away. One that is gone already is no error.
func (r *routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	table, err := r.tableID(ctx, cluster)
	if err != nil {
		return err
	}
	if err := r.remove(ctx, table, route.DestinationCIDR); err != nil {
		return fmt.Errorf("deleting the route to %s: %w", route.DestinationCIDR, r.forget(err))
	}
	return nil
}

func (r *routes) remove(ctx context.Context, table, cidr string) error {
	_, err := r.cloud.ec2.DeleteRoute(
		ctx,
		&ec2.DeleteRouteInput{RouteTableId: sdk.String(table), DestinationCidrBlock: sdk.String(cidr)},
	)
	if code(err) == "InvalidRoute.NotFound" {
		return nil
	}
	return err
}

// forget lets the table be looked for again when EC2 does not know it any more.
func (r *routes) forget(err error) error {
	if code(err) == "InvalidRouteTableID.NotFound" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.table = ""
	}
	return err
}

// code is the code of EC2's refusal; empty for another error, or none.
func code(err error) string {
	var refusal smithy.APIError
	if errors.As(err, &refusal) {
		return refusal.ErrorCode()
	}
	return ""
}
