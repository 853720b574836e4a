package wire

import (
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Params are a request's parameters as they were sent, e.g. "Filter.1.Value.2".
type Params map[string]string

// Call is one request while an action handles it.
type Call struct {
	Params
	made    []string
	filters []Filter
}

// Filter chooses objects by one attribute: its values are alternatives.
type Filter struct {
	Name   string
	Values []string
}

// Filters are the call's filters. They are read once: a call may be about thousands of objects.
func (c *Call) Filters() []Filter {
	if c.filters == nil {
		c.filters = []Filter{}
		for _, f := range c.Structs("Filter") {
			c.filters = append(c.filters, Filter{f["Name"], f.List("Value")})
		}
	}
	return c.filters
}

// Made records a resource that the call created, for the audit log.
func (c *Call) Made(resource string) { c.made = append(c.made, resource) }

// Has reports whether a scalar parameter was sent, even with an empty value.
func (p Params) Has(name string) bool {
	_, ok := p[name]
	return ok
}

// List reads a list such as InstanceId.1, InstanceId.2 in the order of its numbers. Gaps and repeated values are kept
// as they are: the external AWS provider repeats an id in one call when it batches. An empty list may come as
// "InstanceId=".
func (p Params) List(name string) []string {
	var out []string
	for _, i := range p.indices(name) {
		if v, ok := p[name+"."+strconv.Itoa(i)]; ok {
			out = append(out, v)
		}
	}
	return out
}

// Structs reads a list of structures such as Tag.1.Key, Tag.1.Value; each comes back with the prefix removed.
func (p Params) Structs(name string) []Params {
	byIndex := map[int]Params{}
	for k, v := range p {
		i, rest, ok := cutIndex(k, name)
		if !ok || rest == "" {
			continue
		}
		if byIndex[i] == nil {
			byIndex[i] = Params{}
		}
		byIndex[i][rest] = v
	}
	out := make([]Params, 0, len(byIndex))
	for _, i := range sortedKeys(byIndex) {
		out = append(out, byIndex[i])
	}
	return out
}

// Number reads a whole number between low and high. The boolean is false when the parameter was not sent; code is the
// error code of a number that does not fit, which differs between the services.
func (p Params) Number(name string, low, high int, code string) (int, bool, error) {
	text, ok := p[name]
	if !ok {
		return 0, false, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, true, Fail(
			code,
			"Value (%s) for parameter %s is invalid. It must be a number between %d and %d.",
			text,
			name,
			low,
			high,
		)
	}
	return n, true, nil
}

// indices are the numbers under which members of a list were sent.
func (p Params) indices(name string) []int {
	seen := map[int]bool{}
	for k := range p {
		if i, _, ok := cutIndex(k, name); ok {
			seen[i] = true
		}
	}
	return sortedKeys(seen)
}

// cutIndex splits "name.3.rest" into 3 and "rest".
func cutIndex(key, name string) (index int, rest string, ok bool) {
	tail, found := strings.CutPrefix(key, name+".")
	if !found {
		return 0, "", false
	}
	number, rest, _ := strings.Cut(tail, ".")
	index, err := strconv.Atoi(number)
	return index, rest, err == nil
}

// pattern replaces the numbers in a parameter's name: Filter.1.Value.2 is Filter.N.Value.N.
func pattern(key string) string {
	parts := strings.Split(key, ".")
	for i, p := range parts {
		if _, err := strconv.Atoi(p); err == nil {
			parts[i] = "N"
		}
	}
	return strings.Join(parts, ".")
}

// Resources are the cloud objects that the call named or made, sorted, without repetition: ids as they are, classic
// load balancers and network load balancers' names as loadbalancer/<name>, ARNs from their resource type on.
func (c *Call) Resources() []string {
	out := slices.Clone(c.made)
	for k, v := range c.Params {
		if r := resource(pattern(k), v); r != "" {
			out = append(out, r)
		}
	}
	sort.Strings(out)
	return slices.Compact(out)
}

// resource names the object in one parameter, or is empty when the parameter names none.
func resource(param, value string) string {
	switch param {
	case "InstanceId",
		"InstanceId.N",
		"GroupId",
		"GroupId.N",
		"RouteTableId",
		"RouteTableId.N",
		"SubnetId.N",
		"ResourceId.N",
		"VolumeId",
		"VolumeId.N",
		"Instances.member.N.InstanceId",
		"Subnets.member.N",
		"SecurityGroups.member.N",
		"SubnetMappings.member.N.SubnetId",
		"Targets.member.N.Id":
		return value
	case "LoadBalancerName", "LoadBalancerNames.member.N":
		return "loadbalancer/" + value
	case "LoadBalancerArn",
		"TargetGroupArn",
		"ListenerArn",
		"LoadBalancerArns.member.N",
		"TargetGroupArns.member.N",
		"ListenerArns.member.N",
		"ResourceArns.member.N",
		"DefaultActions.member.N.TargetGroupArn":
		return ShortARN(value)
	case "DestinationCidrBlock":
		return "route/" + value
	}
	return ""
}

// ShortARN is the part of an ARN after the account: loadbalancer/net/a1b2/0123.
func ShortARN(arn string) string {
	return arn[strings.LastIndex(arn, ":")+1:]
}

func sortedKeys[V any](m map[int]V) []int {
	out := make([]int, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Ints(out)
	return out
}
