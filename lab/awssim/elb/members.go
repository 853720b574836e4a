package elb

import (
	"regexp"
	"slices"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

var validTarget = regexp.MustCompile(`^((TCP|SSL):[0-9]{1,5}|(HTTP|HTTPS):[0-9]{1,5}/.*)$`)

func (b *Balancers) memberActions() []wire.Action {
	members := []string{"LoadBalancerName", "Instances.member.N.InstanceId"}
	return []wire.Action{
		{
			Name: "RegisterInstancesWithLoadBalancer", Mutating: true,
			Params: members,
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "InvalidInstance"},
			Note:   "All instances of a call or none; each must be running.",
			Do:     b.register,
		},
		{
			Name:     "DeregisterInstancesFromLoadBalancer",
			Mutating: true,
			Params:   members,
			Errors:   []string{"ValidationError", "LoadBalancerNotFound", "InvalidInstance"},
			Note:     "Refuses an instance that is neither registered nor known to EC2. Members stay registered when their instance ends.",
			Do:       b.deregister,
		},
		{
			Name:   "DescribeInstanceHealth",
			Params: members,
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "InvalidInstance"},
			Note:   "InService for running members, OutOfService for the others; nothing is probed.",
			Do:     b.describeHealth,
		},
		{
			Name:     "ConfigureHealthCheck",
			Mutating: true,
			Params: []string{
				"LoadBalancerName",
				"HealthCheck.Target",
				"HealthCheck.Interval",
				"HealthCheck.Timeout",
				"HealthCheck.UnhealthyThreshold",
				"HealthCheck.HealthyThreshold",
			},
			Errors: []string{"ValidationError", "LoadBalancerNotFound"},
			Do:     b.configureHealthCheck,
		},
	}
}

func instances(ids []string) wire.Node {
	list := wire.El("Instances")
	for _, id := range ids {
		list.Children = append(list.Children, wire.El("member", wire.Text("InstanceId", id)))
	}
	return list
}

func memberIDs(c *wire.Call) []string {
	var out []string
	for _, m := range c.Structs("Instances.member") {
		out = append(out, m["InstanceId"])
	}
	return sorted(out)
}

func unknownMember(id string) error {
	return wire.Fail("InvalidInstance", "Could not find EC2 instance %s.", id)
}

func (b *Balancers) register(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	added := memberIDs(c)
	for _, id := range added {
		if b.region.Instances[id] == nil {
			return nil, unknownMember(id)
		}
		// "The instance must be a running instance in the same network as the load balancer".
		if !b.region.Running(id) {
			return nil, wire.Fail("InvalidInstance", "EC2 instance %s is not running.", id)
		}
	}
	l.Instances = sorted(append(l.Instances, added...))
	return []wire.Node{instances(l.Instances)}, nil
}

func (b *Balancers) deregister(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	removed := memberIDs(c)
	for _, id := range removed {
		if !slices.Contains(l.Instances, id) && b.region.Instances[id] == nil {
			return nil, unknownMember(id)
		}
	}
	l.Instances = slices.DeleteFunc(l.Instances, func(id string) bool { return slices.Contains(removed, id) })
	return []wire.Node{instances(l.Instances)}, nil
}

func (b *Balancers) describeHealth(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	asked := memberIDs(c)
	if len(asked) == 0 {
		asked = l.Instances
	}
	states := wire.El("InstanceStates")
	for _, id := range asked {
		if b.region.Instances[id] == nil {
			return nil, unknownMember(id)
		}
		state, reason, text := "InService", "N/A", "N/A"
		if !slices.Contains(l.Instances, id) || !b.region.Running(id) {
			state, reason, text = "OutOfService", "Instance", "Instance is not currently registered with the LoadBalancer or is not running."
		}
		states.Children = append(states.Children, wire.El("member", wire.Text("InstanceId", id), wire.Text("State", state),
			wire.Text("ReasonCode", reason), wire.Text("Description", text)))
	}
	return []wire.Node{states}, nil
}

func (h HealthCheck) node() wire.Node {
	return wire.El(
		"HealthCheck",
		wire.Text("Target", h.Target),
		wire.Int("Interval", h.Interval),
		wire.Int("Timeout", h.Timeout),
		wire.Int("UnhealthyThreshold", h.UnhealthyThreshold),
		wire.Int("HealthyThreshold", h.HealthyThreshold),
	)
}

func (b *Balancers) configureHealthCheck(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	h := HealthCheck{Target: c.Params["HealthCheck.Target"]}
	if !validTarget.MatchString(h.Target) {
		return nil, wire.Fail(
			"ValidationError",
			"HealthCheck Target '%s' must be protocol:port, with a path for HTTP and HTTPS",
			h.Target,
		)
	}
	// The ranges are those of the data type HealthCheck in the reference.
	if err := c.Numbers(
		wire.Field{Name: "HealthCheck.Interval", Low: 5, High: 300, Into: &h.Interval},
		wire.Field{Name: "HealthCheck.Timeout", Low: 2, High: 60, Into: &h.Timeout},
		wire.Field{Name: "HealthCheck.UnhealthyThreshold", Low: 2, High: 10, Into: &h.UnhealthyThreshold},
		wire.Field{Name: "HealthCheck.HealthyThreshold", Low: 2, High: 10, Into: &h.HealthyThreshold},
	); err != nil {
		return nil, err
	}
	if h.Interval == 0 || h.Timeout == 0 || h.UnhealthyThreshold == 0 || h.HealthyThreshold == 0 {
		return nil, wire.Fail(
			"ValidationError",
			"HealthCheck needs Interval, Timeout, UnhealthyThreshold and HealthyThreshold",
		)
	}
	if h.Timeout >= h.Interval {
		return nil, wire.Fail("ValidationError", "HealthCheck timeout must be less than interval")
	}
	l.HealthCheck = h
	return []wire.Node{h.node()}, nil
}
