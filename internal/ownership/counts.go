package ownership

import (
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/english"
)

// otherLoop begins the name of a loop that is none: mutating calls of controllers that are no cloud loops are kept
// apart by action.
const otherLoop = "other/"

// LoopOf names the loop that a mutating call belongs to. A call that fits no cloud loop belongs to "other/<action>", so
// that none is dropped.
func LoopOf(c v1.CloudCall) string {
	switch c.Service {
	case "elb", "elbv2", "load-balancer":
		return string(controllernames.Service)
	case "network":
		return loopOfNeutron(c)
	}
	switch {
	case c.Action == "CreateRoute", c.Action == "DeleteRoute", c.Action == "ReplaceRoute":
		return string(controllernames.Route)
	case c.Action == "ModifyInstanceAttribute" && hasAttribute(c, "SourceDestCheck"):
		return string(controllernames.Route) // an instance that forwards pod traffic must not drop it
	case strings.Contains(c.Action, "SecurityGroup"):
		return string(controllernames.Service)
	case (c.Action == "CreateTags" || c.Action == "DeleteTags") && tagsSecurityGroups(c):
		return string(controllernames.Service)
	}
	return otherLoop + c.Action
}

// loopOfNeutron names the loop of a call to OpenStack's Neutron. Its action is a method and a path with {id} for IDs.
func loopOfNeutron(c v1.CloudCall) string {
	_, path, _ := strings.Cut(c.Action, " ")
	kind, _, _ := strings.Cut(path, "/")
	switch {
	case kind == "routers", kind == "ports" && hasAttribute(c, "allowed_address_pairs"):
		return string(controllernames.Route)
	case kind == "floatingips", kind == "ports", strings.HasPrefix(kind, "security-group"):
		return string(controllernames.Service) // a port may get a security group, or an address for a load balancer
	}
	return otherLoop + c.Action
}

func hasAttribute(c v1.CloudCall, attribute string) bool {
	for name, value := range c.Params {
		if strings.HasPrefix(name, attribute) || name == "Attribute" && strings.EqualFold(value, attribute) {
			return true
		}
	}
	return false
}

// tagsSecurityGroups reports whether everything that the call tags is a security group.
func tagsSecurityGroups(c v1.CloudCall) bool {
	var ids []string
	for name, value := range c.Params {
		if strings.HasPrefix(name, "ResourceId") {
			ids = append(ids, value)
		}
	}
	if len(ids) == 0 {
		ids = c.Resources
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, "sg-") && !strings.HasPrefix(id, "loadbalancer/") &&
			!strings.Contains(id, ":loadbalancer/") {
			return false
		}
	}
	return len(ids) > 0
}

// counts are the mutating calls that belong to no loop of a manager that was looked at.
type counts struct {
	outside     int
	unknownKeys map[string]*span
	unseen      map[Owner]*span
	strangers   map[string]int // component@host
	others      map[string]int // component@host action
}

// span is a number of calls between two moments.
type span struct {
	calls       int
	first, last time.Time
	actions     []string
}

func (s *span) add(c v1.CloudCall) {
	if s.calls == 0 {
		s.first = c.Arrived
	}
	s.calls++
	s.last = c.Arrived
	if !slices.Contains(s.actions, c.Action) && len(s.actions) < 5 {
		s.actions = append(s.actions, c.Action)
	}
}

func (c *counts) addByKey(in map[string]*span, call v1.CloudCall) {
	if in[call.Key] == nil {
		in[call.Key] = &span{}
	}
	in[call.Key].add(call)
}

func (c *counts) unseenAt(owner Owner, call v1.CloudCall) {
	if c.unseen[owner] == nil {
		c.unseen[owner] = &span{}
	}
	c.unseen[owner].add(call)
}

// describeCounts turns the counts into sentences.
func (c *counts) describeCounts(j *judge) {
	for key, s := range c.unknownKeys {
		j.addUnknown("cloud audit log: %s by the unknown access key %s between %s and %s (%s): by whom is unknown",
			calls(s.calls), key, clockTime(s.first), clockTime(s.last), listed(s.actions))
	}
	for owner, s := range c.unseen {
		j.addUnknown(
			"scrape of %s: it made %s between %s and %s and was never looked at",
			owner,
			calls(s.calls),
			clockTime(s.first),
			clockTime(s.last),
		)
	}
	for who, n := range c.strangers {
		j.addNote("%s by %s, which runs no loop, left out", calls(n), who)
	}
	for who, n := range c.others {
		j.addNote("%s of no cloud loop: %s", calls(n), who)
	}
	if c.outside > 0 {
		j.addNote(
			"%s before %s or after %s left out: the owners were not looked at then",
			calls(c.outside),
			clockTime(j.opts.From),
			clockTime(j.opts.Until),
		)
	}
}

// calls writes a number of mutating calls.
func calls(n int) string { return english.Count(n, "mutating call") }

func listed(items []string) string {
	out := ""
	for n, s := range items {
		if n > 0 {
			out += ", "
		}
		out += s
	}
	return out
}
