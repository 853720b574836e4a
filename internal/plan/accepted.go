package plan

import (
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Accepted returns the findings of a plan that somebody accepted: without that its apply would have been refused.
func Accepted(p *v1.Plan) []v1.Finding {
	isNotAccepted := func(f v1.Finding) bool { return f.Accepted == "" }
	return slices.DeleteFunc(slices.Clone(p.Findings), isNotAccepted)
}

// acceptances returns which checks a plan accepts and why, sorted by code. Everything else of a finding are words for readers.
func acceptances(p *v1.Plan) [][2]string {
	var out [][2]string
	for _, f := range Accepted(p) {
		out = append(out, [2]string{f.Code, f.Accepted})
	}
	slices.SortFunc(out, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return out
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
		if f.Accepted != "" || len(notPassed([]v1.Finding{f})) > 0 {
			out = append(out, f)
		}
	}
	p.Findings = out
}
