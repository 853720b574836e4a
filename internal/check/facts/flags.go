package facts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
)

// Refusals says which flags and gates of a component a minor refuses to start with, sorted. Flags that the catalogue
// does not hold are not judged.
func Refusals(p Instance, minor int) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.Flags)) {
		if flag, held := catalogue.FlagAt(p.Name, name, minor); held && !flag.Known {
			out = append(out, "--"+name)
		}
	}
	known := knownGates()
	for _, name := range p.sortedGates() {
		value := p.Gates()[name]
		on, err := strconv.ParseBool(value)
		state := catalogue.GateFor(p.Name, name, minor)
		switch _, listed := slices.BinarySearch(known, name); {
		case err != nil:
			out = append(out, fmt.Sprintf("feature gate %s=%s (not a truth value)", name, value))
		case !listed:
			// a vendor's own gate, or one newer than the catalogue
		case !state.Known:
			out = append(out, "feature gate "+name)
		case state.Locked && on != state.Default:
			out = append(out, fmt.Sprintf("feature gate %s=%s (locked to %t)", name, value, state.Default))
		}
	}
	return out
}

// knownGates are the names of all gates of the catalogue, sorted.
var knownGates = sync.OnceValue(catalogue.Gates)

// Effective is the value of a feature gate in a component of a minor with these settings. A gate that the catalogue
// knows of an earlier minor and not of this one has become the rule.
func Effective(gate string, set map[string]bool, minor int) bool {
	g := catalogue.GateAt(gate, minor)
	switch v, given := set[gate]; {
	case !g.Known:
		return hasGraduated(gate, minor)
	case given && !g.Locked:
		return v
	}
	return g.Default
}

func hasGraduated(gate string, minor int) bool {
	for m := min(minor, component.Newest); m >= component.Oldest; m-- {
		if g := catalogue.GateAt(gate, m); g.Known {
			return g.Default && g.Locked
		}
	}
	return false
}

// gatesIn reads --feature-gates: A=true,B=false.
func gatesIn(flag string) map[string]bool {
	out := map[string]bool{}
	for entry := range strings.SplitSeq(flag, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if on, err := strconv.ParseBool(strings.TrimSpace(value)); ok && err == nil {
			out[name] = on
		}
	}
	return out
}

// MasterGate is the gate of KEP-625 that the ones of the plugins need next to them.
const MasterGate = "CSIMigration"
