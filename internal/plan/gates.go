package plan

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// Feature gates that a migration has to do with beside those of the volume plugins, which the catalogue has with each plugin.
const (
	gatesFlag = "feature-gates"
	// gateNoProviders takes the in-tree providers out of a component: alpha from 1.22, on unless said otherwise from 1.29 (KEP-2395).
	gateNoProviders = "DisableCloudProviders"
	// gateNoCredentials takes the in-tree image credentials out of the kubelet (KEP-2133).
	gateNoCredentials = "DisableKubeletCloudCredentialProviders"
	// gateCredentials lets a kubelet ask image credential providers; it has to be switched on up to 1.23 (KEP-2133).
	gateCredentials = "KubeletCredentialProviders"
	// gateLeaderMigration is alpha in 1.21 and on after it (KEP-2436).
	gateLeaderMigration = "ControllerManagerLeaderMigration"
	// gateCSI is the common gate of KEP-625.
	gateCSI = "CSIMigration"
)

// gateSet is what a --feature-gates flag says, by gate.
type gateSet map[string]bool

// readGates reads a value of --feature-gates; what is no gate=bool is left to the component, which refuses it.
func readGates(value string) gateSet {
	out := gateSet{}
	for _, pair := range strings.Split(value, ",") {
		name, v, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if on, err := strconv.ParseBool(strings.TrimSpace(v)); ok && err == nil {
			out[strings.TrimSpace(name)] = on
		}
	}
	return out
}

func (g gateSet) String() string {
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

// allGates merges every occurrence of --feature-gates in a command, as the components do; of other flags the last one wins.
func allGates(command []string, flag string) string {
	out := gateSet{}
	n := 0
	for i, arg := range command {
		value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), gatesFlag+"=")
		if !ok && strings.TrimLeft(arg, "-") == gatesFlag && strings.HasPrefix(arg, "-") && i+1 < len(command) {
			value, ok = command[i+1], true
		}
		if !ok || !strings.HasPrefix(arg, "-") {
			continue
		}
		n++
		for g, on := range readGates(value) {
			out[g] = on
		}
	}
	if n < 2 {
		return flag
	}
	return out.String()
}

// gateChange is what becomes of a gate: on, off, or gone, so that its default holds.
type gateChange struct {
	name string
	to   string
}

const (
	gateOn   = "true"
	gateGone = ""
)

// gateEdits changes gates in a value of --feature-gates and keeps every other gate that its owner has set, and the order they are written in. A gate
// that the component's minor does not know is never set: the component would not start.
func gateEdits(current, comp string, minor int, changes []gateChange) []v1.Edit {
	value := current
	for _, c := range changes {
		value = changeGate(value, c, catalogue.GateFor(comp, c.name, minor))
	}
	switch {
	case value == current:
		return nil
	case value == "":
		return []v1.Edit{{Op: "unsetFlag", Name: gatesFlag}}
	}
	return []v1.Edit{{Op: "setFlag", Name: gatesFlag, Value: value}}
}

func changeGate(value string, c gateChange, is catalogue.Gate) string {
	var pairs []string
	for _, p := range strings.Split(value, ",") {
		if p != "" {
			pairs = append(pairs, p)
		}
	}
	at := slices.IndexFunc(pairs, func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return strings.TrimSpace(name) == c.name
	})
	set := at >= 0 && readGates(pairs[at])[c.name] == (c.to == gateOn)
	switch {
	case c.to == gateGone && at < 0, set && c.to != gateGone:
		return value
	case c.to == gateGone:
		return strings.Join(slices.Delete(pairs, at, at+1), ",")
	case !is.Known:
		return value
	case at >= 0:
		pairs[at] = c.name + "=" + c.to
	case is.Default == (c.to == gateOn):
		return value // it is so already
	default:
		pairs = append(pairs, c.name+"="+c.to)
	}
	return strings.Join(pairs, ",")
}

// gateValue is what a gate is in a component: what its flag says, else its default. A gate that the minor does not know any longer is on for good.
func gateValue(flag, comp, gate string, minor int) bool {
	if on, said := readGates(flag)[gate]; said {
		return on
	}
	g := catalogue.GateFor(comp, gate, minor)
	return g.Default || !g.Known
}

// inTreeAgain are the gates that an owner has to set so that an in-tree provider runs in 1.29 and 1.30. They go with the provider: from 1.31 on a
// component that is told so does not start.
func inTreeAgain(flag string, gates ...string) []gateChange {
	var out []gateChange
	set := readGates(flag)
	for _, g := range gates {
		if on, said := set[g]; said && !on {
			out = append(out, gateChange{name: g, to: gateGone})
		}
	}
	return out
}
