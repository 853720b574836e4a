package awssim_test

import (
	"fmt"

	"github.com/transplant-dev/transplant/lab/awssim"
)

// listed is a list parameter with one value n times.
func listed(name, value string, n int) map[string]string {
	params := map[string]string{}
	for i := range n {
		params[fmt.Sprintf("%s.%d", name, i+1)] = value
	}
	return params
}

func ec2Script() []step {
	return []step{
		// Instances.
		{action: "DescribeInstances", in: `{"InstanceIds":["${second}","${first}","${second}"]}`, want: map[string]string{
			"Reservations.#":                                                                       "2",
			"Reservations.0.Instances.0.InstanceId":                                                first,
			"Reservations.0.Instances.0.State.Name":                                                "running",
			"Reservations.0.Instances.0.State.Code":                                                "16",
			"Reservations.0.Instances.0.PrivateDnsName":                                            "ip-10-0-0-11.ec2.internal",
			"Reservations.0.Instances.0.PrivateIpAddress":                                          "10.0.0.11",
			"Reservations.0.Instances.0.Placement.AvailabilityZone":                                "us-east-1a",
			"Reservations.0.Instances.0.SubnetId":                                                  "subnet-a",
			"Reservations.0.Instances.0.VpcId":                                                     "vpc-lab",
			"Reservations.0.Instances.0.InstanceType":                                              "m5.large",
			"Reservations.0.Instances.0.SecurityGroups.0.GroupId":                                  "sg-nodes",
			"Reservations.0.Instances.0.SecurityGroups.#":                                          "1",
			"Reservations.0.Instances.0.SourceDestCheck":                                           "true",
			"Reservations.0.Instances.0.NetworkInterfaces.0.Status":                                "in-use",
			"Reservations.0.Instances.0.NetworkInterfaces.0.Attachment.DeviceIndex":                "0",
			"Reservations.0.Instances.0.NetworkInterfaces.0.PrivateIpAddresses.0.PrivateIpAddress": "10.0.0.11",
			"Reservations.0.Instances.0.Tags.0.Key":                                                "kubernetes.io/cluster/lab",
			"Reservations.0.Instances.0.Tags.0.Value":                                              "owned",
			"Reservations.1.Instances.0.Placement.AvailabilityZone":                                "us-east-1b",
			"Reservations.1.Instances.0.SubnetId":                                                  "subnet-b",
		}},
		{action: "DescribeInstances", in: `{"InstanceIds":["${nobody}"]}`, code: "InvalidInstanceID.NotFound"},
		{action: "DescribeInstances", in: `{"InstanceIds":["i-KWOK"]}`, code: "InvalidInstanceID.Malformed"},
		{action: "DescribeInstances", in: `{"InstanceIds":[` + repeated(`"${first}"`, 1001) + `]}`, code: "InvalidParameterValue"},
		{action: "DescribeInstances", in: `{"Filters":[{"Name":"instance-id","Values":[` + repeated(`"i-@"`, 201) + `]}]}`, code: "FilterLimitExceeded"},
		{
			action: "DescribeInstances",
			in:     `{"Filters":[{"Name":"instance-id","Values":["${first}",` + repeated(`"i-@"`, 199) + `]}]}`,
			want:   map[string]string{"Reservations.#": "1"},
		},
		{action: "DescribeInstances", in: `{"InstanceIds":["${first}"],"MaxResults":5}`, code: "InvalidParameterCombination"},
		{action: "DescribeInstances", in: `{"MaxResults":4}`, code: "InvalidParameterValue"},
		{action: "DescribeInstances", in: `{"MaxResults":5,"NextToken":"stale"}`, code: "InvalidNextToken"},
		{
			action: "DescribeInstances",
			in:     `{"Filters":[{"Name":"private-dns-name","Values":["ip-10-0-0-1?.ec2.*"]},{"Name":"tag:kubernetes.io/cluster/lab","Values":["owned","shared"]}]}`,
			want:   map[string]string{"Reservations.#": "3"},
		},
		{
			action: "DescribeInstances",
			in:     `{"Filters":[{"Name":"tag-key","Values":["kubernetes.io/cluster/other"]}]}`,
			want:   map[string]string{"Reservations.#": "0"},
		},
		{
			action: "DescribeInstanceTopology",
			in:     `{"InstanceIds":["${first}"]}`,
			raw:    map[string]string{"InstanceId.1": first},
			want:   map[string]string{"Instances.#": "0"},
		},
		{action: "DescribeInstanceTopology", in: `{"InstanceIds":["${nobody}"]}`, raw: listed("InstanceId", nobody, 1), code: "InvalidInstanceID.NotFound"},
		{action: "DescribeInstanceTopology", in: `{"InstanceIds":["i-KWOK"]}`, raw: listed("InstanceId", "i-KWOK", 1), code: "InvalidInstanceID.Malformed"},
		{
			action: "DescribeInstanceTopology",
			in:     `{"InstanceIds":[` + repeated(`"${first}"`, 101) + `]}`,
			raw:    listed("InstanceId", first, 101),
			code:   "InvalidParameterValue",
		},
		{action: "ModifyInstanceAttribute", in: `{"InstanceId":"${first}","SourceDestCheck":{"Value":false}}`},
		{action: "DescribeInstances", in: `{"InstanceIds":["${first}"]}`, want: map[string]string{"Reservations.0.Instances.0.SourceDestCheck": "false"}},
		{action: "ModifyInstanceAttribute", in: `{"InstanceId":"${nobody}","SourceDestCheck":{"Value":false}}`, code: "InvalidInstanceID.NotFound"},
		{action: "ModifyInstanceAttribute", in: `{"InstanceId":"worker-1","SourceDestCheck":{"Value":false}}`, code: "InvalidInstanceID.Malformed"},
		{action: "ModifyInstanceAttribute", in: `{"InstanceId":"${first}"}`, code: "MissingParameter"},
		{action: "ModifyInstanceAttribute", raw: map[string]string{"InstanceId": first, "SourceDestCheck.Value": "perhaps"}, code: "InvalidParameterValue"},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(third, "terminated") }},
		{action: "ModifyInstanceAttribute", in: `{"InstanceId":"${third}","SourceDestCheck":{"Value":false}}`, code: "IncorrectInstanceState"},
		{action: "DescribeInstances", in: `{"InstanceIds":["${third}"]}`, want: map[string]string{
			"Reservations.0.Instances.0.State.Name":          "terminated",
			"Reservations.0.Instances.0.PrivateDnsName":      "",
			"Reservations.0.Instances.0.NetworkInterfaces.#": "0",
		}},

		// The network.
		{action: "DescribeAvailabilityZones", in: `{}`, want: map[string]string{"AvailabilityZones.#": "2", "AvailabilityZones.1.ZoneName": "us-east-1b",
			"AvailabilityZones.1.ZoneId": "use1-az2", "AvailabilityZones.1.ZoneType": "availability-zone", "AvailabilityZones.1.State": "available"}},
		{action: "DescribeAvailabilityZones", in: `{"ZoneNames":["us-east-1a"]}`, want: map[string]string{"AvailabilityZones.#": "1"}},
		{action: "DescribeAvailabilityZones", in: `{"ZoneNames":["us-east-1z"]}`, code: "InvalidParameterValue"},
		{action: "DescribeVpcs", in: `{"VpcIds":["vpc-lab"]}`, want: map[string]string{"Vpcs.0.CidrBlock": "10.0.0.0/16", "Vpcs.0.VpcId": "vpc-lab"}},
		{action: "DescribeVpcs", in: `{"VpcIds":["vpc-other"]}`, code: "InvalidVpcID.NotFound"},
		{action: "DescribeSubnets", in: `{"SubnetIds":["subnet-b"]}`, want: map[string]string{"Subnets.#": "1", "Subnets.0.AvailabilityZone": "us-east-1b",
			"Subnets.0.VpcId": "vpc-lab", "Subnets.0.CidrBlock": "10.0.16.0/20", "Subnets.0.Tags.0.Key": "kubernetes.io/cluster/lab"}},
		{action: "DescribeSubnets", in: `{"SubnetIds":["subnet-z"]}`, code: "InvalidSubnetID.NotFound"},
		{action: "DescribeNetworkInterfaces", in: `{"NetworkInterfaceIds":["eni-0000000000a00000b"]}`, want: map[string]string{
			"NetworkInterfaces.0.PrivateIpAddress":      "10.0.0.11",
			"NetworkInterfaces.0.AvailabilityZone":      "us-east-1a",
			"NetworkInterfaces.0.Attachment.InstanceId": first,
		}},
		{action: "DescribeNetworkInterfaces", in: `{"NetworkInterfaceIds":["eni-0000000000a00000d"]}`, code: "InvalidNetworkInterfaceID.NotFound"},

		// Routes.
		{
			action: "CreateRoute",
			in:     `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.0.0/24","InstanceId":"${first}"}`,
			want:   map[string]string{"Return": "true"},
		},
		{action: "CreateRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.1.0/24","InstanceId":"${second}"}`},
		{action: "CreateRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.0.0/24","InstanceId":"${second}"}`, code: "RouteAlreadyExists"},
		{action: "CreateRoute", in: `{"RouteTableId":"rtb-x","DestinationCidrBlock":"10.200.2.0/24","InstanceId":"${first}"}`, code: "InvalidRouteTableID.NotFound"},
		{action: "CreateRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.2.0/24","InstanceId":"${nobody}"}`, code: "InvalidInstanceID.NotFound"},
		{action: "CreateRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.2.0/24","InstanceId":"i-1"}`, code: "InvalidInstanceID.Malformed"},
		{action: "CreateRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.2.0/24","InstanceId":"${third}"}`, code: "InvalidInstanceID"},
		{action: "CreateRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200/24","InstanceId":"${first}"}`, code: "InvalidParameterValue"},
		{action: "CreateRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.2.0/24"}`, code: "MissingParameter"},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(second, "terminated") }},
		{action: "DescribeRouteTables", in: `{"RouteTableIds":["rtb-lab"]}`, want: map[string]string{
			"RouteTables.0.VpcId": "vpc-lab", "RouteTables.0.Associations.1.SubnetId": "subnet-b", "RouteTables.0.Associations.1.Main": "false",
			"RouteTables.0.Routes.#": "4", "RouteTables.0.Routes.0.GatewayId": "local", "RouteTables.0.Routes.0.Origin": "CreateRouteTable",
			"RouteTables.0.Routes.1.GatewayId": "igw-lab", "RouteTables.0.Routes.1.DestinationCidrBlock": "0.0.0.0/0",
			"RouteTables.0.Routes.2.InstanceId": first, "RouteTables.0.Routes.2.State": "active", "RouteTables.0.Routes.3.InstanceId": second,
			"RouteTables.0.Routes.3.State": "blackhole", "RouteTables.0.Tags.0.Key": "kubernetes.io/cluster/lab"}},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(second, "running") }},
		{
			action: "DescribeRouteTables",
			in:     `{"Filters":[{"Name":"route-table-id","Values":["rtb-lab"]}]}`,
			want:   map[string]string{"RouteTables.0.Routes.3.State": "active"},
		},
		{action: "DescribeRouteTables", in: `{"RouteTableIds":["rtb-x"]}`, code: "InvalidRouteTableID.NotFound"},
		{action: "DeleteRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.0.0/24"}`},
		{action: "DeleteRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.200.0.0/24"}`, code: "InvalidRoute.NotFound"},
		{action: "DeleteRoute", in: `{"RouteTableId":"rtb-lab","DestinationCidrBlock":"10.0.0.0/16"}`, code: "InvalidParameterValue"},
		{action: "DeleteRoute", in: `{"RouteTableId":"rtb-x","DestinationCidrBlock":"10.200.0.0/24"}`, code: "InvalidRouteTableID.NotFound"},
		{action: "DeleteRoute", in: `{"RouteTableId":"rtb-lab"}`, code: "MissingParameter"},

		// Security groups.
		{
			action: "CreateSecurityGroup",
			in:     `{"GroupName":"k8s-elb-a1","Description":"for the Service a","VpcId":"vpc-lab","TagSpecifications":[{"ResourceType":"security-group","Tags":[{"Key":"a","Value":"1"}]}]}`,
			save:   map[string]string{"sg": "GroupId"},
			want:   map[string]string{"Tags.0.Key": "a"},
		},
		{action: "CreateSecurityGroup", in: `{"GroupName":"k8s-elb-a1","Description":"again","VpcId":"vpc-lab"}`, code: "InvalidGroup.Duplicate"},
		{action: "CreateSecurityGroup", in: `{"GroupName":"sg-a","Description":"d","VpcId":"vpc-lab"}`, code: "InvalidParameterValue"},
		{action: "CreateSecurityGroup", in: `{"GroupName":"b","VpcId":"vpc-lab"}`, code: "MissingParameter"},
		{action: "CreateSecurityGroup", in: `{"GroupName":"b","Description":"d","VpcId":"vpc-x"}`, code: "InvalidVpcID.NotFound"},
		{
			action: "AuthorizeSecurityGroupIngress",
			in:     `{"GroupId":"${sg}","IpPermissions":[{"IpProtocol":"tcp","FromPort":80,"ToPort":80,"IpRanges":[{"CidrIp":"0.0.0.0/0"},{"CidrIp":"10.0.0.0/8","Description":"inside"}],"Ipv6Ranges":[{"CidrIpv6":"::/0"}]},{"IpProtocol":"icmp","FromPort":3,"ToPort":4,"IpRanges":[{"CidrIp":"0.0.0.0/0"}]}]}`,
		},
		{action: "AuthorizeSecurityGroupIngress", in: `{"GroupId":"sg-nodes","IpPermissions":[{"IpProtocol":"-1","UserIdGroupPairs":[{"GroupId":"${sg}"}]}]}`},
		{
			action: "AuthorizeSecurityGroupIngress",
			in:     `{"GroupId":"${sg}","IpPermissions":[{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"IpRanges":[{"CidrIp":"0.0.0.0/0"}]},{"IpProtocol":"tcp","FromPort":80,"ToPort":80,"IpRanges":[{"CidrIp":"0.0.0.0/0","Description":"a description makes no difference"}]}]}`,
			code:   "InvalidPermission.Duplicate",
		},
		{
			action: "AuthorizeSecurityGroupIngress",
			in:     `{"GroupId":"sg-x","IpPermissions":[{"IpProtocol":"-1","IpRanges":[{"CidrIp":"0.0.0.0/0"}]}]}`,
			code:   "InvalidGroup.NotFound",
		},
		{
			action: "AuthorizeSecurityGroupIngress",
			in:     `{"GroupId":"${sg}","IpPermissions":[{"IpProtocol":"-1","UserIdGroupPairs":[{"GroupId":"sg-x"}]}]}`,
			code:   "InvalidGroup.NotFound",
		},
		{
			action: "AuthorizeSecurityGroupIngress",
			in:     `{"GroupId":"${sg}","IpPermissions":[{"IpProtocol":"tcp","IpRanges":[{"CidrIp":"0.0.0.0/0"}]}]}`,
			code:   "InvalidParameterValue",
		},
		{action: "AuthorizeSecurityGroupIngress", in: `{"GroupId":"${sg}"}`, code: "MissingParameter"},
		{action: "DescribeSecurityGroups", in: `{"GroupIds":["${sg}"]}`, want: map[string]string{
			"SecurityGroups.0.GroupName": "k8s-elb-a1", "SecurityGroups.0.Description": "for the Service a", "SecurityGroups.0.VpcId": "vpc-lab",
			"SecurityGroups.0.IpPermissions.#": "2", "SecurityGroups.0.IpPermissions.0.IpProtocol": "icmp", "SecurityGroups.0.IpPermissions.0.ToPort": "4",
			"SecurityGroups.0.IpPermissions.1.FromPort": "80", "SecurityGroups.0.IpPermissions.1.IpRanges.#": "2",
			"SecurityGroups.0.IpPermissions.1.IpRanges.1.Description": "inside", "SecurityGroups.0.IpPermissions.1.Ipv6Ranges.0.CidrIpv6": "::/0",
			"SecurityGroups.0.IpPermissionsEgress.0.IpProtocol": "-1"}},
		{action: "DescribeSecurityGroups", in: `{"Filters":[{"Name":"ip-permission.group-id","Values":["${sg}"]}]}`, want: map[string]string{"SecurityGroups.#": "1",
			"SecurityGroups.0.GroupId": "sg-nodes", "SecurityGroups.0.IpPermissions.0.UserIdGroupPairs.0.GroupId": "${sg}"}},
		{action: "DescribeSecurityGroups", in: `{"GroupIds":["sg-x"]}`, code: "InvalidGroup.NotFound"},
		{action: "DeleteSecurityGroup", in: `{"GroupId":"${sg}"}`, code: "DependencyViolation"},
		{action: "RevokeSecurityGroupIngress", in: `{"GroupId":"sg-nodes","IpPermissions":[{"IpProtocol":"-1","UserIdGroupPairs":[{"GroupId":"${sg}"}]}]}`},
		{
			action: "RevokeSecurityGroupIngress",
			in:     `{"GroupId":"sg-nodes","IpPermissions":[{"IpProtocol":"-1","UserIdGroupPairs":[{"GroupId":"${sg}"}]}]}`,
			code:   "InvalidPermission.NotFound",
		},
		{
			action: "RevokeSecurityGroupIngress",
			in:     `{"GroupId":"${sg}","IpPermissions":[{"IpProtocol":"tcp","FromPort":80,"ToPort":80,"IpRanges":[{"CidrIp":"10.0.0.0/8"}]}]}`,
		},
		{
			action: "RevokeSecurityGroupIngress",
			in:     `{"GroupId":"sg-x","IpPermissions":[{"IpProtocol":"-1","IpRanges":[{"CidrIp":"0.0.0.0/0"}]}]}`,
			code:   "InvalidGroup.NotFound",
		},
		{
			action: "RevokeSecurityGroupIngress",
			in:     `{"GroupId":"${sg}","IpPermissions":[{"IpProtocol":"gre","IpRanges":[{"CidrIp":"0.0.0.0/0"}]}]}`,
			code:   "InvalidParameterValue",
		},
		{action: "RevokeSecurityGroupIngress", in: `{"GroupId":"${sg}"}`, code: "MissingParameter"},
		{action: "DeleteSecurityGroup", in: `{"GroupId":"sg-nodes"}`, code: "DependencyViolation"},

		// Tags.
		{action: "CreateTags", in: `{"Resources":["${sg}","${first}"],"Tags":[{"Key":"b","Value":"2"},{"Key":"c","Value":""}]}`},
		{
			action: "DescribeTags",
			in:     `{"Filters":[{"Name":"resource-id","Values":["${sg}"]}]}`,
			want: map[string]string{"Tags.#": "3", "Tags.1.Key": "b", "Tags.1.Value": "2",
				"Tags.1.ResourceType": "security-group", "Tags.1.ResourceId": "${sg}"},
		},
		{action: "CreateTags", in: `{"Resources":["${first}","i-eCHmOTcEW0OZ9KbNe"],"Tags":[{"Key":"b","Value":"3"}]}`, code: "InvalidID"},
		{action: "CreateTags", in: `{"Resources":["${nobody}"],"Tags":[{"Key":"b","Value":"3"}]}`, code: "InvalidInstanceID.NotFound"},
		{action: "CreateTags", in: `{"Resources":["sg-x"],"Tags":[{"Key":"b","Value":"3"}]}`, code: "InvalidGroup.NotFound"},
		{action: "CreateTags", in: `{"Resources":["subnet-x"],"Tags":[{"Key":"b","Value":"3"}]}`, code: "InvalidSubnetID.NotFound"},
		{action: "CreateTags", in: `{"Resources":["rtb-x"],"Tags":[{"Key":"b","Value":"3"}]}`, code: "InvalidRouteTableID.NotFound"},
		{action: "CreateTags", in: `{"Resources":["vpc-x"],"Tags":[{"Key":"b","Value":"3"}]}`, code: "InvalidVpcID.NotFound"},
		{action: "CreateTags", in: `{"Resources":["${first}"],"Tags":[{"Key":"","Value":"3"}]}`, code: "InvalidParameterValue"},
		{action: "CreateTags", in: `{"Resources":["${first}"]}`, code: "MissingParameter"},
		{action: "CreateTags", in: `{"Resources":["${first}"],"Tags":[` + repeated(`{"Key":"@","Value":"1"}`, 48) + `]}`, code: "TagLimitExceeded"},
		{
			action: "DescribeTags",
			in:     `{"Filters":[{"Name":"tag:b","Values":["2"]},{"Name":"resource-type","Values":["instance"]}]}`,
			want:   map[string]string{"Tags.#": "1", "Tags.0.ResourceId": first},
		},
		{action: "DeleteTags", in: `{"Resources":["${first}"],"Tags":[{"Key":"b","Value":"other"},{"Key":"c"}]}`},
		{action: "DescribeTags", in: `{"Filters":[{"Name":"resource-id","Values":["${first}"]}]}`, want: map[string]string{"Tags.#": "2", "Tags.0.Key": "b"}},
		{action: "DeleteTags", in: `{"Resources":["${nobody}"]}`, code: "InvalidInstanceID.NotFound"},
		{action: "DeleteTags", in: `{"Resources":["node-1"]}`, code: "InvalidID"},
		{action: "DeleteTags", in: `{"Resources":["sg-x"]}`, code: "InvalidGroup.NotFound"},
		{action: "DeleteTags", in: `{"Resources":["subnet-x"]}`, code: "InvalidSubnetID.NotFound"},
		{action: "DeleteTags", in: `{"Resources":["rtb-x"]}`, code: "InvalidRouteTableID.NotFound"},
		{action: "DeleteTags", in: `{"Resources":["vpc-x"]}`, code: "InvalidVpcID.NotFound"},
		{action: "DeleteTags", in: `{}`, code: "MissingParameter"},

		// The end.
		{action: "DeleteSecurityGroup", in: `{"GroupId":"${sg}"}`},
		{action: "DeleteSecurityGroup", in: `{"GroupId":"${sg}"}`, code: "InvalidGroup.NotFound"},
		{action: "DeleteSecurityGroup", in: `{}`, code: "MissingParameter"},
		{lab: func(s *awssim.Server) error { return s.VanishInstance(second) }},
		{action: "DescribeInstances", in: `{"InstanceIds":["${first}","${second}"]}`, code: "InvalidInstanceID.NotFound"},
		{action: "DescribeRouteTables", in: `{"Filters":[{"Name":"vpc-id","Values":["vpc-lab"]}]}`, want: map[string]string{
			"RouteTables.0.Routes.2.InstanceId": second, "RouteTables.0.Routes.2.State": "blackhole"}},
	}
}
