package faults

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// token is a ServiceAccount's, which every migration has a new one of.
var token = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)

// Same removes from facts what two runs of one command cannot share.
func Same(facts []string) []string {
	out := make([]string, 0, len(facts))
	for _, f := range facts {
		out = append(out, token.ReplaceAllString(f, "TOKEN"))
	}
	return out
}

// Different says which facts of want are missing and which are there instead, at most a few; empty when they are alike.
func Different(want, have []string) string {
	want, have = Same(want), Same(have)
	var lines []string
	for _, f := range want {
		if !slices.Contains(have, f) {
			lines = append(lines, "- "+f)
		}
	}
	for _, f := range have {
		if !slices.Contains(want, f) {
			lines = append(lines, "+ "+f)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	const most = 12
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	return strings.Join(lines, "\n")
}

// Blame writes problems to the faults during which they happened; those that happened during none are returned.
func Blame(outcomes []Outcome, problems []Problem) (rest []Problem) {
	for _, p := range problems {
		found := false
		for i := range outcomes {
			o := &outcomes[i]
			if !o.Missed && !p.To.Before(o.Injected) && !p.From.After(o.Converged) {
				o.Problem, found = p.Text, true
			}
		}
		if !found {
			rest = append(rest, p)
		}
	}
	return rest
}
