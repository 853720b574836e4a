package elb

import (
	"maps"
	"slices"
	"strconv"

	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (b *Balancers) lifecycleActions() []wire.Action {
	return []wire.Action{
		{
			Name:   "DescribeLoadBalancers",
			Params: []string{"LoadBalancerNames.member.N"},
			Errors: []string{"LoadBalancerNotFound"},
			Note:   "No paging.",
			Do:     b.describe,
		},
		{
			Name:     "CreateLoadBalancer",
			Mutating: true,
			Params: append(
				[]string{
					"LoadBalancerName",
					"Subnets.member.N",
					"SecurityGroups.member.N",
					"Scheme",
					"Tags.member.N.Key",
					"Tags.member.N.Value",
				},
				listenerParams...),
			Errors: []string{
				"ValidationError",
				"DuplicateLoadBalancerName",
				"InvalidScheme",
				"SubnetNotFound",
				"InvalidConfigurationRequest",
				"InvalidSecurityGroup",
				"DuplicateListener",
				"UnsupportedProtocol",
				"CertificateNotFound",
				"DuplicateTagKeys",
				"TooManyTags",
			},
			Note: "Idempotent: the same name with the same listeners, subnets, groups, scheme and tags answers the existing load balancer. In a VPC only (no AvailabilityZones).",
			Do:   b.create,
		},
		{
			Name: "DeleteLoadBalancer", Mutating: true,
			Params: []string{"LoadBalancerName"},
			Errors: []string{"ValidationError"},
			Note:   "Succeeds for one that does not exist.",
			Do:     b.remove,
		},
	}
}

func (b *Balancers) describe(c *wire.Call) ([]wire.Node, error) {
	wanted := sorted(c.List("LoadBalancerNames.member"))
	if len(wanted) == 0 {
		wanted = wire.Keys(b.ByName)
	}
	list := wire.El("LoadBalancerDescriptions")
	for _, name := range wanted {
		l := b.ByName[name]
		if l == nil {
			return nil, notFound(name)
		}
		list.Children = append(list.Children, b.node(l))
	}
	return []wire.Node{list}, nil
}

func (b *Balancers) node(l *LoadBalancer) wire.Node {
	listeners, backends, policies := wire.El(
		"ListenerDescriptions",
	), wire.El(
		"BackendServerDescriptions",
	), wire.El(
		"OtherPolicies",
	)
	for _, x := range l.Listeners {
		listeners.Children = append(
			listeners.Children,
			wire.El("member", x.node(), wire.Strings("PolicyNames", "member", x.Policies)),
		)
	}
	for _, port := range wire.Keys(l.Backends) {
		backends.Children = append(backends.Children, wire.El("member",
			wire.Text("InstancePort", port), wire.Strings("PolicyNames", "member", l.Backends[port])))
	}
	for _, p := range wire.Keys(l.Policies) {
		policies.Children = append(policies.Children, wire.Text("member", p))
	}
	zones := []string{}
	for _, s := range l.Subnets {
		zones = append(zones, b.region.Subnets[s].Zone)
	}
	source := wire.Node{}
	if len(l.SecurityGroups) > 0 && b.region.SecurityGroups[l.SecurityGroups[0]] != nil {
		source = wire.El(
			"SourceSecurityGroup",
			wire.Text("OwnerAlias", ec2.AccountID),
			wire.Text("GroupName", b.region.SecurityGroups[l.SecurityGroups[0]].Name),
		)
	}
	return wire.El(
		"member",
		wire.Text(
			"LoadBalancerName",
			l.Name,
		),
		wire.Text("DNSName", l.DNSName),
		wire.Text("CanonicalHostedZoneNameID", "Z35SXDOTRQ7X7K"),
		listeners,
		wire.El("Policies", policies, wire.El("AppCookieStickinessPolicies"), wire.El("LBCookieStickinessPolicies")),
		backends,
		wire.Strings("AvailabilityZones", "member", sorted(zones)),
		wire.Strings("Subnets", "member", l.Subnets),
		wire.Text("VPCId", b.region.VPC.ID),
		instances(l.Instances),
		l.HealthCheck.node(),
		source,
		wire.Strings(
			"SecurityGroups",
			"member",
			l.SecurityGroups,
		),
		wire.Time("CreatedTime", l.Created),
		wire.Text("Scheme", l.Scheme),
	)
}

func (b *Balancers) create(c *wire.Call) ([]wire.Node, error) {
	wanted, err := b.wanted(c)
	if err != nil {
		return nil, err
	}
	if have := b.ByName[wanted.Name]; have != nil {
		if err := sameSettings(have, wanted); err != nil {
			return nil, err
		}
		return []wire.Node{wire.Text("DNSName", have.DNSName)}, nil
	}
	wanted.DNSName = b.dnsName(wanted.Name, wanted.Scheme)
	wanted.Created = b.now()
	b.ByName[wanted.Name] = wanted
	return []wire.Node{wire.Text("DNSName", wanted.DNSName)}, nil
}

// sameSettings: the reference only says that the name "must be unique within your set of load balancers". The messages
// that AWS gives, "already exists and it is configured with different parameters" and "... with different tags", and
// the ansible module's habit of creating on every run (ansible issue 29965), show that the same settings are no error
// and that current tags are compared.
func sameSettings(have, wanted *LoadBalancer) error {
	settings := func(l *LoadBalancer) LoadBalancer {
		plain := make([]Listener, len(l.Listeners))
		for i, x := range l.Listeners {
			x.Policies = nil
			plain[i] = x
		}
		return LoadBalancer{Scheme: l.Scheme, Listeners: plain, Subnets: l.Subnets, SecurityGroups: l.SecurityGroups}
	}
	x, y := settings(have), settings(wanted)
	if x.Scheme != y.Scheme || !slices.EqualFunc(x.Listeners, y.Listeners, Listener.equal) ||
		!slices.Equal(x.Subnets, y.Subnets) ||
		!slices.Equal(x.SecurityGroups, y.SecurityGroups) {
		return wire.Fail(
			"DuplicateLoadBalancerName",
			"Load Balancer named %s already exists and it is configured with different parameters.",
			have.Name,
		)
	}
	if !maps.Equal(have.Tags, wanted.Tags) {
		return wire.Fail(
			"DuplicateLoadBalancerName",
			"Load Balancer named %s already exists and it is configured with different tags.",
			have.Name,
		)
	}
	return nil
}

// wanted is the load balancer that a CreateLoadBalancer call describes, checked.
func (b *Balancers) wanted(c *wire.Call) (*LoadBalancer, error) {
	name, err := required(c, "LoadBalancerName")
	if err != nil {
		return nil, err
	}
	if !wire.ValidName(name) {
		return nil, wire.Fail(
			"ValidationError",
			"LoadBalancer name must only contain alphanumeric characters or hyphens, and have at most 32: %s",
			name,
		)
	}
	scheme, err := c.Scheme()
	if err != nil {
		return nil, err
	}
	listeners, err := b.listeners(c, nil)
	if err != nil {
		return nil, err
	}
	if len(listeners) == 0 {
		return nil, wire.Fail("ValidationError", "Listeners cannot be empty.")
	}
	subnets, err := b.subnets(nil, c.List("Subnets.member"))
	if err != nil {
		return nil, err
	}
	if len(subnets) == 0 {
		return nil, wire.Fail("ValidationError", "Either AvailabilityZones or SubnetIds must be specified")
	}
	groups, err := b.groups(c.List("SecurityGroups.member"))
	if err != nil {
		return nil, err
	}
	tags, err := c.Tagged("Tags.member", nil, maxTags)
	if err != nil {
		return nil, err
	}
	return &LoadBalancer{
		Name:           name,
		Scheme:         scheme,
		Listeners:      listeners,
		Subnets:        subnets,
		SecurityGroups: groups,
		Instances:      []string{},
		Tags:           tags,
		// The defaults are those of "Configure health checks for your Classic Load Balancer", with the first listener's port.
		HealthCheck: HealthCheck{
			Target:             "TCP:" + strconv.Itoa(listeners[0].InstancePort),
			Interval:           30,
			Timeout:            5,
			UnhealthyThreshold: 2,
			HealthyThreshold:   10,
		},
		Attributes: Attributes{DrainingSeconds: 300, IdleSeconds: 60},
		Policies:   map[string]Policy{},
		Backends:   map[string][]string{},
	}, nil
}

func (b *Balancers) remove(c *wire.Call) ([]wire.Node, error) {
	name, err := required(c, "LoadBalancerName")
	if err != nil {
		return nil, err
	}
	delete(b.ByName, name)
	return nil, nil
}
