package elbv2

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (b *Balancers) targetActions() []wire.Action {
	params := []string{"TargetGroupArn", "Targets.member.N.Id", "Targets.member.N.Port"}
	return []wire.Action{
		{
			Name: "RegisterTargets", Mutating: true,
			Params: params,
			Errors: []string{"ValidationError", "TargetGroupNotFound", "InvalidTarget"},
			Note:   "All targets of a call or none; each must be a running instance.",
			Do:     b.register,
		},
		{
			Name:     "DeregisterTargets",
			Mutating: true,
			Params:   params,
			Errors:   []string{"ValidationError", "TargetGroupNotFound", "InvalidTarget"},
			Note:     "Refuses an instance that is neither registered nor known to EC2. At once: no draining. Targets stay registered when their instance ends.",
			Do:       b.deregister,
		},
		{
			Name:   "DescribeTargetHealth",
			Params: params,
			Errors: []string{"ValidationError", "TargetGroupNotFound", "InvalidTarget"},
			Note:   "healthy for running targets of a group in use, unused for the others; nothing is probed.",
			Do:     b.describeHealth,
		},
	}
}

// targets reads the targets of a call; without a port they have the group's.
func targets(c *wire.Call, t *TargetGroup) ([]Target, error) {
	var out []Target
	for _, s := range c.Structs("Targets.member") {
		port, sent, err := s.Number("Port", 1, 65535, "ValidationError")
		if err != nil {
			return nil, err
		}
		if !sent {
			port = t.Port
		}
		out = append(out, Target{ID: s["Id"], Port: port})
	}
	return out, nil
}

func invalidTarget(id, why string) error {
	return wire.Fail("InvalidTarget", "The following targets %s: '%s'", why, id)
}

func (b *Balancers) register(c *wire.Call) ([]wire.Node, error) {
	t, err := b.targetGroup(c)
	if err != nil {
		return nil, err
	}
	added, err := targets(c, t)
	if err != nil {
		return nil, err
	}
	for _, x := range added {
		if b.region.Instances[x.ID] == nil {
			return nil, invalidTarget(x.ID, "do not exist")
		}
		// "If the target is an EC2 instance, it must be in the running state when you register it."
		if !b.region.Running(x.ID) {
			return nil, invalidTarget(x.ID, "are not in a running state and cannot be registered")
		}
	}
	all := append(slices.Clone(t.Targets), added...)
	slices.SortFunc(all, func(x, y Target) int { return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Port, y.Port)) })
	t.Targets = slices.Compact(all)
	return nil, nil
}

// deregister takes a target without a port off the group on every port.
func (b *Balancers) deregister(c *wire.Call) ([]wire.Node, error) {
	t, err := b.targetGroup(c)
	if err != nil {
		return nil, err
	}
	left := slices.Clone(t.Targets)
	for _, s := range c.Structs("Targets.member") {
		id := s["Id"]
		port, sent, err := s.Number("Port", 1, 65535, "ValidationError")
		if err != nil {
			return nil, err
		}
		registered := slices.ContainsFunc(t.Targets, func(x Target) bool { return x.ID == id })
		if !registered && b.region.Instances[id] == nil {
			return nil, invalidTarget(id, "do not exist")
		}
		left = slices.DeleteFunc(left, func(x Target) bool { return x.ID == id && (!sent || x.Port == port) })
	}
	t.Targets = left
	return nil, nil
}

func (b *Balancers) describeHealth(c *wire.Call) ([]wire.Node, error) {
	t, err := b.targetGroup(c)
	if err != nil {
		return nil, err
	}
	asked, err := targets(c, t)
	if err != nil {
		return nil, err
	}
	for _, x := range asked {
		if b.region.Instances[x.ID] == nil && !slices.Contains(t.Targets, x) {
			return nil, invalidTarget(x.ID, "do not exist")
		}
	}
	if len(asked) == 0 {
		asked = t.Targets
	}
	used := len(b.usersOf(t.ARN)) > 0
	list := wire.El("TargetHealthDescriptions")
	for _, x := range asked {
		state, reason := "healthy", ""
		switch {
		case !slices.Contains(t.Targets, x):
			state, reason = "unused", "Target.NotRegistered"
		case !used:
			state, reason = "unused", "Target.NotInUse"
		case !b.region.Running(x.ID):
			state, reason = "unused", "Target.InvalidState"
		}
		list.Children = append(list.Children, wire.El("member", wire.Text("HealthCheckPort", strconv.Itoa(x.Port)),
			wire.El("Target", wire.Text("Id", x.ID), wire.Int("Port", x.Port)),
			wire.El("TargetHealth", wire.Text("State", state), wire.Opt("Reason", reason))))
	}
	return []wire.Node{list}, nil
}
