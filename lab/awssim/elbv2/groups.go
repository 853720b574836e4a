package elbv2

import (
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

var healthParams = []string{
	"HealthCheckProtocol",
	"HealthCheckPort",
	"HealthCheckPath",
	"HealthCheckIntervalSeconds",
	"HealthCheckTimeoutSeconds",
	"HealthyThresholdCount",
	"UnhealthyThresholdCount",
	"HealthCheckEnabled",
}

func (b *Balancers) groupActions() []wire.Action {
	return []wire.Action{
		{
			Name:   "DescribeTargetGroups",
			Params: []string{"LoadBalancerArn", "TargetGroupArns.member.N", "Names.member.N"},
			Errors: []string{"LoadBalancerNotFound", "TargetGroupNotFound"},
			Note:   "No paging.",
			Do:     b.describeGroups,
		},
		{
			Name:     "CreateTargetGroup",
			Mutating: true,
			Params: append(
				[]string{
					"Name",
					"Protocol",
					"Port",
					"VpcId",
					"TargetType",
					"IpAddressType",
					"Tags.member.N.Key",
					"Tags.member.N.Value",
				},
				healthParams...),
			Errors: []string{
				"ValidationError",
				"DuplicateTargetGroupName",
				"InvalidConfigurationRequest",
				"DuplicateTagKeys",
				"TooManyTags",
			},
			Note: "Target type instance only. Idempotent for the same settings; tags are not compared.",
			Do:   b.createGroup,
		},
		{
			Name: "ModifyTargetGroup", Mutating: true,
			Params: append([]string{"TargetGroupArn"}, healthParams...),
			Errors: []string{"ValidationError", "TargetGroupNotFound", "InvalidConfigurationRequest"},
			Do:     b.modifyGroup,
		},
		{
			Name: "DeleteTargetGroup", Mutating: true,
			Params: []string{"TargetGroupArn"},
			Errors: []string{"ValidationError", "ResourceInUse"},
			Note:   "Succeeds for one that does not exist.",
			Do:     b.deleteGroup,
		},
		{
			Name:   "DescribeTargetGroupAttributes",
			Params: []string{"TargetGroupArn"},
			Errors: []string{"ValidationError", "TargetGroupNotFound"},
			Do:     b.describeGroupAttributes,
		},
		{
			Name: "ModifyTargetGroupAttributes", Mutating: true,
			Params: []string{"TargetGroupArn", "Attributes.member.N.Key", "Attributes.member.N.Value"},
			Errors: []string{"ValidationError", "TargetGroupNotFound", "InvalidConfigurationRequest"},
			Note:   "Only the attributes that a network load balancer's target group is born with.",
			Do:     b.modifyGroupAttributes,
		},
	}
}

func (b *Balancers) describeGroups(c *wire.Call) ([]wire.Node, error) {
	arns, err := picked(
		b.TargetGroups,
		c.List("TargetGroupArns.member"),
		c.List("Names.member"),
		func(t *TargetGroup) string { return t.Name },
		noTargetGroup,
	)
	if err != nil {
		return nil, err
	}
	balancer := c.Params["LoadBalancerArn"]
	if balancer != "" && b.LoadBalancers[balancer] == nil {
		return nil, noBalancer(balancer)
	}
	list := wire.El("TargetGroups")
	for _, arn := range arns {
		if balancer == "" || slices.Contains(b.usersOf(arn), balancer) {
			list.Children = append(list.Children, b.groupNode(b.TargetGroups[arn]))
		}
	}
	return []wire.Node{list}, nil
}

func (b *Balancers) groupNode(t *TargetGroup) wire.Node {
	h, matcher := t.HealthCheck, wire.Node{}
	if h.Protocol != "TCP" {
		matcher = wire.El("Matcher", wire.Text("HttpCode", "200-399"))
	}
	return wire.El(
		"member",
		wire.Text("TargetGroupArn", t.ARN),
		wire.Text("TargetGroupName", t.Name),
		wire.Text("Protocol", t.Protocol),
		wire.Int(
			"Port",
			t.Port,
		),
		wire.Text("VpcId", b.region.VPC.ID),
		wire.Text("TargetType", "instance"),
		wire.Text("IpAddressType", "ipv4"),
		wire.Text(
			"HealthCheckEnabled",
			"true",
		),
		wire.Text("HealthCheckProtocol", h.Protocol),
		wire.Text("HealthCheckPort", h.Port),
		wire.Opt(
			"HealthCheckPath",
			h.Path,
		),
		wire.Int("HealthCheckIntervalSeconds", h.Interval),
		wire.Int("HealthCheckTimeoutSeconds", h.Timeout),
		wire.Int(
			"HealthyThresholdCount",
			h.HealthyThreshold,
		),
		wire.Int("UnhealthyThresholdCount", h.UnhealthyThreshold),
		matcher,
		wire.Strings("LoadBalancerArns", "member", b.usersOf(t.ARN)),
	)
}

func (b *Balancers) createGroup(c *wire.Call) ([]wire.Node, error) {
	t, err := b.wantedGroup(c)
	if err != nil {
		return nil, err
	}
	for _, have := range b.TargetGroups {
		if have.Name != t.Name {
			continue
		}
		// "If you attempt to create multiple target groups with the same settings, each call succeeds."
		if have.Protocol != t.Protocol || have.Port != t.Port || have.HealthCheck != t.HealthCheck {
			return nil, wire.Fail(
				"DuplicateTargetGroupName",
				"A target group with the same name '%s' exists, but with different settings",
				t.Name,
			)
		}
		return []wire.Node{wire.El("TargetGroups", b.groupNode(have))}, nil
	}
	t.ARN = b.nextARN("targetgroup/" + t.Name)
	b.TargetGroups[t.ARN] = t
	c.Made(wire.ShortARN(t.ARN))
	return []wire.Node{wire.El("TargetGroups", b.groupNode(t))}, nil
}

// wantedGroup is the target group that a CreateTargetGroup call describes, checked.
func (b *Balancers) wantedGroup(c *wire.Call) (*TargetGroup, error) {
	name, err := required(c, "Name")
	if err != nil {
		return nil, err
	}
	if !wire.ValidName(name) {
		return nil, wire.Fail("ValidationError", "The target group name '%s' is not valid", name)
	}
	if kind := c.Params["TargetType"]; kind != "" && kind != "instance" {
		return nil, wire.Unknown("ValidationError", "Only targets of type instance are simulated, not '%s'", kind)
	}
	protocol := c.Params["Protocol"]
	if !slices.Contains([]string{"TCP", "TLS", "UDP", "TCP_UDP"}, protocol) {
		return nil, wire.Fail(
			"ValidationError",
			"The protocol '%s' is not valid for a network load balancer's target group",
			protocol,
		)
	}
	port, _, err := c.Number("Port", 1, 65535, "ValidationError")
	if err != nil {
		return nil, err
	}
	vpc, err := required(c, "VpcId")
	if err != nil {
		return nil, err
	}
	if vpc != b.region.VPC.ID {
		return nil, wire.Fail("ValidationError", "The VPC ID '%s' is not found", vpc)
	}
	// The defaults are those of the parameters' descriptions, for the protocols of network load balancers.
	h := HealthCheck{Protocol: "TCP", Port: "traffic-port", Interval: 30, HealthyThreshold: 3, UnhealthyThreshold: 3}
	if err := settleHealth(c, &h); err != nil {
		return nil, err
	}
	tags, err := c.Tagged("Tags.member", nil, maxTags)
	if err != nil {
		return nil, err
	}
	return &TargetGroup{
		Name:        name,
		Protocol:    protocol,
		Port:        port,
		HealthCheck: h,
		Targets:     []Target{},
		Tags:        tags,
		Attributes: map[string]string{
			"deregistration_delay.timeout_seconds":                "300",
			"deregistration_delay.connection_termination.enabled": "false",
			"preserve_client_ip.enabled":                          "true",
			"proxy_protocol_v2.enabled":                           "false",
			"stickiness.enabled":                                  "false",
			"stickiness.type":                                     "source_ip",
		},
	}, nil
}

// settleHealth lays a call's parameters over a health check and checks the result.
func settleHealth(c *wire.Call, h *HealthCheck) error {
	if c.Has("HealthCheckEnabled") && c.Params["HealthCheckEnabled"] != "true" {
		return wire.Fail(
			"InvalidConfigurationRequest",
			"Health checks cannot be disabled for target groups with target type 'instance'",
		)
	}
	if err := settleProbe(c, h); err != nil {
		return err
	}
	if err := c.Numbers(wire.Field{Name: "HealthCheckIntervalSeconds", Low: 5, High: 300, Into: &h.Interval},
		wire.Field{Name: "HealthCheckTimeoutSeconds", Low: 2, High: 120, Into: &h.Timeout},
		wire.Field{Name: "HealthyThresholdCount", Low: 2, High: 10, Into: &h.HealthyThreshold},
		wire.Field{Name: "UnhealthyThresholdCount", Low: 2, High: 10, Into: &h.UnhealthyThreshold}); err != nil {
		return err
	}
	if h.Timeout == 0 {
		// "6 seconds for HTTP health checks and 10 seconds for TCP and HTTPS health checks".
		h.Timeout = 10
		if h.Protocol == "HTTP" {
			h.Timeout = 6
		}
	}
	return nil
}

// settleProbe is settleHealth for what is asked: protocol, port and path.
func settleProbe(c *wire.Call, h *HealthCheck) error {
	if p := c.Params["HealthCheckProtocol"]; p != "" {
		h.Protocol = strings.ToUpper(p)
	}
	if !slices.Contains([]string{"TCP", "HTTP", "HTTPS"}, h.Protocol) {
		return wire.Fail("InvalidConfigurationRequest", "The protocol %s is not supported for health checks", h.Protocol)
	}
	if p := c.Params["HealthCheckPort"]; p != "" {
		h.Port = p
	}
	if p, sent := c.Params["HealthCheckPath"]; sent {
		h.Path = p
	}
	if h.Protocol == "TCP" && h.Path != "" {
		return wire.Fail(
			"InvalidConfigurationRequest",
			"You cannot specify a health check path for health checks with protocol TCP",
		)
	}
	if h.Protocol != "TCP" && h.Path == "" {
		h.Path = "/"
	}
	return nil
}

func (b *Balancers) modifyGroup(c *wire.Call) ([]wire.Node, error) {
	t, err := b.targetGroup(c)
	if err != nil {
		return nil, err
	}
	h := t.HealthCheck
	if err := settleHealth(c, &h); err != nil {
		return nil, err
	}
	t.HealthCheck = h
	return []wire.Node{wire.El("TargetGroups", b.groupNode(t))}, nil
}

func (b *Balancers) deleteGroup(c *wire.Call) ([]wire.Node, error) {
	arn, err := required(c, "TargetGroupArn")
	if err != nil {
		return nil, err
	}
	if len(b.usersOf(arn)) > 0 {
		return nil, wire.Fail("ResourceInUse", "Target group '%s' is currently in use by a listener or a rule", arn)
	}
	delete(b.TargetGroups, arn)
	return nil, nil
}

func (b *Balancers) describeGroupAttributes(c *wire.Call) ([]wire.Node, error) {
	t, err := b.targetGroup(c)
	if err != nil {
		return nil, err
	}
	return []wire.Node{attributeNodes(t.Attributes)}, nil
}

func (b *Balancers) modifyGroupAttributes(c *wire.Call) ([]wire.Node, error) {
	t, err := b.targetGroup(c)
	if err != nil {
		return nil, err
	}
	attributes, err := changed(c, t.Attributes)
	if err != nil {
		return nil, err
	}
	// "Client IP preservation cannot be disabled for UDP and TCP_UDP target groups."
	if attributes["preserve_client_ip.enabled"] == "false" && strings.HasSuffix(t.Protocol, "UDP") {
		return nil, wire.Fail(
			"InvalidConfigurationRequest",
			"Client IP preservation cannot be disabled for the protocol %s",
			t.Protocol,
		)
	}
	t.Attributes = attributes
	return []wire.Node{attributeNodes(attributes)}, nil
}
