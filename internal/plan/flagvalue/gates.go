package flagvalue

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// GateCredentialProviders lets a kubelet ask image credential providers; it has to be switched on up to 1.23
// (KEP-2133).
const GateCredentialProviders = "KubeletCredentialProviders"

// GateLeaderMigration is alpha in 1.21 and on after it (KEP-2436).
const GateLeaderMigration = "ControllerManagerLeaderMigration"

// GateCSIMigration is the common gate of KEP-625.
const GateCSIMigration = "CSIMigration"

// Gates is what a --feature-gates flag says, by gate.
type Gates map[string]bool

// ParseGates reads a value of --feature-gates; what is no gate=bool is left to the component, which refuses it.
func ParseGates(value string) Gates {
	out := Gates{}
	for _, pair := range strings.Split(value, ",") {
		name, v, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if on, err := strconv.ParseBool(strings.TrimSpace(v)); ok && err == nil {
			out[strings.TrimSpace(name)] = on
		}
	}
	return out
}

// String returns the gates as a value of --feature-gates, sorted by their names.
func (g Gates) String() string {
	names := make([]string, 0, len(g))
	for n := range g {
		names = append(names, n)
	}
	sort.Strings(names)
	for i, n := range names {
		names[i] = n + "=" + strconv.FormatBool(g[n])
	}
	return strings.Join(names, ",")
}

// MergeGates merges every occurrence of --feature-gates in a command, as the components do; of other flags the last one
// wins.
func MergeGates(command []string, flag string) string {
	out := Gates{}
	n := 0
	for i, arg := range command {
		value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), FlagFeatureGates+"=")
		if !ok && strings.TrimLeft(arg, "-") == FlagFeatureGates && strings.HasPrefix(arg, "-") && i+1 < len(command) {
			value, ok = command[i+1], true
		}
		if !ok || !strings.HasPrefix(arg, "-") {
			continue
		}
		n++
		for g, on := range ParseGates(value) {
			out[g] = on
		}
	}
	if n < 2 {
		return flag
	}
	return out.String()
}

// GateChange is what becomes of a gate: on, off, or gone, so that its default holds.
type GateChange struct {
	Name string
	To   string
}

// What a gate becomes.
const (
	GateOn      = "true"
	GateRemoved = ""
)

// EditGates changes gates in a value of --feature-gates and keeps every other gate that its owner has set, and the
// order they are written in. A gate that the component's minor does not know is never set: the component would not
// start.
func EditGates(current, comp string, minor int, changes []GateChange) []v1.Edit {
	value := current
	for _, c := range changes {
		value = changeGate(value, c, catalogue.GateFor(comp, c.Name, minor))
	}
	switch {
	case value == current:
		return nil
	case value == "":
		return []v1.Edit{{Op: v1.EditUnsetFlag, Name: FlagFeatureGates}}
	}
	return []v1.Edit{{Op: v1.EditSetFlag, Name: FlagFeatureGates, Value: value}}
}

func changeGate(value string, c GateChange, is catalogue.Gate) string {
	var pairs []string
	for _, p := range strings.Split(value, ",") {
		if p != "" {
			pairs = append(pairs, p)
		}
	}
	at := slices.IndexFunc(pairs, func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return strings.TrimSpace(name) == c.Name
	})
	set := at >= 0 && ParseGates(pairs[at])[c.Name] == (c.To == GateOn)
	switch {
	case c.To == GateRemoved && at < 0, set && c.To != GateRemoved:
		return value
	case c.To == GateRemoved:
		return strings.Join(slices.Delete(pairs, at, at+1), ",")
	case !is.Known:
		return value
	case at >= 0:
		pairs[at] = c.Name + "=" + c.To
	case is.Default == (c.To == GateOn):
		return value // it is so already
	default:
		pairs = append(pairs, c.Name+"="+c.To)
	}
	return strings.Join(pairs, ",")
}

// IsGateOn reports whether a gate is on in a component, by its flag or else by default. A gate that the minor does not
// know any longer is on for good.
func IsGateOn(flag, comp, gate string, minor int) bool {
	if on, said := ParseGates(flag)[gate]; said {
		return on
	}
	g := catalogue.GateFor(comp, gate, minor)
	return g.Default || !g.Known
}

// DropInTreeGates are the gates that an owner has to set so that an in-tree provider runs in 1.29 and 1.30. They go
// with the provider: from 1.31 on a component that is told so does not start. If the provider is to be disabled, they
// become true where that is not the default, which is 1.22 to 1.28.
func DropInTreeGates(flag string, disable bool, gates ...string) []GateChange {
	var out []GateChange
	set := ParseGates(flag)
	for _, g := range gates {
		if on, said := set[g]; said && !on {
			out = append(out, GateChange{Name: g, To: GateRemoved})
		}
		if disable {
			out = append(out, GateChange{Name: g, To: GateOn})
		}
	}
	return out
}
