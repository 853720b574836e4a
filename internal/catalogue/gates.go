package catalogue

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/component"
)

// Gate is what a feature gate is in one component of one minor.
type Gate struct {
	// Known is false when the component refuses to start with the gate set, whatever its value.
	Known bool
	// Default is its value when nothing is said.
	Default bool
	// Locked reports whether it cannot be set to anything but its default: the component refuses to start with another
	// value.
	Locked bool
	// Stage is alpha, beta, GA or deprecated.
	Stage string
}

// GateAt returns what a feature gate is in some component of a minor. Where components differ
// (ControllerManagerLeaderMigration up to 1.26 is known to the managers alone), GateFor is exact. A minor after Newest
// is answered as Newest, one before Oldest as unknown.
func GateAt(gate string, minor int) Gate {
	g, _ := lookup(gate, minor)
	return g
}

// GateFor returns what a feature gate is in a component (kube-apiserver, kube-controller-manager, kube-scheduler,
// kubelet, kube-proxy, cloud-controller-manager) of a minor; a cloud-controller-manager's minor is its library's.
func GateFor(component, gate string, minor int) Gate {
	g, in := lookup(gate, minor)
	if !in.has(component) {
		return Gate{}
	}
	return g
}

// GateKnown reports whether some minor of the tables has a feature gate. One that none has may be newer than the
// tables, or misspelt.
func GateKnown(gate string) bool { return gates[gate] != nil || groups[gate] != "" }

// Gates lists all feature gates of the tables, sorted.
func Gates() []string { return slices.Sorted(maps.Keys(gates)) }

func lookup(gate string, minor int) (Gate, scope) {
	minor = min(minor, component.Newest)
	if stage, ok := groups[gate]; ok && minor >= component.Oldest {
		return Gate{Known: true, Stage: stage}, inAll
	}
	for _, span := range gates[gate] {
		if minor >= span.from && minor <= span.to {
			return span.Gate, span.in
		}
	}
	return Gate{}, ""
}

// groups are the gates that stand for all gates of a stage (k8s.io/component-base/featuregate).
var groups = map[string]string{"AllAlpha": "alpha", "AllBeta": "beta"}

// scope is who knows a gate.
type scope string

const (
	inKubernetes scope = "k" // the components of k8s.io/kubernetes
	inManagers   scope = "m" // kube-controller-manager and cloud-controller-managers
	inAll        scope = "a"
)

func (s scope) has(name string) bool {
	switch name {
	case component.CCM:
		return s == inManagers || s == inAll
	case component.KCM:
		return s != ""
	default:
		return s == inKubernetes || s == inAll
	}
}

// gateSpan is the minors, both included, in which a gate is the same.
type gateSpan struct {
	from, to int
	Gate
	in scope
}

// gatesText has a line per gate: its name, then its spans. Made from testdata, which is made from the source of each
// minor (extract_test.go).
//
//go:embed gates.txt
var gatesText string

var gates = parseGates(gatesText)

func parseGates(text string) map[string][]gateSpan {
	out := map[string][]gateSpan{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name == "#" {
			continue
		}
		for _, s := range strings.Split(rest, "|") {
			out[name] = append(out[name], parseSpan(strings.Fields(s)))
		}
	}
	return out
}

// parseSpan reads "22-28 alpha off k"; what it cannot read is a span of no minor, which a test finds.
func parseSpan(words []string) gateSpan {
	s := gateSpan{from: 1}
	if len(words) < 4 {
		return s
	}
	if _, err := fmt.Sscanf(words[0], "%d-%d", &s.from, &s.to); err != nil {
		return gateSpan{from: 1}
	}
	s.Gate = Gate{
		Known:   true,
		Stage:   words[1],
		Default: words[2] == "on",
		Locked:  words[3] == "locked",
	}
	s.in = scope(words[len(words)-1])
	return s
}
