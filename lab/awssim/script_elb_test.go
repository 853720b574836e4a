package awssim_test

import "github.com/transplant-dev/transplant/lab/awssim"

const (
	elbPlain = `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"tcp","LoadBalancerPort":80,"InstanceProtocol":"tcp","InstancePort":30080}],"Subnets":["subnet-b","subnet-a"],"SecurityGroups":["sg-nodes"],"Tags":[{"Key":"kubernetes.io/service-name","Value":"default/a"}]}`
	// elbRest completes a listener or a placement that is to be refused.
	elbListener = `"Listeners":[{"Protocol":"TCP","LoadBalancerPort":80,"InstancePort":30080}]`
)

func elbScript() []step {
	none := `{"LoadBalancerName":"none"}`
	return []step{
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(third, "terminated") }},
		{lab: func(s *awssim.Server) error {
			return s.Do("ec2", "CreateSecurityGroup", map[string]string{"GroupName": "k8s-elb", "GroupDescription": "d", "VpcId": "vpc-lab"})
		}},

		// Create, describe.
		{action: "DescribeLoadBalancers", in: `{"LoadBalancerNames":["a1b2"]}`, code: "LoadBalancerNotFound"},
		{
			action: "CreateLoadBalancer",
			in:     elbPlain,
			save:   map[string]string{"dns": "DNSName"},
			want:   map[string]string{"DNSName": "a1b2-1000000001.us-east-1.elb.amazonaws.com"},
		},
		{action: "CreateLoadBalancer", in: elbPlain, want: map[string]string{"DNSName": "${dns}"}},
		{action: "DescribeLoadBalancers", in: `{"LoadBalancerNames":["a1b2"]}`, want: map[string]string{
			"LoadBalancerDescriptions.#":                                                  "1",
			"LoadBalancerDescriptions.0.DNSName":                                          "${dns}",
			"LoadBalancerDescriptions.0.Scheme":                                           "internet-facing",
			"LoadBalancerDescriptions.0.CreatedTime":                                      "2026-11-21T07:00:00Z",
			"LoadBalancerDescriptions.0.Subnets.#":                                        "2",
			"LoadBalancerDescriptions.0.VPCId":                                            "vpc-lab",
			"LoadBalancerDescriptions.0.AvailabilityZones.1":                              "us-east-1b",
			"LoadBalancerDescriptions.0.SecurityGroups.0":                                 "sg-nodes",
			"LoadBalancerDescriptions.0.ListenerDescriptions.0.Listener.Protocol":         "TCP",
			"LoadBalancerDescriptions.0.ListenerDescriptions.0.Listener.LoadBalancerPort": "80",
			"LoadBalancerDescriptions.0.ListenerDescriptions.0.Listener.InstancePort":     "30080",
			"LoadBalancerDescriptions.0.HealthCheck.Target":                               "TCP:30080",
			"LoadBalancerDescriptions.0.HealthCheck.HealthyThreshold":                     "10",
			"LoadBalancerDescriptions.0.SourceSecurityGroup.GroupName":                    "nodes",
		}},
		{action: "CreateLoadBalancer", in: `{"LoadBalancerName":"a1b2","Subnets":["subnet-a"],` + elbListener + `}`, code: "DuplicateLoadBalancerName"},
		{action: "CreateLoadBalancer", in: `{"LoadBalancerName":"inside","Scheme":"internal","Subnets":["subnet-a"],` + elbListener + `}`,
			want: map[string]string{"DNSName": "internal-inside-1000000002.us-east-1.elb.amazonaws.com"}},
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"inside","Scheme":"internal","Subnets":["subnet-a"],"Tags":[{"Key":"a","Value":"b"}],` + elbListener + `}`,
			code:   "DuplicateLoadBalancerName",
		},
		{action: "CreateLoadBalancer", in: `{"LoadBalancerName":"b","Scheme":"public","Subnets":["subnet-a"],` + elbListener + `}`, code: "InvalidScheme"},
		{action: "CreateLoadBalancer", in: `{"LoadBalancerName":"b","Subnets":["subnet-x"],` + elbListener + `}`, code: "SubnetNotFound"},
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"b","Subnets":["subnet-a"],"SecurityGroups":["sg-x"],` + elbListener + `}`,
			code:   "InvalidSecurityGroup",
		},
		{action: "CreateLoadBalancer", in: `{"LoadBalancerName":"b",` + elbListener + `}`, code: "ValidationError"},
		{action: "CreateLoadBalancer", in: `{"LoadBalancerName":"b","Subnets":["subnet-a"]}`, code: "ValidationError"},
		{action: "CreateLoadBalancer", in: `{"LoadBalancerName":"-b-","Subnets":["subnet-a"],` + elbListener + `}`, code: "ValidationError"},
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"b","Subnets":["subnet-a"],"Listeners":[{"Protocol":"TCP","LoadBalancerPort":80,"InstanceProtocol":"HTTP","InstancePort":30080}]}`,
			code:   "InvalidConfigurationRequest",
		},
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"b","Subnets":["subnet-a"],"Listeners":[{"Protocol":"UDP","LoadBalancerPort":80,"InstancePort":30080}]}`,
			code:   "UnsupportedProtocol",
		},
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"b","Subnets":["subnet-a"],"Listeners":[{"Protocol":"HTTPS","LoadBalancerPort":443,"InstancePort":30080,"SSLCertificateId":"arn:aws:acm:x"}]}`,
			code:   "CertificateNotFound",
		},
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"b","Subnets":["subnet-a"],"Listeners":[{"Protocol":"TCP","LoadBalancerPort":80,"InstancePort":30080},{"Protocol":"TCP","LoadBalancerPort":80,"InstancePort":30081}]}`,
			code:   "DuplicateListener",
		},
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"b","Subnets":["subnet-a"],"Tags":[{"Key":"a"},{"Key":"a"}],` + elbListener + `}`,
			code:   "DuplicateTagKeys",
		},
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"b","Subnets":["subnet-a"],"Tags":[` + repeated(`{"Key":"@"}`, 11) + `],` + elbListener + `}`,
			code:   "TooManyTags",
		},

		// Members and health.
		{
			action: "RegisterInstancesWithLoadBalancer",
			in:     `{"LoadBalancerName":"a1b2","Instances":[{"InstanceId":"${second}"},{"InstanceId":"${first}"},{"InstanceId":"${first}"}]}`,
			want:   map[string]string{"Instances.#": "2", "Instances.0.InstanceId": first},
		},
		{action: "RegisterInstancesWithLoadBalancer", in: `{"LoadBalancerName":"a1b2","Instances":[{"InstanceId":"${nobody}"}]}`, code: "InvalidInstance"},
		{action: "RegisterInstancesWithLoadBalancer", in: `{"LoadBalancerName":"a1b2","Instances":[{"InstanceId":"${third}"}]}`, code: "InvalidInstance"},
		{action: "RegisterInstancesWithLoadBalancer", in: none, code: "LoadBalancerNotFound"},
		{action: "RegisterInstancesWithLoadBalancer", in: `{}`, code: "ValidationError"},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(second, "stopped") }},
		{
			action: "DescribeInstanceHealth",
			in:     `{"LoadBalancerName":"a1b2"}`,
			want:   map[string]string{"InstanceStates.0.State": "InService", "InstanceStates.1.State": "OutOfService"},
		},
		{action: "DescribeInstanceHealth", in: `{"LoadBalancerName":"a1b2","Instances":[{"InstanceId":"${nobody}"}]}`, code: "InvalidInstance"},
		{action: "DescribeInstanceHealth", in: none, code: "LoadBalancerNotFound"},
		{action: "DescribeInstanceHealth", in: `{}`, code: "ValidationError"},
		{lab: func(s *awssim.Server) error { return s.VanishInstance(second) }},
		{
			action: "DeregisterInstancesFromLoadBalancer",
			in:     `{"LoadBalancerName":"a1b2","Instances":[{"InstanceId":"${second}"}]}`,
			want:   map[string]string{"Instances.#": "1"},
		},
		{action: "DeregisterInstancesFromLoadBalancer", in: `{"LoadBalancerName":"a1b2","Instances":[{"InstanceId":"${second}"}]}`, code: "InvalidInstance"},
		{action: "DeregisterInstancesFromLoadBalancer", in: none, code: "LoadBalancerNotFound"},
		{action: "DeregisterInstancesFromLoadBalancer", in: `{}`, code: "ValidationError"},
		{
			action: "ConfigureHealthCheck",
			in:     `{"LoadBalancerName":"a1b2","HealthCheck":{"Target":"HTTP:30081/healthz","Interval":10,"Timeout":5,"UnhealthyThreshold":6,"HealthyThreshold":2}}`,
			want:   map[string]string{"HealthCheck.Target": "HTTP:30081/healthz", "HealthCheck.UnhealthyThreshold": "6"},
		},
		{
			action: "ConfigureHealthCheck",
			in:     `{"LoadBalancerName":"a1b2","HealthCheck":{"Target":"HTTP:30081","Interval":10,"Timeout":5,"UnhealthyThreshold":6,"HealthyThreshold":2}}`,
			code:   "ValidationError",
		},
		{
			action: "ConfigureHealthCheck",
			in:     `{"LoadBalancerName":"a1b2","HealthCheck":{"Target":"TCP:1","Interval":5,"Timeout":5,"UnhealthyThreshold":6,"HealthyThreshold":2}}`,
			code:   "ValidationError",
		},
		{action: "ConfigureHealthCheck", in: none, code: "LoadBalancerNotFound"},

		// Listeners.
		{
			action: "CreateLoadBalancerListeners",
			in:     `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"SSL","LoadBalancerPort":443,"InstancePort":30443,"SSLCertificateId":"${cert}"},{"Protocol":"TCP","LoadBalancerPort":80,"InstancePort":30080}]}`,
		},
		{
			action: "CreateLoadBalancerListeners",
			in:     `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"TCP","LoadBalancerPort":80,"InstancePort":30081}]}`,
			code:   "DuplicateListener",
		},
		{
			action: "CreateLoadBalancerListeners",
			in:     `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"UDP","LoadBalancerPort":81,"InstancePort":30081}]}`,
			code:   "UnsupportedProtocol",
		},
		{
			action: "CreateLoadBalancerListeners",
			in:     `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"HTTPS","LoadBalancerPort":81,"InstancePort":30081}]}`,
			code:   "CertificateNotFound",
		},
		{
			action: "CreateLoadBalancerListeners",
			in:     `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"HTTP","LoadBalancerPort":81,"InstanceProtocol":"TCP","InstancePort":30081}]}`,
			code:   "InvalidConfigurationRequest",
		},
		{action: "CreateLoadBalancerListeners", in: `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"TCP","LoadBalancerPort":81}]}`, code: "ValidationError"},
		{action: "CreateLoadBalancerListeners", in: none, code: "LoadBalancerNotFound"},
		{action: "CreateLoadBalancerListeners", in: `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"TCP","LoadBalancerPort":82,"InstancePort":30082}]}`},
		{action: "DeleteLoadBalancerListeners", in: `{"LoadBalancerName":"a1b2","LoadBalancerPorts":[82,99]}`},
		{action: "DeleteLoadBalancerListeners", in: `{"LoadBalancerName":"a1b2"}`, code: "ValidationError"},
		{action: "DeleteLoadBalancerListeners", in: none, code: "LoadBalancerNotFound"},

		// Policies.
		{
			action: "CreateLoadBalancerPolicy",
			in:     `{"LoadBalancerName":"a1b2","PolicyName":"proxy","PolicyTypeName":"ProxyProtocolPolicyType","PolicyAttributes":[{"AttributeName":"ProxyProtocol","AttributeValue":"true"}]}`,
		},
		{
			action: "CreateLoadBalancerPolicy",
			in:     `{"LoadBalancerName":"a1b2","PolicyName":"proxy","PolicyTypeName":"ProxyProtocolPolicyType","PolicyAttributes":[{"AttributeName":"ProxyProtocol","AttributeValue":"true"}]}`,
		},
		{
			action: "CreateLoadBalancerPolicy",
			in:     `{"LoadBalancerName":"a1b2","PolicyName":"proxy","PolicyTypeName":"ProxyProtocolPolicyType"}`,
			code:   "DuplicatePolicyName",
		},
		{
			action: "CreateLoadBalancerPolicy",
			in:     `{"LoadBalancerName":"a1b2","PolicyName":"ssl","PolicyTypeName":"SSLNegotiationPolicyType","PolicyAttributes":[{"AttributeName":"Reference-Security-Policy","AttributeValue":"ELBSecurityPolicy-TLS-1-2-2017-01"}]}`,
		},
		{action: "CreateLoadBalancerPolicy", in: `{"LoadBalancerName":"a1b2","PolicyName":"x","PolicyTypeName":"X"}`, code: "PolicyTypeNotFound"},
		{action: "CreateLoadBalancerPolicy", in: `{"LoadBalancerName":"a1b2"}`, code: "ValidationError"},
		{action: "CreateLoadBalancerPolicy", in: none, code: "LoadBalancerNotFound"},
		{action: "DescribeLoadBalancerPolicies", in: `{"LoadBalancerName":"a1b2","PolicyNames":["ssl"]}`, want: map[string]string{
			"PolicyDescriptions.#":                                             "1",
			"PolicyDescriptions.0.PolicyTypeName":                              "SSLNegotiationPolicyType",
			"PolicyDescriptions.0.PolicyAttributeDescriptions.0.AttributeName": "Reference-Security-Policy",
		}},
		{action: "DescribeLoadBalancerPolicies", in: `{"LoadBalancerName":"a1b2"}`, want: map[string]string{"PolicyDescriptions.#": "2"}},
		{action: "DescribeLoadBalancerPolicies", in: `{"LoadBalancerName":"a1b2","PolicyNames":["none"]}`, code: "PolicyNotFound"},
		{action: "DescribeLoadBalancerPolicies", in: `{}`, code: "ValidationError"},
		{action: "DescribeLoadBalancerPolicies", in: none, code: "LoadBalancerNotFound"},
		{action: "SetLoadBalancerPoliciesForBackendServer", in: `{"LoadBalancerName":"a1b2","InstancePort":30080,"PolicyNames":["proxy"]}`},
		{action: "SetLoadBalancerPoliciesForBackendServer", in: `{"LoadBalancerName":"a1b2","InstancePort":30443,"PolicyNames":["proxy"]}`},
		{action: "SetLoadBalancerPoliciesForBackendServer", in: `{"LoadBalancerName":"a1b2","InstancePort":30443,"PolicyNames":[]}`},
		{action: "SetLoadBalancerPoliciesForBackendServer", in: `{"LoadBalancerName":"a1b2","InstancePort":30080,"PolicyNames":["none"]}`, code: "PolicyNotFound"},
		{
			action: "SetLoadBalancerPoliciesForBackendServer",
			in:     `{"LoadBalancerName":"a1b2","InstancePort":31000,"PolicyNames":["proxy"]}`,
			code:   "InvalidConfigurationRequest",
		},
		{action: "SetLoadBalancerPoliciesForBackendServer", in: `{"LoadBalancerName":"a1b2","InstancePort":70000,"PolicyNames":["proxy"]}`, code: "ValidationError"},
		{action: "SetLoadBalancerPoliciesForBackendServer", in: none, code: "LoadBalancerNotFound"},
		{action: "SetLoadBalancerPoliciesOfListener", in: `{"LoadBalancerName":"a1b2","LoadBalancerPort":443,"PolicyNames":["ssl"]}`},
		{action: "SetLoadBalancerPoliciesOfListener", in: `{"LoadBalancerName":"a1b2","LoadBalancerPort":444,"PolicyNames":["ssl"]}`, code: "ListenerNotFound"},
		{action: "SetLoadBalancerPoliciesOfListener", in: `{"LoadBalancerName":"a1b2","LoadBalancerPort":443,"PolicyNames":["none"]}`, code: "PolicyNotFound"},
		{action: "SetLoadBalancerPoliciesOfListener", in: `{"LoadBalancerName":"a1b2","LoadBalancerPort":70000}`, code: "ValidationError"},
		{action: "SetLoadBalancerPoliciesOfListener", in: none, code: "LoadBalancerNotFound"},
		{action: "DescribeLoadBalancers", in: `{}`, want: map[string]string{
			"LoadBalancerDescriptions.#":                                                  "2",
			"LoadBalancerDescriptions.0.BackendServerDescriptions.#":                      "1",
			"LoadBalancerDescriptions.0.BackendServerDescriptions.0.InstancePort":         "30080",
			"LoadBalancerDescriptions.0.BackendServerDescriptions.0.PolicyNames.0":        "proxy",
			"LoadBalancerDescriptions.0.Policies.OtherPolicies.#":                         "2",
			"LoadBalancerDescriptions.0.ListenerDescriptions.1.PolicyNames.0":             "ssl",
			"LoadBalancerDescriptions.0.ListenerDescriptions.1.Listener.SSLCertificateId": cert,
			"LoadBalancerDescriptions.0.HealthCheck.Target":                               "HTTP:30081/healthz",
			"LoadBalancerDescriptions.0.Instances.0.InstanceId":                           first,
		}},
		// Policies of a listener are not settings that creation compares.
		{
			action: "CreateLoadBalancer",
			in:     `{"LoadBalancerName":"a1b2","Listeners":[{"Protocol":"TCP","LoadBalancerPort":80,"InstancePort":30080},{"Protocol":"SSL","LoadBalancerPort":443,"InstancePort":30443,"SSLCertificateId":"${cert}"}],"Subnets":["subnet-a","subnet-b"],"SecurityGroups":["sg-nodes"],"Tags":[{"Key":"kubernetes.io/service-name","Value":"default/a"}]}`,
			want:   map[string]string{"DNSName": "${dns}"},
		},

		// Placement.
		{action: "DetachLoadBalancerFromSubnets", in: `{"LoadBalancerName":"a1b2","Subnets":["subnet-b"]}`, want: map[string]string{"Subnets.#": "1"}},
		{action: "DetachLoadBalancerFromSubnets", in: `{"LoadBalancerName":"a1b2","Subnets":["subnet-b"]}`, code: "InvalidConfigurationRequest"},
		{action: "DetachLoadBalancerFromSubnets", in: `{"LoadBalancerName":"a1b2","Subnets":["subnet-a"]}`, code: "InvalidConfigurationRequest"},
		{action: "DetachLoadBalancerFromSubnets", in: none, code: "LoadBalancerNotFound"},
		{action: "DetachLoadBalancerFromSubnets", in: `{}`, code: "ValidationError"},
		{
			action: "AttachLoadBalancerToSubnets",
			in:     `{"LoadBalancerName":"a1b2","Subnets":["subnet-b"]}`,
			want:   map[string]string{"Subnets.#": "2", "Subnets.1": "subnet-b"},
		},
		{action: "AttachLoadBalancerToSubnets", in: `{"LoadBalancerName":"a1b2","Subnets":["subnet-x"]}`, code: "SubnetNotFound"},
		{action: "AttachLoadBalancerToSubnets", in: `{"LoadBalancerName":"a1b2","Subnets":["subnet-a2"]}`, code: "InvalidConfigurationRequest"},
		{action: "AttachLoadBalancerToSubnets", in: none, code: "LoadBalancerNotFound"},
		{action: "AttachLoadBalancerToSubnets", in: `{}`, code: "ValidationError"},
		{
			action: "ApplySecurityGroupsToLoadBalancer",
			in:     `{"LoadBalancerName":"a1b2","SecurityGroups":["sg-0000000000abc0001"]}`,
			want:   map[string]string{"SecurityGroups.0": "sg-0000000000abc0001"},
		},
		{action: "ApplySecurityGroupsToLoadBalancer", in: `{"LoadBalancerName":"a1b2","SecurityGroups":["sg-x"]}`, code: "InvalidSecurityGroup"},
		{action: "ApplySecurityGroupsToLoadBalancer", in: `{"LoadBalancerName":"a1b2"}`, code: "ValidationError"},
		{action: "ApplySecurityGroupsToLoadBalancer", in: none, code: "LoadBalancerNotFound"},
		{lab: func(s *awssim.Server) error {
			return wantRefusal(s.Do("ec2", "DeleteSecurityGroup", map[string]string{"GroupId": "sg-0000000000abc0001"}), "DependencyViolation")
		}},

		// Attributes.
		{
			action: "DescribeLoadBalancerAttributes",
			in:     `{"LoadBalancerName":"a1b2"}`,
			want: map[string]string{
				"LoadBalancerAttributes.ConnectionSettings.IdleTimeout": "60",
				"LoadBalancerAttributes.CrossZoneLoadBalancing.Enabled": "false",
				"LoadBalancerAttributes.AccessLog.Enabled":              "false",
				"LoadBalancerAttributes.ConnectionDraining.Timeout":     "300",
			},
		},
		{action: "DescribeLoadBalancerAttributes", in: none, code: "LoadBalancerNotFound"},
		{action: "DescribeLoadBalancerAttributes", in: `{}`, code: "ValidationError"},
		{
			action: "ModifyLoadBalancerAttributes",
			in:     `{"LoadBalancerName":"a1b2","LoadBalancerAttributes":{"AccessLog":{"Enabled":true,"EmitInterval":60,"S3BucketName":"b","S3BucketPrefix":"p"},"ConnectionDraining":{"Enabled":true,"Timeout":20},"ConnectionSettings":{"IdleTimeout":70},"CrossZoneLoadBalancing":{"Enabled":true}}}`,
			want: map[string]string{
				"LoadBalancerName": "a1b2",
				"LoadBalancerAttributes.AccessLog.S3BucketName":         "b",
				"LoadBalancerAttributes.ConnectionSettings.IdleTimeout": "70",
			},
		},
		{action: "DescribeLoadBalancerAttributes", in: `{"LoadBalancerName":"a1b2"}`, want: map[string]string{
			"LoadBalancerAttributes.AccessLog.EmitInterval":         "60",
			"LoadBalancerAttributes.AccessLog.S3BucketPrefix":       "p",
			"LoadBalancerAttributes.ConnectionDraining.Enabled":     "true",
			"LoadBalancerAttributes.CrossZoneLoadBalancing.Enabled": "true",
		}},
		{
			action: "ModifyLoadBalancerAttributes",
			in:     `{"LoadBalancerName":"inside","LoadBalancerAttributes":{"AccessLog":{"Enabled":true}}}`,
			code:   "InvalidConfigurationRequest",
		},
		{
			action: "ModifyLoadBalancerAttributes",
			in:     `{"LoadBalancerName":"a1b2","LoadBalancerAttributes":{"ConnectionSettings":{"IdleTimeout":5000}}}`,
			code:   "ValidationError",
		},
		{
			action: "ModifyLoadBalancerAttributes",
			raw:    map[string]string{"LoadBalancerName": "a1b2", "LoadBalancerAttributes.AccessLog.Enabled": "perhaps"},
			code:   "ValidationError",
		},
		{action: "ModifyLoadBalancerAttributes", in: none, code: "LoadBalancerNotFound"},

		// Tags.
		{action: "AddTags", in: `{"LoadBalancerNames":["a1b2","inside"],"Tags":[{"Key":"team","Value":"x"}]}`},
		{action: "AddTags", in: `{"LoadBalancerNames":["none"],"Tags":[{"Key":"team","Value":"x"}]}`, code: "LoadBalancerNotFound"},
		{action: "AddTags", in: `{"LoadBalancerNames":["a1b2"],"Tags":[{"Key":"team"},{"Key":"team"}]}`, code: "DuplicateTagKeys"},
		{action: "AddTags", in: `{"LoadBalancerNames":["a1b2"],"Tags":[` + repeated(`{"Key":"@"}`, 9) + `]}`, code: "TooManyTags"},
		{action: "AddTags", in: `{"Tags":[{"Key":"team"}]}`, code: "ValidationError"},
		{
			action: "DescribeTags",
			in:     `{"LoadBalancerNames":["inside"]}`,
			want:   map[string]string{"TagDescriptions.0.LoadBalancerName": "inside", "TagDescriptions.0.Tags.0.Key": "team"},
		},
		{action: "DescribeTags", in: `{"LoadBalancerNames":["none"]}`, code: "LoadBalancerNotFound"},
		{action: "DescribeTags", in: `{}`, code: "ValidationError"},

		// The end.
		{action: "DeleteLoadBalancer", in: `{"LoadBalancerName":"inside"}`},
		{action: "DeleteLoadBalancer", in: `{"LoadBalancerName":"inside"}`},
		{action: "DeleteLoadBalancer", in: `{}`, code: "ValidationError"},
		{action: "DescribeLoadBalancers", in: `{"LoadBalancerNames":["a1b2","inside"]}`, code: "LoadBalancerNotFound"},
	}
}
