package elb

import (
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (b *Balancers) attributeActions() []wire.Action {
	const p = "LoadBalancerAttributes."
	return []wire.Action{
		{
			Name:   "DescribeLoadBalancerAttributes",
			Params: []string{"LoadBalancerName"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound"},
			Do:     b.describeAttributes,
		},
		{
			Name:     "ModifyLoadBalancerAttributes",
			Mutating: true,
			Params: []string{
				"LoadBalancerName",
				p + "AccessLog.Enabled",
				p + "AccessLog.EmitInterval",
				p + "AccessLog.S3BucketName",
				p + "AccessLog.S3BucketPrefix",
				p + "ConnectionDraining.Enabled",
				p + "ConnectionDraining.Timeout",
				p + "ConnectionSettings.IdleTimeout",
				p + "CrossZoneLoadBalancing.Enabled",
			},
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "InvalidConfigurationRequest"},
			Note:   "What is not sent stays as it is. No additional attributes. The bucket is not looked at.",
			Do:     b.modifyAttributes,
		},
	}
}

func (a Attributes) node() wire.Node {
	log := wire.El(
		"AccessLog",
		wire.Bool("Enabled", a.AccessLog),
		wire.Opt("S3BucketName", a.AccessLogBucket),
		wire.Opt("S3BucketPrefix", a.AccessLogPrefix),
	)
	if a.AccessLogEvery != 0 {
		log.Children = append(log.Children, wire.Int("EmitInterval", a.AccessLogEvery))
	}
	return wire.El("LoadBalancerAttributes", log,
		wire.El("ConnectionDraining", wire.Bool("Enabled", a.Draining), wire.Int("Timeout", a.DrainingSeconds)),
		wire.El("ConnectionSettings", wire.Int("IdleTimeout", a.IdleSeconds)),
		wire.El("CrossZoneLoadBalancing", wire.Bool("Enabled", a.CrossZone)))
}

func (b *Balancers) describeAttributes(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	return []wire.Node{l.Attributes.node()}, nil
}

func (b *Balancers) modifyAttributes(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	a := l.Attributes
	const p = "LoadBalancerAttributes."
	for name, into := range map[string]*bool{
		"AccessLog.Enabled": &a.AccessLog, "ConnectionDraining.Enabled": &a.Draining, "CrossZoneLoadBalancing.Enabled": &a.CrossZone,
	} {
		switch v := c.Params[p+name]; v {
		case "true", "false":
			*into = v == "true"
		case "":
		default:
			return nil, wire.Fail("ValidationError", "%s must be true or false, not %s", name, v)
		}
	}
	if err := c.Numbers(wire.Field{Name: p + "AccessLog.EmitInterval", Low: 5, High: 60, Into: &a.AccessLogEvery},
		wire.Field{Name: p + "ConnectionDraining.Timeout", Low: 1, High: 3600, Into: &a.DrainingSeconds},
		wire.Field{Name: p + "ConnectionSettings.IdleTimeout", Low: 1, High: 4000, Into: &a.IdleSeconds}); err != nil {
		return nil, err
	}
	if v, sent := c.Params[p+"AccessLog.S3BucketName"]; sent {
		a.AccessLogBucket = v
	}
	if v, sent := c.Params[p+"AccessLog.S3BucketPrefix"]; sent {
		a.AccessLogPrefix = v
	}
	if a.AccessLog && a.AccessLogBucket == "" {
		return nil, conflict("S3 Bucket name must be specified to enable access logs")
	}
	l.Attributes = a
	return []wire.Node{wire.Text("LoadBalancerName", l.Name), a.node()}, nil
}
