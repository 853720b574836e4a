package wire

import (
	"slices"
	"sort"
	"strings"
)

// Action is one operation of an API: what it accepts, what it refuses, and what it does. The reference page is made
// from these.
type Action struct {
	// Name as in the Action parameter.
	Name string
	// Mutating reports whether the action changes the cloud when it succeeds.
	Mutating bool
	// Params are the parameters understood, with N for every number. Any other parameter is refused: ignoring it could
	// change the meaning.
	Params []string
	// Filters are the names accepted in Filter.N.Name; "tag:<key>" stands for every tag.
	Filters []string
	// Errors are the codes that the action's own guards answer.
	Errors []string
	// Note says where this differs from what one would guess; for the reference page.
	Note string
	// Do executes the action and returns the children of the answer's root (or Result) element. Errors are *Error. It
	// changes nothing when it returns an error.
	Do func(*Call) ([]Node, error)
}

// Check refuses what the action does not understand: a parameter, a filter, or a dry run (which by definition changes
// nothing).
func (a Action) Check(c *Call) error {
	for _, key := range sortedParams(c.Params) {
		if !a.accepts(key, c.Params[key]) {
			return unknownf("UnknownParameter", "The parameter %s is not recognized by %s here.", key, a.Name)
		}
	}
	for _, f := range c.Structs("Filter") {
		if !a.acceptsFilter(f["Name"]) {
			return unknownf("InvalidParameterValue", "The filter '%s' is invalid for %s here.", f["Name"], a.Name)
		}
	}
	switch c.Params["DryRun"] {
	case "", "false":
		return nil
	case "true":
		return Fail("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	return Fail("InvalidParameterValue", "Value (%s) for parameter DryRun is invalid.", c.Params["DryRun"])
}

func (a Action) accepts(key, value string) bool {
	p := pattern(key)
	if p == "Action" || p == "Version" || p == "DryRun" || slices.Contains(a.Params, p) {
		return true
	}
	// An empty list is sent as its bare name without a value (the external provider's "SecurityGroups=").
	return value == "" && slices.ContainsFunc(a.Params, func(known string) bool {
		return strings.HasPrefix(known, p+".N") || strings.HasPrefix(known, p+".member.N")
	})
}

func (a Action) acceptsFilter(name string) bool {
	if strings.HasPrefix(name, "tag:") {
		return slices.Contains(a.Filters, "tag:<key>")
	}
	return slices.Contains(a.Filters, name)
}

func sortedParams(p Params) []string {
	out := make([]string, 0, len(p))
	for k := range p {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
