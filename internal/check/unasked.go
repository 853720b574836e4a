package check

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// factChecks come last: they look at what no other check has asked for.
var factChecks = []Check{
	factsUnasked, // FACT-001: a fact that is unknown, and that nobody missed
}

var factsUnasked = Check{
	Code: "FACT-001", Reason: "FactUnknown", Category: categoryFacts, Level: LevelError, Impact: ImpactNone,
	Title: "every fact that was looked for is known, or a check says that it is not",
	Explain: []string{
		"What could not be gathered is listed in the snapshot under errors. Most of it makes the check unknown that would have read it. What is left is reported here: no check has a rule for it, but the plan or the comparison of before and after may " +
			"rely on it, such as a file on a host or an object that the migration writes.",
		"While another check blocks, this one is not evaluated: one cause often hides several facts, and most are known once it is mended.",
	},
	Retryable: true,
	judge:     judgeUnasked,
}

func judgeUnasked(f facts) v1.Finding {
	var bad complaints
	for i, e := range f.Errors {
		if !f.reported[i] {
			bad.add(e.Fact, "%s: %s", e.Fact, e.Error)
		}
	}
	switch {
	case len(f.Errors) == 0:
		return pass("nothing that was looked for is unknown")
	case bad.empty():
		return skip("%s unknown, and other checks say which", counting(len(f.Errors), "fact", "is", "are"))
	}
	if *f.blocker != "" {
		return dependent(*f.blocker)
	}
	finding := bad.finding(v1.Unknown, "%s unknown: %s", counting(len(bad.lines), "fact", "is", "are"), bad.lines[0])
	return with(finding, "no errors in the snapshot", "errors of the snapshot", "transplant snapshot --out snapshot.yaml && grep -A99 ^errors: snapshot.yaml")
}
