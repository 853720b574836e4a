package ec2

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (r *Region) routeActions() []wire.Action {
	return []wire.Action{
		{
			Name:    "DescribeRouteTables",
			Params:  []string{"RouteTableId.N", "Filter.N.Name", "Filter.N.Value.N"},
			Filters: []string{"route-table-id", "vpc-id", "association.subnet-id", "tag-key", "tag:<key>"},
			Errors:  []string{"InvalidRouteTableID.NotFound"},
			Do:      r.describeRouteTables,
		},
		{
			Name:     "CreateRoute",
			Mutating: true,
			Params:   []string{"RouteTableId", "DestinationCidrBlock", "InstanceId"},
			Errors: []string{
				"MissingParameter",
				"InvalidParameterValue",
				"InvalidRouteTableID.NotFound",
				"InvalidInstanceID.NotFound",
				"InvalidInstanceID.Malformed",
				"InvalidInstanceID",
				"RouteAlreadyExists",
			},
			Note: "Targets are instances only. A terminated instance has no interface to route to: InvalidInstanceID. No limit on routes.",
			Do:   r.createRoute,
		},
		{
			Name:     "DeleteRoute",
			Mutating: true,
			Params:   []string{"RouteTableId", "DestinationCidrBlock"},
			Errors: []string{
				"MissingParameter",
				"InvalidRouteTableID.NotFound",
				"InvalidRoute.NotFound",
				"InvalidParameterValue",
			},
			Note: "The local route cannot be deleted.",
			Do:   r.deleteRoute,
		},
	}
}

func (r *Region) describeRouteTables(c *wire.Call) ([]wire.Node, error) {
	list, _, err := ids(c, "RouteTableId", r.RouteTables, unknownRouteTable)
	if err != nil {
		return nil, err
	}
	set := wire.El("routeTableSet")
	for _, id := range list {
		t := r.RouteTables[id]
		if !selected(
			c,
			map[string][]string{"route-table-id": {id}, "vpc-id": {r.VPC.ID}, "association.subnet-id": t.Subnets},
			t.Tags,
		) {
			continue
		}
		routes, associations := wire.El("routeSet"), wire.El("associationSet")
		for _, x := range t.Routes {
			n := wire.El("item", wire.Text("destinationCidrBlock", x.CIDR), wire.Opt("gatewayId", x.Gateway))
			if x.Instance != "" {
				n.Children = append(n.Children, wire.Text("instanceId", x.Instance), wire.Text("instanceOwnerId", AccountID),
					wire.Text("networkInterfaceId", "eni-"+x.Instance[2:]))
			}
			n.Children = append(n.Children, wire.Text("state", x.State), wire.Text("origin", x.Origin))
			routes.Children = append(routes.Children, n)
		}
		for _, s := range t.Subnets {
			associations.Children = append(associations.Children, wire.El(
				"item",
				wire.Text("routeTableAssociationId", "rtbassoc-"+strings.TrimPrefix(s, "subnet-")),
				wire.Text("routeTableId", id),
				wire.Text(
					"subnetId",
					s,
				),
				wire.Text("main", "false"),
				wire.El("associationState", wire.Text("state", "associated")),
			))
		}
		set.Children = append(set.Children, wire.El("item",
			wire.Text("routeTableId", id), wire.Text("vpcId", r.VPC.ID), wire.Text("ownerId", AccountID), routes, associations,
			wire.El("propagatingVgwSet"), wire.TagNodes("tagSet", "item", "key", "value", t.Tags)))
	}
	return []wire.Node{set}, nil
}

func unknownRouteTable(id string) error {
	return wire.Fail("InvalidRouteTableID.NotFound", "The routeTable ID '%s' does not exist", id)
}

// routeTable finds the table and the destination that a mutating call names.
func (r *Region) routeTable(c *wire.Call) (t *RouteTable, cidr string, err error) {
	id, err := required(c, "RouteTableId")
	if err != nil {
		return nil, "", err
	}
	if cidr, err = required(c, "DestinationCidrBlock"); err != nil {
		return nil, "", err
	}
	if t = r.RouteTables[id]; t == nil {
		return nil, "", unknownRouteTable(id)
	}
	return t, cidr, nil
}

func (r *Region) createRoute(c *wire.Call) ([]wire.Node, error) {
	t, cidr, err := r.routeTable(c)
	if err != nil {
		return nil, err
	}
	if p, err := netip.ParsePrefix(cidr); err != nil || !p.Addr().Is4() {
		return nil, wire.Fail(
			"InvalidParameterValue",
			"Value (%s) for parameter destinationCidrBlock is invalid. This is not a valid CIDR block.",
			cidr,
		)
	}
	id, err := required(c, "InstanceId")
	if err != nil {
		return nil, err
	}
	i, err := r.instance(id)
	if err != nil {
		return nil, err
	}
	if i.State == "terminated" || i.State == "shutting-down" {
		// The reference has no sentence about this. The code is the one that EC2 gives when the interface behind an instance
		// id is not clear (seen for CreateRoute with several interfaces, and for an address associated with a terminated
		// instance).
		return nil, wire.Fail(
			"InvalidInstanceID",
			"There are no interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.",
			id,
		)
	}
	for _, x := range t.Routes {
		if x.CIDR == cidr {
			return nil, wire.Fail("RouteAlreadyExists", "The route identified by %s already exists.", cidr)
		}
	}
	t.Routes = append(t.Routes, Route{CIDR: cidr, Instance: id, State: r.routeState(id), Origin: "CreateRoute"})
	return done(), nil
}

func (r *Region) deleteRoute(c *wire.Call) ([]wire.Node, error) {
	t, cidr, err := r.routeTable(c)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(t.Routes, func(x Route) bool { return x.CIDR == cidr })
	if at < 0 {
		return nil, wire.Fail(
			"InvalidRoute.NotFound",
			"no route with destination-cidr-block %s in route table %s",
			cidr,
			t.ID,
		)
	}
	if t.Routes[at].Gateway == "local" {
		return nil, wire.Fail("InvalidParameterValue", "cannot remove local route %s in route table %s", cidr, t.ID)
	}
	t.Routes = slices.Delete(t.Routes, at, at+1)
	return done(), nil
}

// settleRoutes brings the routes' states up to date after an instance changed.
func (r *Region) settleRoutes() {
	for _, t := range r.RouteTables {
		for i, x := range t.Routes {
			if x.Instance != "" {
				t.Routes[i].State = r.routeState(x.Instance)
			}
		}
	}
}

// routeState: "The blackhole state indicates that the route's target isn't available (for example, [...] the specified
// NAT instance has been terminated)", says DescribeRouteTables; operators of NAT instances report the same of stopped
// ones.
func (r *Region) routeState(instance string) string {
	if i := r.Instances[instance]; i != nil && (i.State == "running" || i.State == "pending") {
		return "active"
	}
	return "blackhole"
}
