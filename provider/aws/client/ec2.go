package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"

	"github.com/transplant-dev/transplant/provider/aws/pages"
)

// pageSize is the most that one page of DescribeInstances has.
const pageSize = 1000

type option = func(*ec2.Options)

// computing is EC2 as the provider wants it: lists come whole. Errors keep the SDK's beneath them.
type computing struct{ *ec2.Client }

var _ iface.EC2 = (*computing)(nil)

// IncompleteError is that a successful answer of EC2 lacks instances that were asked for by ID. The provider reads that
// as their end, and removes them from load balancers. EC2 refuses requests with IDs that it does not know, so that it
// says nothing about them.
type IncompleteError struct{ Missing []string }

func (e *IncompleteError) Error() string {
	some, more := e.Missing, ""
	if len(some) > 5 {
		some, more = some[:5], fmt.Sprintf(" and %d others", len(e.Missing)-5)
	}
	return fmt.Sprintf(
		"EC2 has left instances out of its answer that it was asked for: %s%s",
		strings.Join(some, ", "),
		more,
	)
}

type listingKey struct{}

// CheckListings returns a context in whose calls each list of all instances is checked before the provider has it.
func CheckListings(ctx context.Context, check func(context.Context, []ec2types.Instance) error) context.Context {
	return context.WithValue(ctx, listingKey{}, check)
}

// checkInstances returns why an answer cannot be relied on.
func checkInstances(ctx context.Context, in *ec2.DescribeInstancesInput, answer []ec2types.Instance) error {
	if check, ok := ctx.Value(listingKey{}).(func(context.Context, []ec2types.Instance) error); ok &&
		len(in.InstanceIds)+len(in.Filters) == 0 {
		return check(ctx, answer)
	}
	if len(in.Filters) > 0 {
		return nil
	}
	have := map[string]bool{}
	for i := range answer {
		have[aws.ToString(answer[i].InstanceId)] = true
	}
	if missing := slices.DeleteFunc(
		slices.Clone(in.InstanceIds),
		func(id string) bool { return have[id] },
	); len(
		missing,
	) > 0 {
		return &IncompleteError{Missing: missing}
	}
	return nil
}

// DescribeInstances describes the instances that are named, or chosen by filters, or all. With an IncompleteError come
// those that the answer has.
func (c *computing) DescribeInstances(
	ctx context.Context,
	in *ec2.DescribeInstancesInput,
	_ ...option,
) (all []ec2types.Instance, err error) {
	defer observe("describe_instance")(&err)
	asked := *in
	if asked.MaxResults == nil && len(asked.InstanceIds) == 0 {
		asked.MaxResults = aws.Int32(pageSize) // EC2 throttles calls without pages; it refuses pages together with ids
	}
	p := ec2.NewDescribeInstancesPaginator(c.Client, &asked)
	all, err = pages.Read(
		ctx,
		"EC2 DescribeInstances",
		p.HasMorePages,
		p.NextPage,
		func(page *ec2.DescribeInstancesOutput) (instances []ec2types.Instance) {
			for _, r := range page.Reservations {
				instances = append(instances, r.Instances...)
			}
			return instances
		},
	)
	if err == nil {
		err = checkInstances(ctx, in, all)
	}
	return all, during("listing instances", err)
}

// DescribeInstanceTopology describes where in the network the named instances are.
func (c *computing) DescribeInstanceTopology(
	ctx context.Context,
	in *ec2.DescribeInstanceTopologyInput,
	_ ...option,
) ([]ec2types.InstanceTopology, error) {
	p := ec2.NewDescribeInstanceTopologyPaginator(c.Client, in)
	return pages.Read(
		ctx,
		"EC2 DescribeInstanceTopology",
		p.HasMorePages,
		p.NextPage,
		func(page *ec2.DescribeInstanceTopologyOutput) []ec2types.InstanceTopology { return page.Instances },
	)
}

// DescribeSecurityGroups lists security groups.
func (c *computing) DescribeSecurityGroups(
	ctx context.Context,
	in *ec2.DescribeSecurityGroupsInput,
	_ ...option,
) (all []ec2types.SecurityGroup, err error) {
	defer observe("describe_security_groups")(&err)
	p := ec2.NewDescribeSecurityGroupsPaginator(c.Client, in)
	all, err = pages.Read(
		ctx,
		"EC2 DescribeSecurityGroups",
		p.HasMorePages,
		p.NextPage,
		func(page *ec2.DescribeSecurityGroupsOutput) []ec2types.SecurityGroup { return page.SecurityGroups },
	)
	return all, during("listing security groups", err)
}

// DescribeRouteTables lists route tables.
func (c *computing) DescribeRouteTables(
	ctx context.Context,
	in *ec2.DescribeRouteTablesInput,
	_ ...option,
) (all []ec2types.RouteTable, err error) {
	defer observe("describe_route_tables")(&err)
	p := ec2.NewDescribeRouteTablesPaginator(c.Client, in)
	all, err = pages.Read(
		ctx,
		"EC2 DescribeRouteTables",
		p.HasMorePages,
		p.NextPage,
		func(page *ec2.DescribeRouteTablesOutput) []ec2types.RouteTable { return page.RouteTables },
	)
	return all, during("listing route tables", err)
}

// DescribeSubnets lists subnets.
func (c *computing) DescribeSubnets(
	ctx context.Context,
	in *ec2.DescribeSubnetsInput,
	_ ...option,
) ([]ec2types.Subnet, error) {
	p := ec2.NewDescribeSubnetsPaginator(c.Client, in)
	all, err := pages.Read(
		ctx,
		"EC2 DescribeSubnets",
		p.HasMorePages,
		p.NextPage,
		func(page *ec2.DescribeSubnetsOutput) []ec2types.Subnet { return page.Subnets },
	)
	return all, during("listing subnets", err)
}

// DescribeAvailabilityZones lists the zones of the region, which come in one page.
func (c *computing) DescribeAvailabilityZones(
	ctx context.Context,
	in *ec2.DescribeAvailabilityZonesInput,
	_ ...option,
) ([]ec2types.AvailabilityZone, error) {
	out, err := c.Client.DescribeAvailabilityZones(ctx, in)
	if err != nil {
		return nil, during("listing availability zones", err)
	}
	return out.AvailabilityZones, nil
}

// DescribeNetworkInterfaces is the SDK's, metered.
func (c *computing) DescribeNetworkInterfaces(
	ctx context.Context,
	in *ec2.DescribeNetworkInterfacesInput,
	options ...option,
) (
	out *ec2.DescribeNetworkInterfacesOutput, err error,
) {
	defer observe("describe_network_interfaces")(&err)
	return c.Client.DescribeNetworkInterfaces(ctx, in, options...)
}

// CreateTags is the SDK's, metered.
func (c *computing) CreateTags(
	ctx context.Context,
	in *ec2.CreateTagsInput,
	options ...option,
) (out *ec2.CreateTagsOutput, err error) {
	defer observe("create_tags")(&err)
	return c.Client.CreateTags(ctx, in, options...)
}

// DeleteTags is the SDK's, metered.
func (c *computing) DeleteTags(
	ctx context.Context,
	in *ec2.DeleteTagsInput,
	options ...option,
) (out *ec2.DeleteTagsOutput, err error) {
	defer observe("delete_tags")(&err)
	return c.Client.DeleteTags(ctx, in, options...)
}

func during(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
