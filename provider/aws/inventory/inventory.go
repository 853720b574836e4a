// Package inventory decides what of an AWS account belongs to a cluster: the instances of its nodes, the routes to
// them, its load balancers. It makes Describe calls only.
package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/provider/aws/pages"
)

// Options say which part of an AWS account belongs to the cluster.
type Options struct {
	// Cluster is the name in the tag kubernetes.io/cluster/<name>; empty means: what the nodes' instances are tagged with.
	Cluster string
	// RouteTable is the id of the table that the route loop writes; empty means: the one that is tagged for the cluster.
	RouteTable string
}

const (
	tagCluster       = "kubernetes.io/cluster/"
	tagClusterLegacy = "KubernetesCluster"
	// How many ids or names go into one call. The classic API takes 20 names for tags, EC2 takes 200 values in a filter,
	// the others take more.
	batch       = 100
	tagsBatch   = 20
	filterBatch = 200
)

// Account reads EC2 and both load balancer APIs. It makes Describe calls only.
type Account struct {
	opts   Options
	region string
	ec2    *ec2.Client
	elb    *elasticloadbalancing.Client
	elbv2  *elasticloadbalancingv2.Client
}

var _ inventory.Source = (*Account)(nil)

// Open makes a source of an account, by the settings behind --cloud=aws: cluster and routeTable.
func Open(ctx context.Context, settings map[string]string) (inventory.Source, error) {
	var opts Options
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		switch key {
		case "cluster":
			opts.Cluster = settings[key]
		case "routeTable":
			opts.RouteTable = settings[key]
		default:
			return nil, fmt.Errorf("there is no setting %q; there are cluster and routeTable", key)
		}
	}
	return openAccount(ctx, opts)
}

// openAccount makes a source from the SDK's ordinary chain of settings: AWS_REGION, AWS_ENDPOINT_URL, AWS_PROFILE,
// AWS_SHARED_CREDENTIALS_FILE, the instance's role. It calls nothing but what that chain calls.
func openAccount(ctx context.Context, opts Options) (*Account, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading the AWS settings: %w", err)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("opening AWS: no region is set; export AWS_REGION")
	}
	return newAccount(cfg, opts), nil
}

func newAccount(cfg aws.Config, opts Options) *Account {
	cfg.APIOptions = append(slices.Clone(cfg.APIOptions), pages.Bound)
	return &Account{
		opts:   opts,
		region: cfg.Region,
		ec2: ec2.NewFromConfig(
			cfg,
		),
		elb:   elasticloadbalancing.NewFromConfig(cfg),
		elbv2: elasticloadbalancingv2.NewFromConfig(cfg),
	}
}

// Inventory reads instances first: their tags and their network tell which routes and load balancers are the cluster's.
func (a *Account) Inventory(ctx context.Context, nodes []v1.Node) *v1.CloudInventory {
	inv := &v1.CloudInventory{Provider: "aws"}
	instances, err := a.instances(ctx, nodes)
	if err != nil {
		inv.Errors = append(inv.Errors, inventory.PartInstances+": "+err.Error())
	}
	inv.Instances = placeInstances(nodes, instances)

	cluster, err := a.cluster(instances)
	if err != nil {
		inv.Errors = append(
			inv.Errors,
			inventory.PartRoutes+": "+err.Error(),
			inventory.PartLoadBalancers+": "+err.Error(),
			inventory.PartSecurityGroups+": "+err.Error(),
		)
		slices.Sort(inv.Errors)
		return inv
	}
	if err := a.countGroups(ctx, cluster, instances, inv.Instances); err != nil {
		inv.Errors = append(inv.Errors, inventory.PartSecurityGroups+": "+err.Error())
	}
	if inv.Routes, err = a.routes(ctx, cluster); err != nil {
		inv.Errors = append(inv.Errors, inventory.PartRoutes+": "+err.Error())
	}
	classic, err := a.classicBalancers(ctx, cluster)
	if err != nil {
		inv.Errors = append(inv.Errors, inventory.PartLoadBalancers+": "+err.Error())
	}
	network, err := a.networkBalancers(ctx, cluster)
	if err != nil {
		inv.Errors = append(inv.Errors, inventory.PartLoadBalancers+": "+err.Error())
	}
	inv.LoadBalancers = append(classic, network...)
	slices.SortFunc(inv.LoadBalancers, func(x, y v1.LoadBalancer) int { return strings.Compare(x.ID, y.ID) })
	slices.Sort(inv.Errors)
	inv.Errors = slices.Compact(inv.Errors)
	return inv
}

// answered is what EC2 said of the instances it was asked for. An id or name that was asked for and is not in found
// does not exist.
type answered struct {
	asked map[string]bool
	found map[string]ec2types.Instance
}

