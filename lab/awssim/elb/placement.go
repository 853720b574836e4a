package elb

import (
	"slices"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (b *Balancers) placementActions() []wire.Action {
	return []wire.Action{{
		Name: "AttachLoadBalancerToSubnets", Mutating: true,
		Params: []string{"LoadBalancerName", "Subnets.member.N"},
		Errors: []string{"ValidationError", "LoadBalancerNotFound", "SubnetNotFound", "InvalidConfigurationRequest"},
		Note:   "At most one subnet per availability zone.",
		Do:     b.attach,
	}, {
		Name: "DetachLoadBalancerFromSubnets", Mutating: true,
		Params: []string{"LoadBalancerName", "Subnets.member.N"},
		Errors: []string{"ValidationError", "LoadBalancerNotFound", "InvalidConfigurationRequest"},
		Note:   "Not the last one, and not one that is not attached.",
		Do:     b.detach,
	}, {
		Name: "ApplySecurityGroupsToLoadBalancer", Mutating: true,
		Params: []string{"LoadBalancerName", "SecurityGroups.member.N"},
		Errors: []string{"ValidationError", "LoadBalancerNotFound", "InvalidSecurityGroup"},
		Do:     b.applyGroups,
	}}
}

// subnets are those of a load balancer after more have been attached.
func (b *Balancers) subnets(have, more []string) ([]string, error) {
	all := sorted(append(slices.Clone(have), more...))
	zones := map[string]string{}
	for _, id := range all {
		s := b.region.Subnets[id]
		if s == nil {
			return nil, wire.Fail("SubnetNotFound", "The subnet ID '%s' does not exist", id)
		}
		if other := zones[s.Zone]; other != "" {
			return nil, conflict("ELB cannot be attached to multiple subnets in the same AZ: %s and %s.", other, id)
		}
		zones[s.Zone] = id
	}
	return all, nil
}

func (b *Balancers) groups(list []string) ([]string, error) {
	for _, id := range list {
		if b.region.SecurityGroups[id] == nil {
			return nil, wire.Fail("InvalidSecurityGroup", "The security group '%s' does not exist", id)
		}
	}
	return sorted(list), nil
}

func (b *Balancers) attach(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	all, err := b.subnets(l.Subnets, c.List("Subnets.member"))
	if err != nil {
		return nil, err
	}
	l.Subnets = all
	return []wire.Node{wire.Strings("Subnets", "member", all)}, nil
}

func (b *Balancers) detach(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	gone := c.List("Subnets.member")
	for _, id := range gone {
		if !slices.Contains(l.Subnets, id) {
			return nil, conflict("%s is not attached to the load balancer", id)
		}
	}
	left := slices.DeleteFunc(slices.Clone(l.Subnets), func(id string) bool { return slices.Contains(gone, id) })
	if len(left) == 0 {
		return nil, conflict("There must be at least one subnet attached to the load balancer")
	}
	l.Subnets = left
	return []wire.Node{wire.Strings("Subnets", "member", left)}, nil
}

func (b *Balancers) applyGroups(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	groups, err := b.groups(c.List("SecurityGroups.member"))
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, wire.Fail("ValidationError", "SecurityGroups must not be empty")
	}
	l.SecurityGroups = groups
	return []wire.Node{wire.Strings("SecurityGroups", "member", groups)}, nil
}
