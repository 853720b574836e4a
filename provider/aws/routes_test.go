package aws

import (
	"context"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	cloudprovider "k8s.io/cloud-provider"
)

// routed is an account with one route table.
type routed struct {
	*account
	rows []ec2types.Route
}

func (r *routed) DescribeRouteTables(
	context.Context,
	*ec2.DescribeRouteTablesInput,
	...func(*ec2.Options),
) ([]ec2types.RouteTable, error) {
	return []ec2types.RouteTable{{RouteTableId: sdk.String("rtb-1"), Routes: slices.Clone(r.rows)}}, nil
}

func (r *routed) CreateRoute(
	_ context.Context,
	in *ec2.CreateRouteInput,
	_ ...func(*ec2.Options),
) (*ec2.CreateRouteOutput, error) {
	if slices.ContainsFunc(r.rows, func(row ec2types.Route) bool { return *row.DestinationCidrBlock == *in.DestinationCidrBlock }) {
		return nil, refuse("RouteAlreadyExists", "The route identified by %s already exists.", *in.DestinationCidrBlock)
	}
	r.rows = append(r.rows, ec2types.Route{
		DestinationCidrBlock: in.DestinationCidrBlock, InstanceId: in.InstanceId, State: ec2types.RouteStateActive,
	})
	return &ec2.CreateRouteOutput{}, nil
}

func (r *routed) DeleteRoute(
	_ context.Context,
	in *ec2.DeleteRouteInput,
	_ ...func(*ec2.Options),
) (*ec2.DeleteRouteOutput, error) {
	r.rows = slices.DeleteFunc(r.rows, func(row ec2types.Route) bool { return *row.DestinationCidrBlock == *in.DestinationCidrBlock })
	return &ec2.DeleteRouteOutput{}, nil
}

func (r *routed) ModifyInstanceAttribute(
	context.Context,
	*ec2.ModifyInstanceAttributeInput,
	...func(*ec2.Options),
) (*ec2.ModifyInstanceAttributeOutput, error) {
	return &ec2.ModifyInstanceAttributeOutput{}, nil
}

// TestOnlyARouteThatLedToAnInstanceIsReplaced: a kubelet that registers its Node chooses its podCIDRs, and so the destination. A
// peering connection or a gateway that is away for a time has its routes again when it is back.
func TestOnlyARouteThatLedToAnInstanceIsReplaced(t *testing.T) {
	const cidr, old, own = "10.120.0.0/24", "i-00000000000000006", "i-00000000000000001"
	to := func(change func(*ec2types.Route)) ec2types.Route {
		row := ec2types.Route{DestinationCidrBlock: sdk.String(cidr), State: ec2types.RouteStateBlackhole}
		change(&row)
		return row
	}
	for target, test := range map[string]struct {
		row      ec2types.Route
		replaced bool
	}{
		old: {to(func(r *ec2types.Route) { r.InstanceId, r.NetworkInterfaceId = sdk.String(old), sdk.String("eni-6") }), true},
		own: {to(func(r *ec2types.Route) { r.InstanceId, r.State = sdk.String(own), ec2types.RouteStateActive }), true},
		"i-00000000000000002": {to(func(r *ec2types.Route) {
			r.InstanceId, r.State = sdk.String("i-00000000000000002"), ec2types.RouteStateActive
		}), false},
		"pcx-1":        {to(func(r *ec2types.Route) { r.VpcPeeringConnectionId = sdk.String("pcx-1") }), false},
		"tgw-1":        {to(func(r *ec2types.Route) { r.TransitGatewayId = sdk.String("tgw-1") }), false},
		"nat-1":        {to(func(r *ec2types.Route) { r.NatGatewayId = sdk.String("nat-1") }), false},
		"vgw-1":        {to(func(r *ec2types.Route) { r.GatewayId = sdk.String("vgw-1") }), false},
		"eni-1":        {to(func(r *ec2types.Route) { r.NetworkInterfaceId = sdk.String("eni-1") }), false},
		"lgw-1":        {to(func(r *ec2types.Route) { r.LocalGatewayId = sdk.String("lgw-1") }), false},
		"cagw-1":       {to(func(r *ec2types.Route) { r.CarrierGatewayId = sdk.String("cagw-1") }), false},
		"arn:aws:core": {to(func(r *ec2types.Route) { r.CoreNetworkArn = sdk.String("arn:aws:core") }), false},
		"arn:aws:odb":  {to(func(r *ec2types.Route) { r.OdbNetworkArn = sdk.String("arn:aws:odb") }), false},
		"pcx-2": {to(func(r *ec2types.Route) {
			r.VpcPeeringConnectionId, r.State = sdk.String("pcx-2"), ec2types.RouteStateActive
		}), false},
		"a target that EC2 does not name": {to(func(*ec2types.Route) {}), false},
	} {
		t.Run(target, func(t *testing.T) {
			c := over(t, zoo(), away+"RouteTableID = rtb-1\n", node("n", "aws:///us-east-1a/"+own))
			account := &routed{account: zoo(), rows: []ec2types.Route{test.row}}
			c.ec2 = account
			routes, ok := c.Routes()
			if !ok {
				t.Fatal("there are no routes")
			}
			err := routes.CreateRoute(t.Context(), "lab", "", &cloudprovider.Route{TargetNode: "n", DestinationCIDR: cidr})
			left := account.rows[len(account.rows)-1]
			if test.replaced {
				if err != nil || len(account.rows) != 1 || sdk.ToString(left.InstanceId) != own {
					t.Errorf("error %v, the table has %+v", err, account.rows)
				}
				return
			}
			if left != test.row || len(account.rows) != 1 {
				t.Errorf("the table has %+v", account.rows)
			}
			for _, says := range []string{cidr, `node "n"`, "table rtb-1", target, "remove that route by hand if it is no longer needed"} {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("the error does not say %q: %v", says, err)
				}
			}
		})
	}
}
