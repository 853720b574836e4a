// Package compare says in what two plans differ, and gives a plan's digest.
package compare

import (
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Accepted returns the findings of a plan that were accepted: without that its apply would have been refused.
func Accepted(p *v1.Plan) []v1.Finding {
	isNotAccepted := func(f v1.Finding) bool { return f.Accepted == "" }
	return slices.DeleteFunc(slices.Clone(p.Findings), isNotAccepted)
}

// ReplaceFindings gives a plan of a file the findings of a check of now. An acceptance that is not needed any more
// stays with its finding, so that the plan keeps the digest that was approved.
func ReplaceFindings(p *v1.Plan, findings []v1.Finding) {
	reasons := map[string]string{}
	for _, f := range Accepted(p) {
		reasons[f.Code] = f.Accepted
	}
	var out []v1.Finding
	for _, f := range findings {
		if f.Accepted == "" {
			f.Accepted = reasons[f.Code]
		}
		if f.Accepted != "" || len(NotPassed([]v1.Finding{f})) > 0 {
			out = append(out, f)
		}
	}
	p.Findings = out
}

// NotPassed returns the findings that a plan keeps: those of checks that neither passed nor were skipped.
func NotPassed(in []v1.Finding) []v1.Finding {
	var out []v1.Finding
	for _, f := range in {
		if f.Outcome != v1.Pass && f.Outcome != v1.Skip {
			out = append(out, f)
		}
	}
	return out
}
