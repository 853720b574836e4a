package elb

import (
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

func (b *Balancers) tagActions() []wire.Action {
	return []wire.Action{{
		Name: "AddTags", Mutating: true,
		Params: []string{"LoadBalancerNames.member.N", "Tags.member.N.Key", "Tags.member.N.Value"},
		Errors: []string{"ValidationError", "LoadBalancerNotFound", "DuplicateTagKeys", "TooManyTags"},
		Do:     b.addTags,
	}, {
		Name:   "DescribeTags",
		Params: []string{"LoadBalancerNames.member.N"},
		Errors: []string{"ValidationError", "LoadBalancerNotFound"},
		Do:     b.describeTags,
	}}
}

// several finds the load balancers that a call about tags names.
func (b *Balancers) several(c *wire.Call) ([]*LoadBalancer, error) {
	var out []*LoadBalancer
	for _, name := range c.List("LoadBalancerNames.member") {
		l := b.ByName[name]
		if l == nil {
			return nil, notFound(name)
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return nil, wire.Fail("ValidationError", "LoadBalancerNames must not be empty")
	}
	return out, nil
}

func (b *Balancers) addTags(c *wire.Call) ([]wire.Node, error) {
	targets, err := b.several(c)
	if err != nil {
		return nil, err
	}
	merged := make([]map[string]string, len(targets))
	for i, l := range targets {
		if merged[i], err = c.Tagged("Tags.member", l.Tags, maxTags); err != nil {
			return nil, err
		}
	}
	for i, l := range targets {
		l.Tags = merged[i]
	}
	return nil, nil
}

func (b *Balancers) describeTags(c *wire.Call) ([]wire.Node, error) {
	targets, err := b.several(c)
	if err != nil {
		return nil, err
	}
	list := wire.El("TagDescriptions")
	for _, l := range targets {
		list.Children = append(
			list.Children,
			wire.El("member", wire.Text("LoadBalancerName", l.Name), wire.TagNodes("Tags", "member", "Key", "Value", l.Tags)),
		)
	}
	return []wire.Node{list}, nil
}
