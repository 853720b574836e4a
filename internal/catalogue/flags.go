package catalogue

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
