package hosted

import (
	"fmt"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Error tells how many findings refuse, and the first of them.
func (e *BlockedError) Error() string {
	blocking := e.Blocking()
	if len(blocking) == 0 {
		return "the checks refuse the migration"
	}
	first := blocking[0]
	more := ""
	if n := len(blocking) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("%s: %s%s", first.Code, first.Summary, more)
}

func (e *UnplannedError) Error() string {
	return fmt.Sprintf("making the plan of the %s: %v", e.Part, e.Err)
}

func (e *UnplannedError) Unwrap() error { return e.Err }

// Blocking are the findings that refuse, in the order of the report.
func (e *BlockedError) Blocking() []v1.Finding {
	var out []v1.Finding
	for _, f := range e.Report.Findings {
		if (f.Outcome == v1.Fail || f.Outcome == v1.Unknown) && f.Accepted == "" {
			out = append(out, f)
		}
	}
	return out
}
