package elb

import (
	"maps"
	"slices"
	"strconv"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// policyTypes are those of DescribeLoadBalancerPolicyTypes.
var policyTypes = []string{
	"SSLNegotiationPolicyType",
	"ProxyProtocolPolicyType",
	"BackendServerAuthenticationPolicyType",
	"PublicKeyPolicyType",
	"LBCookieStickinessPolicyType",
	"AppCookieStickinessPolicyType",
}

func (b *Balancers) policyActions() []wire.Action {
	return []wire.Action{
		{
			Name:     "CreateLoadBalancerPolicy",
			Mutating: true,
			Params: []string{
				"LoadBalancerName",
				"PolicyName",
				"PolicyTypeName",
				"PolicyAttributes.member.N.AttributeName",
				"PolicyAttributes.member.N.AttributeValue",
			},
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "PolicyTypeNotFound", "DuplicatePolicyName"},
			Note:   "The same policy again is no error: both providers send the proxy protocol policy at every sync.",
			Do:     b.createPolicy,
		},
		{
			Name:   "DescribeLoadBalancerPolicies",
			Params: []string{"LoadBalancerName", "PolicyNames.member.N"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "PolicyNotFound"},
			Note:   "No sample policies.",
			Do:     b.describePolicies,
		},
		{
			Name: "SetLoadBalancerPoliciesForBackendServer", Mutating: true,
			Params: []string{"LoadBalancerName", "InstancePort", "PolicyNames.member.N"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "PolicyNotFound", "InvalidConfigurationRequest"},
			Note:   "An empty list takes all policies off the port.",
			Do:     b.setBackendPolicies,
		},
		{
			Name: "SetLoadBalancerPoliciesOfListener", Mutating: true,
			Params: []string{"LoadBalancerName", "LoadBalancerPort", "PolicyNames.member.N"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "ListenerNotFound", "PolicyNotFound"},
			Do:     b.setListenerPolicies,
		},
	}
}

func (b *Balancers) createPolicy(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	name, err := required(c, "PolicyName")
	if err != nil {
		return nil, err
	}
	p := Policy{Type: c.Params["PolicyTypeName"], Attributes: map[string]string{}}
	if !slices.Contains(policyTypes, p.Type) {
		return nil, wire.Fail("PolicyTypeNotFound", "Policy type '%s' is not found", p.Type)
	}
	for _, a := range c.Structs("PolicyAttributes.member") {
		p.Attributes[a["AttributeName"]] = a["AttributeValue"]
	}
	if have, exists := l.Policies[name]; exists && (have.Type != p.Type || !maps.Equal(have.Attributes, p.Attributes)) {
		return nil, wire.Fail("DuplicatePolicyName", "A policy with the name '%s' already exists, with other settings", name)
	}
	l.Policies[name] = p
	return nil, nil
}

func (b *Balancers) describePolicies(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	names := c.List("PolicyNames.member")
	if len(names) == 0 {
		names = wire.Keys(l.Policies)
	}
	if err := known(l, names); err != nil {
		return nil, err
	}
	list := wire.El("PolicyDescriptions")
	for _, name := range names {
		p := l.Policies[name]
		list.Children = append(
			list.Children,
			wire.El("member", wire.Text("PolicyName", name), wire.Text("PolicyTypeName", p.Type),
				wire.TagNodes("PolicyAttributeDescriptions", "member", "AttributeName", "AttributeValue", p.Attributes)),
		)
	}
	return []wire.Node{list}, nil
}

func known(l *LoadBalancer, names []string) error {
	for _, name := range names {
		if _, ok := l.Policies[name]; !ok {
			return wire.Fail("PolicyNotFound", "There is no policy with name %s for load balancer %s", name, l.Name)
		}
	}
	return nil
}

func (b *Balancers) setBackendPolicies(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	port, _, err := c.Number("InstancePort", 1, 65535, "ValidationError")
	if err != nil {
		return nil, err
	}
	names := sorted(c.List("PolicyNames.member"))
	if err := known(l, names); err != nil {
		return nil, err
	}
	key := strconv.Itoa(port)
	if len(names) == 0 {
		delete(l.Backends, key)
		return nil, nil
	}
	if !slices.ContainsFunc(l.Listeners, func(x Listener) bool { return x.InstancePort == port }) {
		return nil, conflict("No listener forwards to instance port %d", port)
	}
	l.Backends[key] = names
	return nil, nil
}

func (b *Balancers) setListenerPolicies(c *wire.Call) ([]wire.Node, error) {
	l, err := b.named(c)
	if err != nil {
		return nil, err
	}
	port, _, err := c.Number("LoadBalancerPort", 1, 65535, "ValidationError")
	if err != nil {
		return nil, err
	}
	names := sorted(c.List("PolicyNames.member"))
	if err := known(l, names); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(l.Listeners, func(x Listener) bool { return x.Port == port })
	if at < 0 {
		return nil, wire.Fail("ListenerNotFound", "There is no listener on port %d", port)
	}
	l.Listeners[at].Policies = names
	return nil, nil
}
