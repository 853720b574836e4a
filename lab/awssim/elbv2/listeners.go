package elbv2

import (
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// defaultSSLPolicy is what a TLS listener gets when it names none.
const defaultSSLPolicy = "ELBSecurityPolicy-2016-08"

// forwards are the target group protocols that each listener protocol of a network load balancer can forward to.
var forwards = map[string][]string{"TCP": {"TCP"}, "TLS": {"TCP", "TLS"}, "UDP": {"UDP"}, "TCP_UDP": {"TCP_UDP"}}

var listenerParams = []string{
	"Protocol",
	"Port",
	"SslPolicy",
	"Certificates.member.N.CertificateArn",
	"DefaultActions.member.N.Type",
	"DefaultActions.member.N.TargetGroupArn",
}

func (b *Balancers) listenerActions() []wire.Action {
	guards := []string{
		"ValidationError",
		"TargetGroupNotFound",
		"IncompatibleProtocols",
		"UnsupportedProtocol",
		"CertificateNotFound",
		"SSLPolicyNotFound",
		"TargetGroupAssociationLimit",
		"DuplicateListener",
	}
	return []wire.Action{
		{
			Name:   "DescribeListeners",
			Params: []string{"LoadBalancerArn", "ListenerArns.member.N"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "ListenerNotFound"},
			Note:   "No paging.",
			Do:     b.describeListeners,
		},
		{
			Name:     "CreateListener",
			Mutating: true,
			Params:   append([]string{"LoadBalancerArn", "Tags.member.N.Key", "Tags.member.N.Value"}, listenerParams...),
			Errors:   append([]string{"LoadBalancerNotFound", "DuplicateTagKeys", "TooManyTags"}, guards...),
			Note: "Idempotent for the same settings. One listener per port, whatever the protocol. One forward action to one target group, which belongs to at " +
				"most one load balancer.",
			Do: b.createListener,
		},
		{
			Name: "ModifyListener", Mutating: true,
			Params: append([]string{"ListenerArn"}, listenerParams...),
			Errors: append([]string{"ListenerNotFound"}, guards...),
			Note:   "What is not sent stays; going from TLS to TCP drops certificate and policy.",
			Do:     b.modifyListener,
		},
		{
			Name: "DeleteListener", Mutating: true,
			Params: []string{"ListenerArn"},
			Errors: []string{"ValidationError", "ListenerNotFound"},
			Do:     b.deleteListener,
		},
	}
}

func noListener(arn string) error {
	return wire.Fail("ListenerNotFound", "Listener '%s' not found", arn)
}

func (b *Balancers) describeListeners(c *wire.Call) ([]wire.Node, error) {
	list := wire.El("Listeners")
	if arns := c.List("ListenerArns.member"); len(arns) > 0 {
		found, err := picked(b.Listeners, arns, nil, nil, noListener)
		if err != nil {
			return nil, err
		}
		for _, arn := range found {
			list.Children = append(list.Children, b.Listeners[arn].node())
		}
		return []wire.Node{list}, nil
	}
	l, err := b.balancer(c)
	if err != nil {
		return nil, err
	}
	for _, x := range b.listenersOf(l.ARN) {
		list.Children = append(list.Children, x.node())
	}
	return []wire.Node{list}, nil
}

func (x *Listener) node() wire.Node {
	certificates := wire.Node{}
	if x.Certificate != "" {
		certificates = wire.El("Certificates", wire.El("member", wire.Text("CertificateArn", x.Certificate)))
	}
	return wire.El(
		"member",
		wire.Text("ListenerArn", x.ARN),
		wire.Text("LoadBalancerArn", x.LoadBalancer),
		wire.Int("Port", x.Port),
		wire.Text("Protocol", x.Protocol),
		certificates,
		wire.Opt("SslPolicy", x.SSLPolicy),
		wire.El(
			"DefaultActions",
			wire.El("member", wire.Text("Type", "forward"), wire.Text("TargetGroupArn", x.TargetGroup)),
		),
	)
}

func (b *Balancers) createListener(c *wire.Call) ([]wire.Node, error) {
	l, err := b.balancer(c)
	if err != nil {
		return nil, err
	}
	tags, err := c.Tagged("Tags.member", nil, maxTags)
	if err != nil {
		return nil, err
	}
	x := Listener{LoadBalancer: l.ARN, Tags: tags}
	if err := b.settle(c, &x); err != nil {
		return nil, err
	}
	for _, have := range b.listenersOf(l.ARN) {
		if have.Port != x.Port {
			continue
		}
		// "If you attempt to create multiple listeners with the same settings, each call succeeds."
		if have.Protocol == x.Protocol && have.TargetGroup == x.TargetGroup && have.Certificate == x.Certificate &&
			have.SSLPolicy == x.SSLPolicy {
			return []wire.Node{wire.El("Listeners", have.node())}, nil
		}
		return nil, duplicateListener(x.Port)
	}
	x.ARN = b.nextARN(strings.Replace(wire.ShortARN(l.ARN), "loadbalancer/", "listener/", 1))
	b.Listeners[x.ARN] = &x
	c.Made(wire.ShortARN(x.ARN))
	return []wire.Node{wire.El("Listeners", x.node())}, nil
}

func duplicateListener(port int) error {
	return wire.Fail("DuplicateListener", "A listener already exists on port %d for this load balancer", port)
}

func (b *Balancers) modifyListener(c *wire.Call) ([]wire.Node, error) {
	have, err := b.listener(c)
	if err != nil {
		return nil, err
	}
	x := *have
	if err := b.settle(c, &x); err != nil {
		return nil, err
	}
	for _, other := range b.listenersOf(x.LoadBalancer) {
		if other.ARN != x.ARN && other.Port == x.Port {
			return nil, duplicateListener(x.Port)
		}
	}
	*have = x
	return []wire.Node{wire.El("Listeners", x.node())}, nil
}

func (b *Balancers) listener(c *wire.Call) (*Listener, error) {
	arn, err := required(c, "ListenerArn")
	if err != nil {
		return nil, err
	}
	if x := b.Listeners[arn]; x != nil {
		return x, nil
	}
	return nil, noListener(arn)
}

func (b *Balancers) deleteListener(c *wire.Call) ([]wire.Node, error) {
	x, err := b.listener(c)
	if err != nil {
		return nil, err
	}
	delete(b.Listeners, x.ARN)
	return nil, nil
}

// settle lays a call's parameters over a listener and checks the result.
func (b *Balancers) settle(c *wire.Call, x *Listener) error {
	port, sent, err := c.Number("Port", 1, 65535, "ValidationError")
	if err != nil {
		return err
	}
	if sent {
		x.Port = port
	}
	if p := c.Params["Protocol"]; p != "" {
		x.Protocol = p
	}
	if x.Port == 0 || x.Protocol == "" {
		return wire.Fail("ValidationError", "A listener needs a port and a protocol")
	}
	if _, ok := forwards[x.Protocol]; !ok {
		return wire.Fail("UnsupportedProtocol", "Network load balancers do not support the protocol %s", x.Protocol)
	}
	if err := b.settleTarget(c, x); err != nil {
		return err
	}
	return b.settleTLS(c, x)
}

// settleTarget takes over the one forward action.
func (b *Balancers) settleTarget(c *wire.Call, x *Listener) error {
	actions := c.Structs("DefaultActions.member")
	if len(actions) > 1 || (len(actions) == 1 && actions[0]["Type"] != "forward") ||
		(len(actions) == 0 && x.TargetGroup == "") {
		return wire.Fail(
			"ValidationError",
			"A listener of a network load balancer needs exactly one default action, of type forward",
		)
	}
	if len(actions) == 1 {
		x.TargetGroup = actions[0]["TargetGroupArn"]
	}
	t := b.TargetGroups[x.TargetGroup]
	if t == nil {
		return noTargetGroup(x.TargetGroup)
	}
	if !slices.Contains(forwards[x.Protocol], t.Protocol) {
		return wire.Fail(
			"IncompatibleProtocols",
			"The protocol %s of the listener and %s of the target group do not go together",
			x.Protocol,
			t.Protocol,
		)
	}
	for _, user := range b.usersOf(t.ARN) {
		if user != x.LoadBalancer {
			return wire.Fail(
				"TargetGroupAssociationLimit",
				"The following target groups cannot be associated with more than one load balancer: %s",
				t.ARN,
			)
		}
	}
	return nil
}

// settleTLS: "Changing the protocol [...] from TLS to TCP, removes the security policy and default certificate
// properties."
func (b *Balancers) settleTLS(c *wire.Call, x *Listener) error {
	if x.Protocol != "TLS" {
		x.Certificate, x.SSLPolicy = "", ""
		return nil
	}
	for _, cert := range c.Structs("Certificates.member") {
		x.Certificate = cert["CertificateArn"]
	}
	if !slices.Contains(b.certificates, x.Certificate) {
		return wire.Fail("CertificateNotFound", "Certificate '%s' not found", x.Certificate)
	}
	if p := c.Params["SslPolicy"]; p != "" {
		x.SSLPolicy = p
	}
	if x.SSLPolicy == "" {
		x.SSLPolicy = defaultSSLPolicy
	}
	if !strings.HasPrefix(x.SSLPolicy, "ELBSecurityPolicy-") {
		return wire.Fail("SSLPolicyNotFound", "SSL policy '%s' not found", x.SSLPolicy)
	}
	return nil
}
