package facts

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// Gates are the feature gates that a component is given, by name, with their values as written. Kubernetes merges
// repeated --feature-gates, unlike other flags, so the command line is read and not only the last value.
func (p Instance) Gates() map[string]string {
	out := map[string]string{}
	given := p.Values("feature-gates")
	if len(given) == 0 {
		given = []string{p.Flags["feature-gates"]}
	}
	for _, value := range given {
		for pair := range strings.SplitSeq(strings.Trim(value, `"'`), ",") {
			if name, v, ok := strings.Cut(pair, "="); ok {
				out[strings.TrimSpace(name)] = strings.TrimSpace(v)
			}
		}
	}
	return out
}

// Values are the values of every occurrence of a flag on the command line, in order.
func (p Instance) Values(flag string) []string {
	var out []string
	for i, arg := range p.Command {
		name, value, whole := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || name != flag:
		case whole:
			out = append(out, value)
		case i+1 < len(p.Command):
			out = append(out, p.Command[i+1])
		}
	}
	return out
}

// Gate reports whether a feature gate is on in a component of a minor: as it is given, or else by the minor's default.
// It is off where the minor does not know it.
func (p Instance) Gate(name string, minor int) bool {
	state := catalogue.GateFor(p.Name, name, minor)
	if !state.Known || state.Locked {
		return state.Default
	}
	if v, given := p.Gates()[name]; given {
		on, err := strconv.ParseBool(v)
		return err == nil && on
	}
	return state.Default
}

// sortedGates are the names of the gates that a component is given.
func (p Instance) sortedGates() []string { return slices.Sorted(maps.Keys(p.Gates())) }