// instances asks for every node's instance: by the id in its providerID, or by its name where it has none, as the
// provider does.
func (a *Account) instances(ctx context.Context, nodes []v1.Node) (answered, error) {
	out := answered{asked: map[string]bool{}, found: map[string]ec2types.Instance{}}
	var ids, names []string
	for _, n := range nodes {
		switch id := cloudprovider.AWSInstanceID(n.ProviderID); {
		case id != "":
			ids = append(ids, id)
		case n.ProviderID == "":
			names = append(names, n.Name)
		}
	}
	slices.Sort(ids)
	for part := range slices.Chunk(slices.Compact(ids), filterBatch) {
		found, err := a.instancesByID(ctx, part)
		if err != nil {
			return out, err
		}
		out.add(part, found)
	}
	slices.Sort(names)
	for part := range slices.Chunk(slices.Compact(names), filterBatch) {
		found, err := a.describeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
			filter("private-dns-name", part...), filter("instance-state-name", "pending", "running", "stopping", "stopped"),
		}})
		if err != nil {
			return out, err
		}
		out.add(part, found)
	}
	if len(out.asked) > 0 && len(out.found) == 0 {
		// Every node's instance gone at once is not what happened: it is another account or region. Saying "not found" here
		// would be read as "will be deleted".
		return answered{}, fmt.Errorf(
			"EC2 in region %s knows none of the nodes' %d instances: the account or region is not the cluster's",
			a.region,
			len(out.asked),
		)
	}
	return out, nil
}

func (a answered) add(asked []string, found []ec2types.Instance) {
	for _, key := range asked {
		a.asked[key] = true
	}
	for _, i := range found {
		a.found[aws.ToString(i.InstanceId)] = i
		if name := aws.ToString(i.PrivateDnsName); a.asked[name] {
			a.found[name] = i
		}
	}
}

// instancesByID asks by id, and by filter when EC2 refuses the whole call for one id that it does not know.
func (a *Account) instancesByID(ctx context.Context, ids []string) ([]ec2types.Instance, error) {
	found, err := a.describeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids})
	if code := apiCode(err); code == "InvalidInstanceID.NotFound" || code == "InvalidInstanceID.Malformed" {
		return a.describeInstances(
			ctx,
			&ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filter("instance-id", ids...)}},
		)
	}
	return found, err
}

func (a *Account) describeInstances(ctx context.Context, in *ec2.DescribeInstancesInput) ([]ec2types.Instance, error) {
	p := ec2.NewDescribeInstancesPaginator(a.ec2, in)
	reservations, err := pages.Read(ctx, "EC2 DescribeInstances", p.HasMorePages, p.NextPage,
		func(page *ec2.DescribeInstancesOutput) []ec2types.Reservation { return page.Reservations })
	if err != nil {
		return nil, translate("ec2:DescribeInstances", err)
	}
	var out []ec2types.Instance
	for _, r := range reservations {
		out = append(out, r.Instances...)
	}
	return out, nil
}

// placeInstances says for each node what EC2 said of its instance. Nodes that were not asked for are left out: they are
// unknown.
func placeInstances(nodes []v1.Node, got answered) []v1.CloudInstance {
	var out []v1.CloudInstance
	for _, n := range nodes {
		key := cloudprovider.AWSInstanceID(n.ProviderID)
		if key == "" {
			key = n.Name
		}
		if !got.asked[key] {
			continue
		}
		instance, found := got.found[key]
		placed := v1.CloudInstance{Node: n.Name, ID: cloudprovider.AWSInstanceID(n.ProviderID), Found: found}
		if found {
			fillInstance(&placed, instance)
		}
		out = append(out, placed)
	}
	slices.SortFunc(out, func(x, y v1.CloudInstance) int { return strings.Compare(x.Node, y.Node) })
	return out
}

// cluster is the name that the cloud knows the cluster by.
func (a *Account) cluster(got answered) (string, error) {
	if a.opts.Cluster != "" {
		return a.opts.Cluster, nil
	}
	names := map[string]bool{}
	for _, i := range got.found {
		for _, t := range i.Tags {
			if name, ok := strings.CutPrefix(aws.ToString(t.Key), tagCluster); ok {
				names[name] = true
			} else if aws.ToString(t.Key) == tagClusterLegacy {
				names[aws.ToString(t.Value)] = true
			}
		}
	}
	switch sorted := slices.Sorted(maps.Keys(names)); len(sorted) {
	case 1:
		return sorted[0], nil
	case 0:
		return "", fmt.Errorf(
			"no instance of a node has a tag %s<name>: name the cluster with --cloud=aws:cluster=NAME",
			tagCluster,
		)
	default:
		return "", fmt.Errorf(
			"the nodes' instances are tagged for several clusters (%s): name one with --cloud=aws:cluster=NAME",
			strings.Join(sorted, ", "),
		)
	}
}

// belongs reports whether tags name the cluster.
func belongs(cluster string, tags map[string]string) bool {
	_, ok := tags[tagCluster+cluster]
	return ok || tags[tagClusterLegacy] == cluster
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: aws.String(name), Values: values}
}
