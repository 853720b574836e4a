package catalogue

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/component"
)

// Flag is what a flag is in one component of one minor.
type Flag struct {
	// Known is false when the component does not start with it.
	Known bool
	// Deprecated is a sentence where it is, with the minor that no longer knows it where there is one. The kubelet's flags
	// that its config file has too are not counted.
	Deprecated string
}

// FlagAt returns what a flag, without dashes, of a component (kube-apiserver, kube-controller-manager, kube-scheduler,
// kubelet, cloud-controller-manager) is in a minor. A cloud-controller-manager's flags are its library's; providers add
// some of their own. The second result is false for a flag that the component had in no minor of the table. A minor
// after Newest is answered as Newest.
func FlagAt(program, flag string, minor int) (Flag, bool) {
	spans, ok := flags[program+" "+flag]
	minor = min(minor, component.Newest)
	for _, s := range spans {
		if minor >= s.from && minor <= s.to {
			return Flag{Known: true, Deprecated: s.sentence(spans[len(spans)-1].to)}, true
		}
	}
	return Flag{}, ok
}

// FlagRange returns the first and the last minor of the table that know a flag; a last of Newest has not ended yet.
// False when none does.
func FlagRange(component, flag string) (first, last int, ok bool) {
	spans := flags[component+" "+flag]
	if len(spans) == 0 {
		return 0, 0, false
	}
	return spans[0].from, spans[len(spans)-1].to, true
}

// FlagsOf lists the flags that a component has in a minor, sorted.
func FlagsOf(component string, minor int) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if flag, ok := strings.CutPrefix(name, component+" "); ok {
			if f, _ := FlagAt(component, flag, minor); f.Known {
				out = append(out, flag)
			}
		}
	}
	return out
}

// flagSpan is the minors, both included, in which a flag is the same.
type flagSpan struct {
	from, to   int
	deprecated bool
}

func (s flagSpan) sentence(last int) string {
	switch {
	case !s.deprecated:
		return ""
	case last < component.Newest:
		return fmt.Sprintf("it is deprecated, and Kubernetes 1.%d no longer knows it", last+1)
	default:
		return "it is deprecated"
	}
}

// flagsText has a line per component and flag. Made from testdata, which is made from the source of each minor
// (extractflags_test.go).
//
//go:embed flags.txt
var flagsText string

var flags = parseFlags(flagsText)

func parseFlags(text string) map[string][]flagSpan {
	out := map[string][]flagSpan{}
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) < 3 || words[0] == "#" {
			continue
		}
		for _, text := range strings.Split(words[2], "|") {
			s := flagSpan{from: 1, deprecated: strings.Contains(text, "deprecated")}
			if _, err := fmt.Sscanf(strings.TrimSpace(text), "%d-%d", &s.from, &s.to); err != nil {
				s = flagSpan{from: 1} // of no minor, which a test finds
			}
			out[words[0]+" "+words[1]] = append(out[words[0]+" "+words[1]], s)
		}
	}
	return out
}
