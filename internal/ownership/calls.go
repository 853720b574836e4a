package ownership

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// otherLoop begins the name of a loop that is none: mutating calls of controllers that are no cloud loops are kept apart by action.
const otherLoop = "other/"

// LoopOf names the loop that a mutating call belongs to. A call that fits no cloud loop belongs to "other/<action>", so that none is dropped.
func LoopOf(c v1.CloudCall) string {
	if c.Service == "elb" || c.Service == "elbv2" {
		return string(controllernames.Service)
	}
	switch {
	case c.Action == "CreateRoute", c.Action == "DeleteRoute", c.Action == "ReplaceRoute":
		return string(controllernames.Route)
	case c.Action == "ModifyInstanceAttribute" && named(c, "SourceDestCheck"):
		return string(controllernames.Route) // an instance that forwards pod traffic must not drop it
	case strings.Contains(c.Action, "SecurityGroup"):
		return string(controllernames.Service)
	case (c.Action == "CreateTags" || c.Action == "DeleteTags") && onSecurityGroups(c):
		return string(controllernames.Service)
	}
	return otherLoop + c.Action
}

func named(c v1.CloudCall, attribute string) bool {
	for name, value := range c.Params {
		if strings.HasPrefix(name, attribute) || name == "Attribute" && strings.EqualFold(value, attribute) {
			return true
		}
	}
	return false
}

// onSecurityGroups tells whether everything that the call tags is a security group.
func onSecurityGroups(c v1.CloudCall) bool {
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
		if !strings.HasPrefix(id, "sg-") && !strings.HasPrefix(id, "loadbalancer/") && !strings.Contains(id, ":loadbalancer/") {
			return false
		}
	}
	return len(ids) > 0
}
