package ec2

import (
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// selected reports whether an object passes all filters of a call: a filter's values are alternatives, its name picks
// the object's attributes. The names were checked against the action before. Values may hold the wildcards * and ?, as
// "List and filter your resources" in the EC2 user guide says.
func selected(c *wire.Call, attributes map[string][]string, tags map[string]string) bool {
	for _, f := range c.Filters() {
		have := attributes[f.Name]
		if f.Name == "tag-key" {
			have = wire.Keys(tags)
		}
		if key, ok := cutTag(f.Name); ok {
			have = nil
			if v, tagged := tags[key]; tagged {
				have = []string{v}
			}
		}
		if !anyMatch(f.Values, have) {
			return false
		}
	}
	return true
}

func cutTag(filter string) (key string, ok bool) {
	if len(filter) > 4 && filter[:4] == "tag:" {
		return filter[4:], true
	}
	return "", false
}

func anyMatch(patterns, values []string) bool {
	for _, p := range patterns {
		for _, v := range values {
			if glob(p, v) {
				return true
			}
		}
	}
	return false
}

// glob matches * and ?; everything else, including / and [, stands for itself (tag keys have slashes).
func glob(pattern, s string) bool {
	for len(pattern) > 0 {
		switch pattern[0] {
		case '*':
			for i := 0; i <= len(s); i++ {
				if glob(pattern[1:], s[i:]) {
					return true
				}
			}
			return false
		case '?':
			if s == "" {
				return false
			}
		default:
			if s == "" || s[0] != pattern[0] {
				return false
			}
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}

// ids are the objects a Describe call is about: the named ones without repetition, or all. An unknown name is an error,
// never an empty list: an empty list reads as "gone", and a manager deletes Nodes for that.
func ids[V any](
	c *wire.Call,
	param string,
	have map[string]V,
	unknown func(id string) error,
) (list []string, named bool, err error) {
	asked := map[string]bool{}
	for _, id := range c.List(param) {
		if _, ok := have[id]; !ok {
			return nil, true, unknown(id)
		}
		asked[id] = true
	}
	if len(asked) > 0 {
		return wire.Keys(asked), true, nil
	}
	return wire.Keys(have), false, nil
}

// required is a parameter that must be there.
func required(c *wire.Call, name string) (string, error) {
	if v := c.Params[name]; v != "" {
		return v, nil
	}
	return "", wire.Fail("MissingParameter", "The request must contain the parameter %s", name)
}
