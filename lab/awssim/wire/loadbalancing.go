package wire

import (
	"regexp"
	"sort"
)

// Tagged is have with a call's tags (<name>.N.Key and .Value) laid over it, as both load balancing APIs do it: a key
// twice is DuplicateTagKeys, more than limit are TooManyTags.
func (p Params) Tagged(name string, have map[string]string, limit int) (map[string]string, error) {
	out, sent := map[string]string{}, map[string]bool{}
	for k, v := range have {
		out[k] = v
	}
	for _, t := range p.Structs(name) {
		key := t["Key"]
		if key == "" {
			return nil, Fail("ValidationError", "A tag key must not be empty.")
		}
		if sent[key] {
			return nil, Fail("DuplicateTagKeys", "A tag key was specified more than once: %s", key)
		}
		out[key], sent[key] = t["Value"], true
	}
	if len(out) > limit {
		return nil, Fail("TooManyTags", "The maximum number of tags (%d) has been reached.", limit)
	}
	return out, nil
}

// Scheme reads a load balancer's scheme; internet-facing by default.
func (p Params) Scheme() (string, error) {
	switch scheme, sent := p["Scheme"]; {
	case !sent:
		return "internet-facing", nil
	case scheme == "internal" || scheme == "internet-facing":
		return scheme, nil
	default:
		return "", Fail("InvalidScheme", "The scheme '%s' is not valid", scheme)
	}
}

// ValidName reports whether a load balancer or target group may be called that: "a maximum of 32 characters, must
// contain only alphanumeric characters or hyphens, and must not begin or end with a hyphen".
func ValidName(name string) bool { return validName.MatchString(name) }

var validName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?$`)

// Field is a number among a call's parameters.
type Field struct {
	Name      string
	Low, High int
	Into      *int
}

// Numbers reads those fields that were sent; one out of its range is a ValidationError.
func (p Params) Numbers(fields ...Field) error {
	for _, f := range fields {
		n, sent, err := p.Number(f.Name, f.Low, f.High, "ValidationError")
		if err != nil {
			return err
		}
		if sent {
			*f.Into = n
		}
	}
	return nil
}

// TagNodes writes tags as list members, sorted by key.
func TagNodes(list, item, key, value string, tags map[string]string) Node {
	n := Node{Name: list}
	for _, k := range Keys(tags) {
		n.Children = append(n.Children, El(item, Text(key, k), Text(value, tags[k])))
	}
	return n
}

// Keys are a map's keys, sorted.
func Keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
