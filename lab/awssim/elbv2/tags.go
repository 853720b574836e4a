package elbv2

import (
	"strings"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (b *Balancers) tagActions() []wire.Action {
	return []wire.Action{
		{
			Name:     "AddTags",
			Mutating: true,
			Params:   []string{"ResourceArns.member.N", "Tags.member.N.Key", "Tags.member.N.Value"},
			Errors: []string{
				"ValidationError",
				"LoadBalancerNotFound",
				"TargetGroupNotFound",
				"ListenerNotFound",
				"DuplicateTagKeys",
				"TooManyTags",
			},
			Do: b.addTags,
		},
		{
			Name:   "DescribeTags",
			Params: []string{"ResourceArns.member.N"},
			Errors: []string{"ValidationError", "LoadBalancerNotFound", "TargetGroupNotFound", "ListenerNotFound"},
			Do:     b.describeTags,
		},
	}
}

// tagged finds the tags of the resources that a call names.
func (b *Balancers) tagged(c *wire.Call) (map[string]*map[string]string, error) {
	out := map[string]*map[string]string{}
	for _, arn := range c.List("ResourceArns.member") {
		switch {
		case b.LoadBalancers[arn] != nil:
			out[arn] = &b.LoadBalancers[arn].Tags
		case b.TargetGroups[arn] != nil:
			out[arn] = &b.TargetGroups[arn].Tags
		case b.Listeners[arn] != nil:
			out[arn] = &b.Listeners[arn].Tags
		case strings.HasPrefix(wire.ShortARN(arn), "loadbalancer/"):
			return nil, noBalancer(arn)
		case strings.HasPrefix(wire.ShortARN(arn), "targetgroup/"):
			return nil, noTargetGroup(arn)
		case strings.HasPrefix(wire.ShortARN(arn), "listener/"):
			return nil, noListener(arn)
		default:
			return nil, wire.Fail("ValidationError", "'%s' is not a valid load balancer, target group or listener ARN", arn)
		}
	}
	if len(out) == 0 {
		return nil, wire.Fail("ValidationError", "'ResourceArns' must have a value")
	}
	return out, nil
}

func (b *Balancers) addTags(c *wire.Call) ([]wire.Node, error) {
	targets, err := b.tagged(c)
	if err != nil {
		return nil, err
	}
	merged := map[string]map[string]string{}
	for arn, have := range targets {
		if merged[arn], err = c.Tagged("Tags.member", *have, maxTags); err != nil {
			return nil, err
		}
	}
	for arn, have := range targets {
		*have = merged[arn]
	}
	return nil, nil
}

func (b *Balancers) describeTags(c *wire.Call) ([]wire.Node, error) {
	targets, err := b.tagged(c)
	if err != nil {
		return nil, err
	}
	list := wire.El("TagDescriptions")
	for _, arn := range wire.Keys(targets) {
		list.Children = append(
			list.Children,
			wire.El("member", wire.Text("ResourceArn", arn), wire.TagNodes("Tags", "member", "Key", "Value", *targets[arn])),
		)
	}
	return []wire.Node{list}, nil
}
