package elbv2

import (
	"maps"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (b *Balancers) settingActions() []wire.Action {
	return []wire.Action{
		{
			Name:   "DescribeLoadBalancerAttributes",
			Params: []string{"LoadBalancerArn"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound"},
			Do:     b.describeAttributes,
		},
		{
			Name:     "ModifyLoadBalancerAttributes",
			Mutating: true,
			Params:   []string{"LoadBalancerArn", "Attributes.member.N.Key", "Attributes.member.N.Value"},
			Errors:   []string{"ValidationError", "LoadBalancerNotFound", "InvalidConfigurationRequest"},
			Note:     "Only the attributes that a network load balancer is born with. Access logs need a bucket, which is not looked at.",
			Do:       b.modifyAttributes,
		},
		{
			Name: "SetSecurityGroups", Mutating: true,
			Params: []string{"LoadBalancerArn", "SecurityGroups.member.N"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "InvalidSecurityGroup", "InvalidConfigurationRequest"},
			Note:   "Refused for a load balancer that was created without groups.",
			Do:     b.setGroups,
		},
	}
}

func attributeNodes(attributes map[string]string) wire.Node {
	return wire.TagNodes("Attributes", "member", "Key", "Value", attributes)
}

func (b *Balancers) describeAttributes(c *wire.Call) ([]wire.Node, error) {
	l, err := b.balancer(c)
	if err != nil {
		return nil, err
	}
	return []wire.Node{attributeNodes(l.Attributes)}, nil
}

// changed are attributes with a call's laid over them; all names must exist already.
func changed(c *wire.Call, have map[string]string) (map[string]string, error) {
	out := maps.Clone(have)
	for _, a := range c.Structs("Attributes.member") {
		if _, ok := have[a["Key"]]; !ok {
			return nil, wire.Fail("InvalidConfigurationRequest", "The attribute '%s' is not recognized", a["Key"])
		}
		out[a["Key"]] = a["Value"]
	}
	return out, nil
}

func (b *Balancers) modifyAttributes(c *wire.Call) ([]wire.Node, error) {
	l, err := b.balancer(c)
	if err != nil {
		return nil, err
	}
	attributes, err := changed(c, l.Attributes)
	if err != nil {
		return nil, err
	}
	if attributes["access_logs.s3.enabled"] == "true" && attributes["access_logs.s3.bucket"] == "" {
		return nil, wire.Fail("InvalidConfigurationRequest", "The value of 'access_logs.s3.bucket' cannot be empty")
	}
	l.Attributes = attributes
	return []wire.Node{attributeNodes(attributes)}, nil
}

// setGroups: "You can't perform this operation on a Network Load Balancer unless you specified a security group for the
// load balancer when you created it."
func (b *Balancers) setGroups(c *wire.Call) ([]wire.Node, error) {
	l, err := b.balancer(c)
	if err != nil {
		return nil, err
	}
	groups, err := b.securityGroups(c)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, wire.Fail("ValidationError", "'SecurityGroups' must have a value")
	}
	if len(l.SecurityGroups) == 0 {
		return nil, wire.Fail(
			"InvalidConfigurationRequest",
			"You cannot set security groups on a network load balancer that was created without any",
		)
	}
	l.SecurityGroups = groups
	return []wire.Node{wire.Strings("SecurityGroupIds", "member", groups)}, nil
}
