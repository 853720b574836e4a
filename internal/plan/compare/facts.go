package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// FactChange is a fact that differs between two plans.
type FactChange struct {
	ID string
	// Text names the fact, with both values.
	Text string
}

// ChangedFacts returns which facts differ between an older plan and a newer one of the same cluster. They are sorted by
// their IDs.
func ChangedFacts(older, newer *v1.Plan) []FactChange {
	was, is := factsOf(older), factsOf(newer)
	ids := map[string]bool{}
	for id := range was {
		ids[id] = true
	}
	for id := range is {
		ids[id] = true
	}
	var out []FactChange
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		a, before := was[id]
		b, after := is[id]
		text := ""
		switch {
		case !before:
			text = fmt.Sprintf("%s: not looked at before, now %s", id, value(b))
		case !after:
			text = fmt.Sprintf("%s: was %s, no longer needed", id, value(a))
		case a.Value != b.Value:
			text = fmt.Sprintf("%s: was %s, now %s%s", id, value(a), value(b), detail(a.Detail, b.Detail))
		default:
			continue
		}
		out = append(out, FactChange{id, text})
	}
	return out
}

func factsOf(p *v1.Plan) map[string]v1.Fact {
	out := map[string]v1.Fact{}
	for _, f := range p.Facts {
		out[f.ID] = f
	}
	return out
}

func value(f v1.Fact) string {
	const enough = 12
	if len(f.Value) == 64 { // a SHA-256, of which the beginning tells two apart
		return f.Value[:enough] + "..."
	}
	if f.Value == "" {
		return "empty"
	}
	return f.Value
}

// detail names the arguments that came and went.
func detail(before, after string) string {
	if before == "" || after == "" {
		return ""
	}
	had, has := map[string]bool{}, map[string]bool{}
	for _, a := range strings.Split(before, "\n") {
		had[a] = true
	}
	var out []string
	for _, a := range strings.Split(after, "\n") {
		if has[a] = true; !had[a] {
			out = append(out, "+ "+a)
		}
	}
	for _, a := range strings.Split(before, "\n") {
		if !has[a] {
			out = append(out, "- "+a)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}
