package catalogue

// Gate is what a feature gate is in one component of one minor.
type Gate struct {
	// Known is false when the component refuses to start with the gate set, whatever its value.
	Known bool
	// Default is its value when nothing is said.
	Default bool
	// Locked tells that it cannot be set to anything but its default.
	Locked bool
	// Stage is alpha, beta, GA or deprecated.
	Stage string
}

// GateAt returns what a feature gate is in a minor. All Kubernetes components of a minor share one list of gates; cloud-controller-managers have
// their library's.
func GateAt(gate string, minor int) Gate {
	for _, span := range gates[gate] {
		if minor >= span.from && minor <= span.to {
			return span.Gate
		}
	}
	return Gate{}
}

// span is the minors, both included, in which a gate is the same.
type span struct {
	from, to int
	Gate
}

// Flag is what a flag is in one component of one minor.
type Flag struct {
	// Known is false when the component does not start with it.
	Known bool
	// Deprecated is a sentence where it is.
	Deprecated string
}

// FlagAt returns what a flag, without dashes, of a component is in a minor. The second result is false for a flag that the table does not hold.
func FlagAt(component, flag string, minor int) (Flag, bool) {
	spans, ok := flags[component][flag]
	if !ok {
		return Flag{}, false
	}
	for _, s := range spans {
		if minor >= s.from && minor <= s.to {
			return Flag{Known: true, Deprecated: s.deprecated}, true
		}
	}
	return Flag{}, true
}

type flagSpan struct {
	from, to   int
	deprecated string
}
