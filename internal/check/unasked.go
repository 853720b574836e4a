package check

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
)

// factChecks come last: they look at what no other check has asked for.
var factChecks = []rule.Check{
	factsUnasked, // FACT-001: an unknown fact that no check needed
}

var factsUnasked = rule.Check{
	Code:      "FACT-001",
	Reason:    "FactUnknown",
	Category:  findings.CategoryFacts,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNone,
	LookFor:   "the error of the fact that the finding names",
	Retryable: true,
	Judge:     judgeUnasked,
}

func judgeUnasked(f facts.Facts) v1.Finding {
	var bad findings.Problems
	for i, e := range f.Errors {
		if !f.Reported[i] {
			bad.Add(e.Fact, "%s: %s", e.Fact, e.Error)
		}
	}
	switch {
	case len(f.Errors) == 0:
		return findings.Pass("nothing that was looked for is unknown")
	case bad.Empty():
		return findings.Skip("%s unknown, and other checks say which", findings.Counting(len(f.Errors), "fact", "is", "are"))
	}
	if *f.Blocker != "" {
		return findings.Dependent(*f.Blocker)
	}
	finding := bad.Finding(
		v1.Unknown,
		"%s unknown: %s",
		findings.Counting(len(bad), "fact", "is", "are"),
		bad[0].Text,
	)
	return findings.With(
		finding,
		"no errors in the snapshot",
		"errors of the snapshot",
		"transplant snapshot --out snapshot.yaml && grep -A99 ^errors: snapshot.yaml",
	)
}
