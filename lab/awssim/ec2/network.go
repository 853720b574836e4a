package ec2

import (
	"slices"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (r *Region) networkActions() []wire.Action {
	return []wire.Action{
		{
			Name:    "DescribeAvailabilityZones",
			Params:  []string{"ZoneName.N", "Filter.N.Name", "Filter.N.Value.N"},
			Filters: []string{"zone-name", "zone-id", "zone-type", "state", "region-name"},
			Errors:  []string{"InvalidParameterValue"},
			Note:    "Every zone is of type availability-zone: the external provider uses no subnet of another type for load balancers.",
			Do:      r.describeZones,
		},
		{
			Name:    "DescribeVpcs",
			Params:  []string{"VpcId.N", "Filter.N.Name", "Filter.N.Value.N"},
			Filters: []string{"vpc-id", "cidr", "state", "tag-key", "tag:<key>"},
			Errors:  []string{"InvalidVpcID.NotFound"},
			Do:      r.describeVPCs,
		},
		{
			Name:    "DescribeSubnets",
			Params:  []string{"SubnetId.N", "Filter.N.Name", "Filter.N.Value.N"},
			Filters: []string{"vpc-id", "subnet-id", "availability-zone", "cidr-block", "state", "tag-key", "tag:<key>"},
			Errors:  []string{"InvalidSubnetID.NotFound"},
			Do:      r.describeSubnets,
		},
		{
			Name:   "DescribeNetworkInterfaces",
			Params: []string{"NetworkInterfaceId.N", "Filter.N.Name", "Filter.N.Value.N"},
			Filters: []string{
				"network-interface-id",
				"attachment.instance-id",
				"attachment.status",
				"vpc-id",
				"subnet-id",
				"availability-zone",
				"private-ip-address",
				"private-dns-name",
				"group-id",
				"status",
			},
			Errors: []string{"InvalidNetworkInterfaceID.NotFound"},
			Note:   "The interfaces of instances that are not terminated; load balancers have none here.",
			Do:     r.describeInterfaces,
		},
	}
}

func (r *Region) describeZones(c *wire.Call) ([]wire.Node, error) {
	zones := map[string]Zone{}
	for _, z := range r.Zones {
		zones[z.Name] = z
	}
	names, _, err := ids(c, "ZoneName", zones, func(name string) error {
		return wire.Fail("InvalidParameterValue", "Invalid availability zone: [%s]", name)
	})
	if err != nil {
		return nil, err
	}
	set := wire.El("availabilityZoneInfo")
	for _, name := range names {
		z := zones[name]
		if !selected(c, map[string][]string{
			"zone-name": {
				z.Name,
			},
			"zone-id":     {z.ID},
			"zone-type":   {"availability-zone"},
			"state":       {"available"},
			"region-name": {r.Name},
		}, nil) {
			continue
		}
		set.Children = append(set.Children, wire.El(
			"item",
			wire.Text(
				"zoneName",
				z.Name,
			),
			wire.Text("zoneState", "available"),
			wire.Text("regionName", r.Name),
			wire.Text("zoneId", z.ID),
			wire.Text("zoneType", "availability-zone"),
			wire.Text("groupName", r.Name),
			wire.Text("networkBorderGroup", r.Name),
			wire.Text("optInStatus", "opt-in-not-required"),
			wire.El("messageSet"),
		))
	}
	return []wire.Node{set}, nil
}

func (r *Region) describeVPCs(c *wire.Call) ([]wire.Node, error) {
	list, _, err := ids(c, "VpcId", map[string]VPC{r.VPC.ID: r.VPC}, unknownVPC)
	if err != nil {
		return nil, err
	}
	set := wire.El("vpcSet")
	for range list {
		if selected(c, map[string][]string{"vpc-id": {r.VPC.ID}, "cidr": {r.VPC.CIDR}, "state": {"available"}}, r.VPC.Tags) {
			set.Children = append(set.Children, wire.El(
				"item",
				wire.Text(
					"vpcId",
					r.VPC.ID,
				),
				wire.Text("ownerId", AccountID),
				wire.Text("state", "available"),
				wire.Text("cidrBlock", r.VPC.CIDR),
				wire.Text("isDefault", "false"),
				wire.TagNodes("tagSet", "item", "key", "value", r.VPC.Tags),
			))
		}
	}
	return []wire.Node{set}, nil
}

func unknownVPC(id string) error {
	return wire.Fail("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", id)
}

func (r *Region) describeSubnets(c *wire.Call) ([]wire.Node, error) {
	list, _, err := ids(c, "SubnetId", r.Subnets, unknownSubnet)
	if err != nil {
		return nil, err
	}
	set := wire.El("subnetSet")
	for _, id := range list {
		s := r.Subnets[id]
		if !selected(c, map[string][]string{
			"vpc-id": {
				r.VPC.ID,
			},
			"subnet-id":         {id},
			"availability-zone": {s.Zone},
			"cidr-block":        {s.CIDR},
			"state":             {"available"},
		}, s.Tags) {
			continue
		}
		set.Children = append(set.Children, wire.El(
			"item",
			wire.Text(
				"subnetId",
				id,
			),
			wire.Text("vpcId", r.VPC.ID),
			wire.Text("ownerId", AccountID),
			wire.Text("state", "available"),
			wire.Text(
				"availabilityZone",
				s.Zone,
			),
			wire.Text("availabilityZoneId", r.zoneID(s.Zone)),
			wire.Text("cidrBlock", s.CIDR),
			wire.Text(
				"availableIpAddressCount",
				"4091",
			),
			wire.Text("defaultForAz", "false"),
			wire.Text("mapPublicIpOnLaunch", "false"),
			wire.TagNodes("tagSet", "item", "key", "value", s.Tags),
		))
	}
	return []wire.Node{set}, nil
}

func unknownSubnet(id string) error {
	return wire.Fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}

func (r *Region) zoneID(name string) string {
	for _, z := range r.Zones {
		if z.Name == name {
			return z.ID
		}
	}
	return ""
}

func (r *Region) describeInterfaces(c *wire.Call) ([]wire.Node, error) {
	byInterface := map[string]*Instance{}
	for _, i := range r.Instances {
		if i.State != "terminated" {
			byInterface[interfaceID(i)] = i
		}
	}
	list, _, err := ids(c, "NetworkInterfaceId", byInterface, func(id string) error {
		return wire.Fail("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
	})
	if err != nil {
		return nil, err
	}
	set := wire.El("networkInterfaceSet")
	for _, id := range list {
		i := byInterface[id]
		if selected(c, map[string][]string{
			"network-interface-id": {
				id,
			},
			"attachment.instance-id": {i.ID},
			"attachment.status":      {"attached"},
			"vpc-id":                 {r.VPC.ID},
			"subnet-id":              {i.Subnet},
			"availability-zone": {
				i.Zone,
			},
			"private-ip-address": {i.PrivateIP},
			"private-dns-name":   {i.PrivateDNS},
			"group-id":           slices.Clone(i.SecurityGroups),
			"status":             {"in-use"},
		}, nil) {
			set.Children = append(set.Children, r.interfaceNode(i))
		}
	}
	return []wire.Node{set}, nil
}

func interfaceID(i *Instance) string { return "eni-" + i.ID[2:] }

// interfaceNode is an instance's network interface. Its status and the attachment's device index matter: the providers
// take addresses only from interfaces in use, in the order of their index.
func (r *Region) interfaceNode(i *Instance) wire.Node {
	return wire.El(
		"item",
		wire.Text("networkInterfaceId", interfaceID(i)),
		wire.Text("subnetId", i.Subnet),
		wire.Text("vpcId", r.VPC.ID),
		wire.Text(
			"availabilityZone",
			i.Zone,
		),
		wire.Text("ownerId", AccountID),
		wire.Text("status", "in-use"),
		wire.Text("interfaceType", "interface"),
		wire.Text(
			"macAddress",
			MAC(i.PrivateIP),
		),
		wire.Text("privateIpAddress", i.PrivateIP),
		wire.Text("privateDnsName", i.PrivateDNS),
		wire.Bool("sourceDestCheck", !i.SourceDestCheckOff),
		r.groupSet(i.SecurityGroups),
		wire.El("attachment", wire.Text("attachmentId", "eni-attach-"+i.ID[2:]), wire.Text("instanceId", i.ID),
			wire.Text("deviceIndex", "0"), wire.Text("status", "attached")),
		wire.El("privateIpAddressesSet", wire.El(
			"item",
			wire.Text(
				"privateIpAddress",
				i.PrivateIP,
			),
			wire.Text("privateDnsName", i.PrivateDNS),
			wire.Text("primary", "true"),
		)),
		wire.El("ipv6AddressesSet"),
	)
}
