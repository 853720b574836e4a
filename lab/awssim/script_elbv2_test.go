package awssim_test

import "github.com/transplant-dev/transplant/lab/awssim"

const nlbPlain = `{"Name":"n1","Type":"network","SubnetMappings":[{"SubnetId":"subnet-b"},{"SubnetId":"subnet-a","AllocationId":"eipalloc-1"}],"SecurityGroups":["sg-nodes"],"Tags":[{"Key":"a","Value":"1"}]}`

func elbv2Script() []step {
	noLB, noTG, noL := `"LoadBalancerArn":"${noARN}loadbalancer/net/x/1"`, `"TargetGroupArn":"${noARN}targetgroup/x/1"`, `"ListenerArn":"${noARN}listener/net/x/1/2"`
	forward := `"DefaultActions":[{"Type":"forward","TargetGroupArn":"${tg}"}]`
	return []step{
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(third, "terminated") }},
		{lab: func(s *awssim.Server) error {
			return s.Do("ec2", "CreateSecurityGroup", map[string]string{"GroupName": "k8s-nlb", "GroupDescription": "d", "VpcId": "vpc-lab"})
		}},

		// Load balancers.
		{action: "DescribeLoadBalancers", in: `{"Names":["n1"]}`, code: "LoadBalancerNotFound"},
		{action: "CreateLoadBalancer", in: nlbPlain, save: map[string]string{"lb": "LoadBalancers.0.LoadBalancerArn"}, want: map[string]string{
			"LoadBalancers.0.DNSName": "n1-000000000abc0001.elb.us-east-1.amazonaws.com", "LoadBalancers.0.VpcId": "vpc-lab", "LoadBalancers.0.Type": "network"}},
		{action: "CreateLoadBalancer", in: nlbPlain, want: map[string]string{"LoadBalancers.0.LoadBalancerArn": "${lb}"}},
		{action: "CreateLoadBalancer", in: `{"Name":"n1","Type":"network","Subnets":["subnet-a"]}`, code: "DuplicateLoadBalancerName"},
		{
			action: "CreateLoadBalancer",
			in:     `{"Name":"n2","Type":"network","Scheme":"internal","Subnets":["subnet-a"]}`,
			save:   map[string]string{"lb2": "LoadBalancers.0.LoadBalancerArn"},
			want:   map[string]string{"LoadBalancers.0.Scheme": "internal", "LoadBalancers.0.SecurityGroups.#": "0"},
		},
		{action: "CreateLoadBalancer", in: `{"Name":"n3","Type":"network","Scheme":"x","Subnets":["subnet-a"]}`, code: "InvalidScheme"},
		{action: "CreateLoadBalancer", in: `{"Name":"n3","Type":"network","Subnets":["subnet-x"]}`, code: "SubnetNotFound"},
		{action: "CreateLoadBalancer", in: `{"Name":"n3","Type":"network","Subnets":["subnet-a","subnet-a"]}`, code: "InvalidConfigurationRequest"},
		{action: "CreateLoadBalancer", in: `{"Name":"n3","Type":"network"}`, code: "ValidationError"},
		{action: "CreateLoadBalancer", in: `{"Name":"internal-n3","Type":"network","Subnets":["subnet-a"]}`, code: "ValidationError"},
		{action: "CreateLoadBalancer", in: `{"Name":"n3","Type":"network","Subnets":["subnet-a"],"SecurityGroups":["sg-x"]}`, code: "InvalidSecurityGroup"},
		{
			action: "CreateLoadBalancer",
			in:     `{"Name":"n3","Type":"network","SubnetMappings":[{"SubnetId":"subnet-a","AllocationId":"eipalloc-x"}]}`,
			code:   "AllocationIdNotFound",
		},
		{action: "CreateLoadBalancer", in: `{"Name":"n3","Type":"network","Subnets":["subnet-a"],"Tags":[{"Key":"a"},{"Key":"a"}]}`, code: "DuplicateTagKeys"},
		{action: "CreateLoadBalancer", in: `{"Name":"n3","Type":"network","Subnets":["subnet-a"],"Tags":[` + repeated(`{"Key":"@"}`, 51) + `]}`, code: "TooManyTags"},
		{
			action: "DescribeLoadBalancers",
			in:     `{"LoadBalancerArns":["${lb}"]}`,
			want: map[string]string{
				"LoadBalancers.#":                              "1",
				"LoadBalancers.0.LoadBalancerName":             "n1",
				"LoadBalancers.0.Scheme":                       "internet-facing",
				"LoadBalancers.0.State.Code":                   "active",
				"LoadBalancers.0.AvailabilityZones.#":          "2",
				"LoadBalancers.0.AvailabilityZones.0.SubnetId": "subnet-a",
				"LoadBalancers.0.AvailabilityZones.0.LoadBalancerAddresses.0.AllocationId": "eipalloc-1",
				"LoadBalancers.0.AvailabilityZones.1.ZoneName":                             "us-east-1b",
				"LoadBalancers.0.SecurityGroups.0":                                         "sg-nodes",
				"LoadBalancers.0.CreatedTime":                                              "2026-11-21T07:00:00Z",
			},
		},
		{action: "DescribeLoadBalancers", in: `{}`, want: map[string]string{"LoadBalancers.#": "2"}},

		// Settings.
		{
			action: "DescribeLoadBalancerAttributes",
			in:     `{"LoadBalancerArn":"${lb}"}`,
			want:   map[string]string{"Attributes.#": "5", "Attributes.4.Key": "load_balancing.cross_zone.enabled", "Attributes.4.Value": "false"},
		},
		{action: "DescribeLoadBalancerAttributes", in: `{` + noLB + `}`, code: "LoadBalancerNotFound"},
		{action: "DescribeLoadBalancerAttributes", in: `{}`, code: "ValidationError"},
		{
			action: "ModifyLoadBalancerAttributes",
			in:     `{"LoadBalancerArn":"${lb}","Attributes":[{"Key":"load_balancing.cross_zone.enabled","Value":"true"}]}`,
			want:   map[string]string{"Attributes.4.Value": "true"},
		},
		{
			action: "ModifyLoadBalancerAttributes",
			in:     `{"LoadBalancerArn":"${lb}","Attributes":[{"Key":"access_logs.s3.enabled","Value":"true"}]}`,
			code:   "InvalidConfigurationRequest",
		},
		{
			action: "ModifyLoadBalancerAttributes",
			in:     `{"LoadBalancerArn":"${lb}","Attributes":[{"Key":"idle_timeout.timeout_seconds","Value":"5"}]}`,
			code:   "InvalidConfigurationRequest",
		},
		{action: "ModifyLoadBalancerAttributes", in: `{` + noLB + `}`, code: "LoadBalancerNotFound"},
		{action: "ModifyLoadBalancerAttributes", in: `{}`, code: "ValidationError"},
		{
			action: "SetSecurityGroups",
			in:     `{"LoadBalancerArn":"${lb}","SecurityGroups":["sg-0000000000abc0001"]}`,
			want:   map[string]string{"SecurityGroupIds.0": "sg-0000000000abc0001"},
		},
		{action: "SetSecurityGroups", in: `{"LoadBalancerArn":"${lb2}","SecurityGroups":["sg-nodes"]}`, code: "InvalidConfigurationRequest"},
		{action: "SetSecurityGroups", in: `{"LoadBalancerArn":"${lb}","SecurityGroups":["sg-x"]}`, code: "InvalidSecurityGroup"},
		{action: "SetSecurityGroups", in: `{"LoadBalancerArn":"${lb}"}`, code: "ValidationError"},
		{action: "SetSecurityGroups", in: `{` + noLB + `}`, code: "LoadBalancerNotFound"},
		{lab: func(s *awssim.Server) error {
			return wantRefusal(s.Do("ec2", "DeleteSecurityGroup", map[string]string{"GroupId": "sg-0000000000abc0001"}), "DependencyViolation")
		}},

		// Target groups.
		{
			action: "CreateTargetGroup",
			in:     `{"Name":"t1","Protocol":"TCP","Port":30080,"VpcId":"vpc-lab","TargetType":"instance","HealthCheckProtocol":"HTTP","HealthCheckPath":"/healthz","HealthCheckPort":"10256","HealthCheckIntervalSeconds":10,"HealthyThresholdCount":2,"UnhealthyThresholdCount":2,"Tags":[{"Key":"a","Value":"1"}]}`,
			save: map[string]string{
				"tg": "TargetGroups.0.TargetGroupArn",
			},
			want: map[string]string{"TargetGroups.0.HealthCheckTimeoutSeconds": "6", "TargetGroups.0.Port": "30080", "TargetGroups.0.VpcId": "vpc-lab"},
		},
		{
			action: "CreateTargetGroup",
			in:     `{"Name":"t1","Protocol":"TCP","Port":30080,"VpcId":"vpc-lab","HealthCheckProtocol":"HTTP","HealthCheckPath":"/healthz","HealthCheckPort":"10256","HealthCheckIntervalSeconds":10,"HealthyThresholdCount":2,"UnhealthyThresholdCount":2}`,
			want:   map[string]string{"TargetGroups.0.TargetGroupArn": "${tg}"},
		},
		{action: "CreateTargetGroup", in: `{"Name":"t1","Protocol":"TCP","Port":30081,"VpcId":"vpc-lab"}`, code: "DuplicateTargetGroupName"},
		{
			action: "CreateTargetGroup",
			in:     `{"Name":"udp","Protocol":"UDP","Port":30053,"VpcId":"vpc-lab"}`,
			save:   map[string]string{"udp": "TargetGroups.0.TargetGroupArn"},
			want: map[string]string{
				"TargetGroups.0.HealthCheckProtocol":        "TCP",
				"TargetGroups.0.HealthCheckPort":            "traffic-port",
				"TargetGroups.0.HealthCheckIntervalSeconds": "30",
				"TargetGroups.0.HealthCheckTimeoutSeconds":  "10",
			},
		},
		{
			action: "CreateTargetGroup",
			in:     `{"Name":"t2","Protocol":"TCP","Port":30443,"VpcId":"vpc-lab"}`,
			save:   map[string]string{"tg2": "TargetGroups.0.TargetGroupArn"},
		},
		{action: "CreateTargetGroup", in: `{"Name":"t3","Protocol":"TCP","Port":1,"VpcId":"vpc-x"}`, code: "ValidationError"},
		{action: "CreateTargetGroup", in: `{"Name":"t3","Protocol":"HTTP","Port":1,"VpcId":"vpc-lab"}`, code: "ValidationError"},
		{
			action: "CreateTargetGroup",
			in:     `{"Name":"t3","Protocol":"TCP","Port":1,"VpcId":"vpc-lab","HealthCheckProtocol":"UDP"}`,
			code:   "InvalidConfigurationRequest",
		},
		{
			action: "CreateTargetGroup",
			in:     `{"Name":"t3","Protocol":"TCP","Port":1,"VpcId":"vpc-lab","HealthCheckEnabled":false}`,
			code:   "InvalidConfigurationRequest",
		},
		{action: "CreateTargetGroup", in: `{"Name":"t3","Protocol":"TCP","Port":1,"VpcId":"vpc-lab","Tags":[{"Key":"a"},{"Key":"a"}]}`, code: "DuplicateTagKeys"},
		{
			action: "CreateTargetGroup",
			in:     `{"Name":"t3","Protocol":"TCP","Port":1,"VpcId":"vpc-lab","Tags":[` + repeated(`{"Key":"@"}`, 51) + `]}`,
			code:   "TooManyTags",
		},
		{
			action: "ModifyTargetGroup",
			in:     `{"TargetGroupArn":"${tg}","HealthCheckPath":"/livez","HealthyThresholdCount":4}`,
			want:   map[string]string{"TargetGroups.0.HealthCheckPath": "/livez", "TargetGroups.0.HealthyThresholdCount": "4"},
		},
		{action: "ModifyTargetGroup", in: `{"TargetGroupArn":"${udp}","HealthCheckPath":"/livez"}`, code: "InvalidConfigurationRequest"},
		{action: "ModifyTargetGroup", in: `{"TargetGroupArn":"${tg}","HealthyThresholdCount":40}`, code: "ValidationError"},
		{action: "ModifyTargetGroup", in: `{` + noTG + `}`, code: "TargetGroupNotFound"},
		{
			action: "DescribeTargetGroupAttributes",
			in:     `{"TargetGroupArn":"${tg}"}`,
			want:   map[string]string{"Attributes.#": "6", "Attributes.2.Key": "preserve_client_ip.enabled", "Attributes.2.Value": "true"},
		},
		{action: "DescribeTargetGroupAttributes", in: `{` + noTG + `}`, code: "TargetGroupNotFound"},
		{action: "DescribeTargetGroupAttributes", in: `{}`, code: "ValidationError"},
		{
			action: "ModifyTargetGroupAttributes",
			in:     `{"TargetGroupArn":"${tg}","Attributes":[{"Key":"proxy_protocol_v2.enabled","Value":"true"},{"Key":"preserve_client_ip.enabled","Value":"false"}]}`,
			want:   map[string]string{"Attributes.3.Value": "true"},
		},
		{
			action: "ModifyTargetGroupAttributes",
			in:     `{"TargetGroupArn":"${udp}","Attributes":[{"Key":"preserve_client_ip.enabled","Value":"false"}]}`,
			code:   "InvalidConfigurationRequest",
		},
		{action: "ModifyTargetGroupAttributes", in: `{"TargetGroupArn":"${tg}","Attributes":[{"Key":"x","Value":"false"}]}`, code: "InvalidConfigurationRequest"},
		{action: "ModifyTargetGroupAttributes", in: `{` + noTG + `}`, code: "TargetGroupNotFound"},
		{action: "ModifyTargetGroupAttributes", in: `{}`, code: "ValidationError"},

		// Targets.
		{
			action: "RegisterTargets",
			in:     `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${second}"},{"Id":"${first}","Port":30080},{"Id":"${first}"},{"Id":"${first}","Port":30099}]}`,
		},
		{action: "RegisterTargets", in: `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${nobody}"}]}`, code: "InvalidTarget"},
		{action: "RegisterTargets", in: `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${third}"}]}`, code: "InvalidTarget"},
		{action: "RegisterTargets", in: `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${first}","Port":70000}]}`, code: "ValidationError"},
		{action: "RegisterTargets", in: `{` + noTG + `}`, code: "TargetGroupNotFound"},
		{
			action: "DescribeTargetHealth",
			in:     `{"TargetGroupArn":"${tg}"}`,
			want: map[string]string{
				"TargetHealthDescriptions.#":                     "3",
				"TargetHealthDescriptions.0.Target.Id":           first,
				"TargetHealthDescriptions.0.Target.Port":         "30080",
				"TargetHealthDescriptions.0.TargetHealth.State":  "unused",
				"TargetHealthDescriptions.0.TargetHealth.Reason": "Target.NotInUse",
			},
		},

		// Listeners.
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb}","Protocol":"TCP","Port":80,` + forward + `,"Tags":[{"Key":"a","Value":"1"}]}`,
			save:   map[string]string{"l": "Listeners.0.ListenerArn"},
			want:   map[string]string{"Listeners.0.Port": "80", "Listeners.0.DefaultActions.0.TargetGroupArn": "${tg}"},
		},
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb}","Protocol":"TCP","Port":80,` + forward + `}`,
			want:   map[string]string{"Listeners.0.ListenerArn": "${l}"},
		},
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb}","Protocol":"TCP","Port":80,"DefaultActions":[{"Type":"forward","TargetGroupArn":"${tg2}"}]}`,
			code:   "DuplicateListener",
		},
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb}","Protocol":"TLS","Port":443,"SslPolicy":"ELBSecurityPolicy-TLS13-1-2-2021-06","Certificates":[{"CertificateArn":"${cert}"}],"DefaultActions":[{"Type":"forward","TargetGroupArn":"${tg2}"}]}`,
			save: map[string]string{
				"tls": "Listeners.0.ListenerArn",
			},
			want: map[string]string{"Listeners.0.SslPolicy": "ELBSecurityPolicy-TLS13-1-2-2021-06", "Listeners.0.Certificates.0.CertificateArn": cert},
		},
		{action: "CreateListener", in: `{"LoadBalancerArn":"${lb2}","Protocol":"TCP","Port":80,` + forward + `}`, code: "TargetGroupAssociationLimit"},
		{action: "CreateListener", in: `{"LoadBalancerArn":"${lb}","Protocol":"UDP","Port":53,` + forward + `}`, code: "IncompatibleProtocols"},
		{action: "CreateListener", in: `{"LoadBalancerArn":"${lb}","Protocol":"HTTP","Port":81,` + forward + `}`, code: "UnsupportedProtocol"},
		{action: "CreateListener", in: `{"LoadBalancerArn":"${lb}","Protocol":"TLS","Port":444,` + forward + `}`, code: "CertificateNotFound"},
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb}","Protocol":"TLS","Port":444,"SslPolicy":"x","Certificates":[{"CertificateArn":"${cert}"}],` + forward + `}`,
			code:   "SSLPolicyNotFound",
		},
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb}","Protocol":"TCP","Port":81,"DefaultActions":[{"Type":"forward",` + noTG + `}]}`,
			code:   "TargetGroupNotFound",
		},
		{action: "CreateListener", in: `{"LoadBalancerArn":"${lb}","Protocol":"TCP","Port":81}`, code: "ValidationError"},
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb}","Protocol":"TCP","Port":81,` + forward + `,"Tags":[{"Key":"a"},{"Key":"a"}]}`,
			code:   "DuplicateTagKeys",
		},
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb}","Protocol":"TCP","Port":81,` + forward + `,"Tags":[` + repeated(`{"Key":"@"}`, 51) + `]}`,
			code:   "TooManyTags",
		},
		{action: "CreateListener", in: `{` + noLB + `}`, code: "LoadBalancerNotFound"},
		{action: "DescribeListeners", in: `{"LoadBalancerArn":"${lb}"}`, want: map[string]string{"Listeners.#": "2", "Listeners.0.Protocol": "TCP"}},
		{action: "DescribeListeners", in: `{"ListenerArns":["${tls}"]}`, want: map[string]string{"Listeners.#": "1", "Listeners.0.Port": "443"}},
		{action: "DescribeListeners", in: `{"ListenerArns":["${noARN}listener/net/x/1/2"]}`, code: "ListenerNotFound"},
		{action: "DescribeListeners", in: `{` + noLB + `}`, code: "LoadBalancerNotFound"},
		{action: "DescribeListeners", in: `{}`, code: "ValidationError"},
		{
			action: "ModifyListener",
			in:     `{"ListenerArn":"${tls}","Protocol":"TCP"}`,
			want:   map[string]string{"Listeners.0.Protocol": "TCP", "Listeners.0.SslPolicy": "", "Listeners.0.Certificates.#": "0"},
		},
		{action: "ModifyListener", in: `{"ListenerArn":"${tls}","Protocol":"TLS"}`, code: "CertificateNotFound"},
		{
			action: "ModifyListener",
			in:     `{"ListenerArn":"${tls}","Protocol":"TLS","SslPolicy":"x","Certificates":[{"CertificateArn":"${cert}"}]}`,
			code:   "SSLPolicyNotFound",
		},
		{
			action: "ModifyListener",
			in:     `{"ListenerArn":"${tls}","Protocol":"TLS","Certificates":[{"CertificateArn":"${cert}"}]}`,
			want:   map[string]string{"Listeners.0.SslPolicy": "ELBSecurityPolicy-2016-08"},
		},
		{action: "ModifyListener", in: `{"ListenerArn":"${tls}","Port":80}`, code: "DuplicateListener"},
		{action: "ModifyListener", in: `{"ListenerArn":"${tls}","Port":70000}`, code: "ValidationError"},
		{action: "ModifyListener", in: `{"ListenerArn":"${tls}","Protocol":"HTTP"}`, code: "UnsupportedProtocol"},
		{action: "ModifyListener", in: `{"ListenerArn":"${tls}","Protocol":"UDP"}`, code: "IncompatibleProtocols"},
		{action: "ModifyListener", in: `{"ListenerArn":"${tls}","DefaultActions":[{"Type":"forward",` + noTG + `}]}`, code: "TargetGroupNotFound"},
		{
			action: "CreateListener",
			in:     `{"LoadBalancerArn":"${lb2}","Protocol":"UDP","Port":53,"DefaultActions":[{"Type":"forward","TargetGroupArn":"${udp}"}]}`,
			save:   map[string]string{"dns": "Listeners.0.ListenerArn"},
		},
		{action: "ModifyListener", in: `{"ListenerArn":"${dns}","Protocol":"TCP",` + forward + `}`, code: "TargetGroupAssociationLimit"},
		{action: "ModifyListener", in: `{` + noL + `}`, code: "ListenerNotFound"},

		// Target groups and targets in use.
		{
			action: "DescribeTargetGroups",
			in:     `{"LoadBalancerArn":"${lb}"}`,
			want: map[string]string{"TargetGroups.#": "2", "TargetGroups.0.TargetGroupName": "t1", "TargetGroups.0.LoadBalancerArns.0": "${lb}",
				"TargetGroups.0.HealthCheckPort": "10256", "TargetGroups.0.HealthCheckProtocol": "HTTP", "TargetGroups.0.Matcher.HttpCode": "200-399"},
		},
		{action: "DescribeTargetGroups", in: `{"Names":["udp"]}`, want: map[string]string{"TargetGroups.#": "1", "TargetGroups.0.TargetGroupArn": "${udp}"}},
		{action: "DescribeTargetGroups", in: `{"TargetGroupArns":["${noARN}targetgroup/x/1"]}`, code: "TargetGroupNotFound"},
		{action: "DescribeTargetGroups", in: `{` + noLB + `}`, code: "LoadBalancerNotFound"},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(second, "stopped") }},
		{action: "DescribeTargetHealth", in: `{"TargetGroupArn":"${tg}"}`, want: map[string]string{"TargetHealthDescriptions.0.TargetHealth.State": "healthy",
			"TargetHealthDescriptions.2.TargetHealth.State": "unused", "TargetHealthDescriptions.2.TargetHealth.Reason": "Target.InvalidState"}},
		{
			action: "DescribeTargetHealth",
			in:     `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${third}"}]}`,
			want:   map[string]string{"TargetHealthDescriptions.0.TargetHealth.Reason": "Target.NotRegistered"},
		},
		{action: "DescribeTargetHealth", in: `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${nobody}"}]}`, code: "InvalidTarget"},
		{action: "DescribeTargetHealth", in: `{` + noTG + `}`, code: "TargetGroupNotFound"},
		{action: "DescribeTargetHealth", in: `{}`, code: "ValidationError"},
		{lab: func(s *awssim.Server) error { return s.VanishInstance(second) }},
		{action: "DeregisterTargets", in: `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${second}"},{"Id":"${first}","Port":30099}]}`},
		{action: "DescribeTargetHealth", in: `{"TargetGroupArn":"${tg}"}`, want: map[string]string{"TargetHealthDescriptions.#": "1"}},
		{action: "DeregisterTargets", in: `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${second}"}]}`, code: "InvalidTarget"},
		{action: "DeregisterTargets", in: `{"TargetGroupArn":"${tg}","Targets":[{"Id":"${first}","Port":70000}]}`, code: "ValidationError"},
		{action: "DeregisterTargets", in: `{` + noTG + `}`, code: "TargetGroupNotFound"},
		{action: "DeleteTargetGroup", in: `{"TargetGroupArn":"${tg}"}`, code: "ResourceInUse"},
		{action: "DeleteTargetGroup", in: `{}`, code: "ValidationError"},

		// Tags.
		{action: "AddTags", in: `{"ResourceArns":["${lb}","${tg}","${l}"],"Tags":[{"Key":"team","Value":"x"}]}`},
		{action: "AddTags", in: `{"ResourceArns":["${noARN}loadbalancer/net/x/1"],"Tags":[{"Key":"team"}]}`, code: "LoadBalancerNotFound"},
		{action: "AddTags", in: `{"ResourceArns":["${noARN}targetgroup/x/1"],"Tags":[{"Key":"team"}]}`, code: "TargetGroupNotFound"},
		{action: "AddTags", in: `{"ResourceArns":["${noARN}listener/net/x/1/2"],"Tags":[{"Key":"team"}]}`, code: "ListenerNotFound"},
		{action: "AddTags", in: `{"ResourceArns":["x"],"Tags":[{"Key":"team"}]}`, code: "ValidationError"},
		{action: "AddTags", in: `{"ResourceArns":["${lb}"],"Tags":[{"Key":"team"},{"Key":"team"}]}`, code: "DuplicateTagKeys"},
		{action: "AddTags", in: `{"ResourceArns":["${lb}"],"Tags":[` + repeated(`{"Key":"@"}`, 49) + `]}`, code: "TooManyTags"},
		{
			action: "DescribeTags",
			in:     `{"ResourceArns":["${l}"]}`,
			want:   map[string]string{"TagDescriptions.0.ResourceArn": "${l}", "TagDescriptions.0.Tags.#": "2", "TagDescriptions.0.Tags.1.Key": "team"},
		},
		{action: "DescribeTags", in: `{"ResourceArns":["${noARN}loadbalancer/net/x/1"]}`, code: "LoadBalancerNotFound"},
		{action: "DescribeTags", in: `{"ResourceArns":["${noARN}targetgroup/x/1"]}`, code: "TargetGroupNotFound"},
		{action: "DescribeTags", in: `{"ResourceArns":["${noARN}listener/net/x/1/2"]}`, code: "ListenerNotFound"},
		{action: "DescribeTags", in: `{}`, code: "ValidationError"},

		// The end.
		{action: "DeleteListener", in: `{"ListenerArn":"${tls}"}`},
		{action: "DeleteListener", in: `{"ListenerArn":"${tls}"}`, code: "ListenerNotFound"},
		{action: "DeleteListener", in: `{}`, code: "ValidationError"},
		{action: "DeleteTargetGroup", in: `{"TargetGroupArn":"${tg2}"}`},
		{action: "DeleteTargetGroup", in: `{"TargetGroupArn":"${tg2}"}`},
		{action: "ModifyLoadBalancerAttributes", in: `{"LoadBalancerArn":"${lb}","Attributes":[{"Key":"deletion_protection.enabled","Value":"true"}]}`},
		{action: "DeleteLoadBalancer", in: `{"LoadBalancerArn":"${lb}"}`, code: "OperationNotPermitted"},
		{action: "DeleteLoadBalancer", in: `{"LoadBalancerArn":"${lb2}"}`},
		{action: "DeleteLoadBalancer", in: `{"LoadBalancerArn":"${lb2}"}`},
		{action: "DeleteLoadBalancer", in: `{}`, code: "ValidationError"},
		{action: "DescribeListeners", in: `{"ListenerArns":["${dns}"]}`, code: "ListenerNotFound"},
	}
}
