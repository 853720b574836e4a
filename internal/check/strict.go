package check

import (
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
)

// BlocksStrictly reports whether a finding is a warning which check --strict does not let pass. What is told for
// information only, always and of every cluster, is none.
func BlocksStrictly(f v1.Finding) bool { return f.Outcome == v1.Warn && f.Level != findings.LevelInfo }

// Strict has warnings block a report, too. They can be accepted like other findings.
func Strict(r *v1.CheckReport, o facts.Options) {
	for i := range r.Findings {
		f := &r.Findings[i]
		if !BlocksStrictly(*f) {
			continue
		}
		accept(f, o)
		if f.Accepted == "" {
			r.Summary.Blocked = true
			continue
		}
		r.Summary.Accepted++
		r.StaleAcceptances = slices.DeleteFunc(r.StaleAcceptances, func(code string) bool { return code == f.Code })
	}
}
