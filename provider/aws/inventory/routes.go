package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/provider/aws/pages"
)

// routes are the entries of the cluster's route table that lead to an instance or an interface; those to gateways
// belong to no loop.
func (a *Account) routes(ctx context.Context, cluster string) ([]v1.Route, error) {
	tables, err := a.routeTables(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var out []v1.Route
	for _, t := range tables {
		for _, r := range t.Routes {
			target := aws.ToString(r.InstanceId)
			if target == "" {
				target = aws.ToString(r.NetworkInterfaceId)
			}
			if target == "" {
				continue
			}
			cidr := aws.ToString(r.DestinationCidrBlock)
			if cidr == "" {
				cidr = aws.ToString(r.DestinationIpv6CidrBlock)
			}
			out = append(out, v1.Route{
				Table:  aws.ToString(t.RouteTableId),
				CIDR:   cidr,
				Target: target,
				State:  string(r.State),
			})
		}
	}
	slices.SortFunc(out, func(x, y v1.Route) int {
		return strings.Compare(x.Table+" "+x.CIDR+" "+x.Target, y.Table+" "+y.CIDR+" "+y.Target)
	})
	return out, nil
}

// routeTables finds the table the way the provider does: by the configured id, or by the cluster's tag.
func (a *Account) routeTables(ctx context.Context, cluster string) ([]ec2types.RouteTable, error) {
	in := &ec2.DescribeRouteTablesInput{}
	if a.opts.RouteTable != "" {
		in.RouteTableIds = []string{a.opts.RouteTable}
	}
	p := ec2.NewDescribeRouteTablesPaginator(a.ec2, in)
	tables, err := pages.Read(ctx, "EC2 DescribeRouteTables", p.HasMorePages, p.NextPage,
		func(page *ec2.DescribeRouteTablesOutput) []ec2types.RouteTable { return page.RouteTables })
	if err != nil {
		return nil, translate("ec2:DescribeRouteTables", err)
	}
	if a.opts.RouteTable != "" {
		return tables, nil
	}
	tables = slices.DeleteFunc(tables, func(t ec2types.RouteTable) bool {
		return !belongs(cluster, tagsOf(t.Tags))
	})
	if len(tables) == 0 {
		return nil, fmt.Errorf("no route table is tagged %s%s: name it with --cloud=aws:routeTable=ID", tagCluster, cluster)
	}
	return tables, nil
}
