package elbv2

import (
	"fmt"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (b *Balancers) lifecycleActions() []wire.Action {
	return []wire.Action{
		{
			Name:   "DescribeLoadBalancers",
			Params: []string{"LoadBalancerArns.member.N", "Names.member.N"},
			Errors: []string{"LoadBalancerNotFound"},
			Note:   "No paging. The state is active at once.",
			Do:     b.describe,
		},
		{
			Name:     "CreateLoadBalancer",
			Mutating: true,
			Params: []string{
				"Name",
				"Type",
				"Scheme",
				"IpAddressType",
				"Subnets.member.N",
				"SubnetMappings.member.N.SubnetId",
				"SubnetMappings.member.N.AllocationId",
				"SubnetMappings.member.N.PrivateIPv4Address",
				"SecurityGroups.member.N",
				"Tags.member.N.Key",
				"Tags.member.N.Value",
			},
			Errors: []string{
				"ValidationError",
				"DuplicateLoadBalancerName",
				"InvalidScheme",
				"SubnetNotFound",
				"InvalidConfigurationRequest",
				"InvalidSecurityGroup",
				"AllocationIdNotFound",
				"DuplicateTagKeys",
				"TooManyTags",
			},
			Note: "Type network only. Idempotent: the same name with the same scheme, subnets and groups answers the existing load balancer; tags are not compared.",
			Do:   b.create,
		},
		{
			Name: "DeleteLoadBalancer", Mutating: true,
			Params: []string{"LoadBalancerArn"},
			Errors: []string{"ValidationError", "OperationNotPermitted"},
			Note:   "Succeeds for one that does not exist; takes the listeners along; refused under deletion protection.",
			Do:     b.remove,
		},
	}
}

func (b *Balancers) describe(c *wire.Call) ([]wire.Node, error) {
	arns, err := picked(b.LoadBalancers, c.List("LoadBalancerArns.member"), c.List("Names.member"),
		func(l *LoadBalancer) string { return l.Name }, noBalancer)
	if err != nil {
		return nil, err
	}
	list := wire.El("LoadBalancers")
	for _, arn := range arns {
		list.Children = append(list.Children, b.node(b.LoadBalancers[arn]))
	}
	return []wire.Node{list}, nil
}

func (b *Balancers) node(l *LoadBalancer) wire.Node {
	zones := wire.El("AvailabilityZones")
	for _, m := range l.Subnets {
		address := wire.Node{}
		if m.Allocation != "" || m.PrivateIP != "" {
			address = wire.El("member", wire.Opt("AllocationId", m.Allocation), wire.Opt("PrivateIPv4Address", m.PrivateIP))
		}
		zones.Children = append(
			zones.Children,
			wire.El("member", wire.Text("SubnetId", m.Subnet), wire.Text("ZoneName", b.region.Subnets[m.Subnet].Zone),
				wire.El("LoadBalancerAddresses", address)),
		)
	}
	return wire.El(
		"member",
		wire.Text(
			"LoadBalancerArn",
			l.ARN,
		),
		wire.Text("DNSName", l.DNSName),
		wire.Text("CanonicalHostedZoneId", "Z26RNL4JYFTOTI"),
		wire.Time(
			"CreatedTime",
			l.Created,
		),
		wire.Text("LoadBalancerName", l.Name),
		wire.Text("Scheme", l.Scheme),
		wire.Text("VpcId", b.region.VPC.ID),
		wire.El("State", wire.Text("Code", "active")),
		wire.Text("Type", "network"),
		zones,
		wire.Strings("SecurityGroups", "member", l.SecurityGroups),
		wire.Text("IpAddressType", "ipv4"),
	)
}

func (b *Balancers) create(c *wire.Call) ([]wire.Node, error) {
	l, err := b.wanted(c)
	if err != nil {
		return nil, err
	}
	for _, have := range b.LoadBalancers {
		if have.Name != l.Name {
			continue
		}
		// "If you attempt to create multiple load balancers with the same settings, each call succeeds." Otherwise AWS says
		// "exists, but with different settings".
		if have.Scheme != l.Scheme || !slices.Equal(have.Subnets, l.Subnets) ||
			!slices.Equal(have.SecurityGroups, l.SecurityGroups) {
			return nil, wire.Fail(
				"DuplicateLoadBalancerName",
				"A load balancer with the same name '%s' exists, but with different settings",
				l.Name,
			)
		}
		return []wire.Node{wire.El("LoadBalancers", b.node(have))}, nil
	}
	l.ARN = b.nextARN("loadbalancer/net/" + l.Name)
	l.DNSName = fmt.Sprintf("%s-%s.elb.%s.amazonaws.com", l.Name, l.ARN[strings.LastIndex(l.ARN, "/")+1:], b.region.Name)
	l.Created = b.now()
	b.LoadBalancers[l.ARN] = l
	c.Made(wire.ShortARN(l.ARN))
	return []wire.Node{wire.El("LoadBalancers", b.node(l))}, nil
}

// wanted is the load balancer that a CreateLoadBalancer call describes, checked.
func (b *Balancers) wanted(c *wire.Call) (*LoadBalancer, error) {
	name, err := required(c, "Name")
	if err != nil {
		return nil, err
	}
	if !wire.ValidName(name) || strings.HasPrefix(name, "internal-") {
		return nil, wire.Fail("ValidationError", "The load balancer name '%s' is not valid", name)
	}
	if kind := c.Params["Type"]; kind != "network" {
		return nil, wire.Unknown("ValidationError", "Only load balancers of type network are simulated, not '%s'", kind)
	}
	if family := c.Params["IpAddressType"]; family != "" && family != "ipv4" {
		return nil, wire.Unknown("ValidationError", "Only the address type ipv4 is simulated, not '%s'", family)
	}
	scheme, err := c.Scheme()
	if err != nil {
		return nil, err
	}
	mappings, err := b.mappings(c)
	if err != nil {
		return nil, err
	}
	groups, err := b.securityGroups(c)
	if err != nil {
		return nil, err
	}
	tags, err := c.Tagged("Tags.member", nil, maxTags)
	if err != nil {
		return nil, err
	}
	return &LoadBalancer{
		Name:           name,
		Scheme:         scheme,
		Subnets:        mappings,
		SecurityGroups: groups,
		Tags:           tags,
		Attributes: map[string]string{
			"access_logs.s3.enabled":            "false",
			"access_logs.s3.bucket":             "",
			"access_logs.s3.prefix":             "",
			"deletion_protection.enabled":       "false",
			"load_balancing.cross_zone.enabled": "false",
		},
	}, nil
}

// mappings: "You can specify only one subnet per Availability Zone. You must specify either subnets or subnet mappings,
// but not both."
func (b *Balancers) mappings(c *wire.Call) ([]SubnetMapping, error) {
	var all []SubnetMapping
	for _, id := range c.List("Subnets.member") {
		all = append(all, SubnetMapping{Subnet: id})
	}
	plain := len(all)
	for _, m := range c.Structs("SubnetMappings.member") {
		all = append(
			all,
			SubnetMapping{Subnet: m["SubnetId"], Allocation: m["AllocationId"], PrivateIP: m["PrivateIPv4Address"]},
		)
	}
	if len(all) == 0 || (plain > 0 && plain < len(all)) {
		return nil, wire.Fail("ValidationError", "You must specify either subnets or subnet mappings")
	}
	zones := map[string]bool{}
	for _, m := range all {
		s := b.region.Subnets[m.Subnet]
		if s == nil {
			return nil, wire.Fail("SubnetNotFound", "The subnet ID '%s' does not exist", m.Subnet)
		}
		if zones[s.Zone] {
			return nil, wire.Fail(
				"InvalidConfigurationRequest",
				"A load balancer cannot be attached to multiple subnets in the same Availability Zone",
			)
		}
		zones[s.Zone] = true
		if m.Allocation != "" && !slices.Contains(b.addresses, m.Allocation) {
			return nil, wire.Fail("AllocationIdNotFound", "The allocation ID '%s' does not exist", m.Allocation)
		}
	}
	slices.SortFunc(all, func(x, y SubnetMapping) int { return strings.Compare(x.Subnet, y.Subnet) })
	return all, nil
}

func (b *Balancers) securityGroups(c *wire.Call) ([]string, error) {
	list := append([]string{}, c.List("SecurityGroups.member")...)
	for _, id := range list {
		if b.region.SecurityGroups[id] == nil {
			return nil, wire.Fail("InvalidSecurityGroup", "The security group '%s' does not exist", id)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func (b *Balancers) remove(c *wire.Call) ([]wire.Node, error) {
	arn, err := required(c, "LoadBalancerArn")
	if err != nil {
		return nil, err
	}
	l := b.LoadBalancers[arn]
	if l == nil {
		return nil, nil
	}
	if l.Attributes["deletion_protection.enabled"] == "true" {
		return nil, wire.Fail(
			"OperationNotPermitted",
			"Load balancer '%s' cannot be deleted because deletion protection is enabled",
			arn,
		)
	}
	for _, x := range b.listenersOf(arn) {
		delete(b.Listeners, x.ARN)
	}
	delete(b.LoadBalancers, arn)
	return nil, nil
}
