package wire

import "sort"

// Tags reads Tags.member.N.Key and .Value as Elastic Load Balancing does: a repeated key is DuplicateTagKeys.
func (p Params) Tags(name string) (map[string]string, error) {
	tags := map[string]string{}
	for _, t := range p.Structs(name) {
		key := t["Key"]
		if key == "" {
			return nil, Fail("ValidationError", "A tag key must not be empty.")
		}
		if _, twice := tags[key]; twice {
			return nil, Fail("DuplicateTagKeys", "A tag key was specified more than once: %s", key)
		}
		tags[key] = t["Value"]
	}
	return tags, nil
}

// Merged is have with more laid over it, or TooManyTags when that is above limit.
func Merged(have, more map[string]string, limit int) (map[string]string, error) {
	out := make(map[string]string, len(have)+len(more))
	for k, v := range have {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	if len(out) > limit {
		return nil, Fail("TooManyTags", "The maximum number of tags (%d) has been reached.", limit)
	}
	return out, nil
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
