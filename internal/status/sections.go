package status

import (
	"slices"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// findingsOf returns what did not pass when a plan was made, in the order of the checks. Codes that no check has are
// left out: a journal may hold any text.
func findingsOf(p *v1.Plan) []v1.PlanFinding {
	outcomes := map[string]v1.Outcome{}
	for _, f := range p.Findings {
		if f.Outcome == v1.Warn || f.Outcome == v1.Fail || f.Outcome == v1.Unknown {
			outcomes[f.Code] = f.Outcome
		}
	}
	var out []v1.PlanFinding
	for _, c := range check.All() {
		if outcome, isFound := outcomes[c.Code]; isFound {
			out = append(out, v1.PlanFinding{Code: c.Code, Level: c.Level, Outcome: outcome})
		}
	}
	return out
}

// sectionTimes returns for how long the phases were executed of the plan that is executed now, or was last. A phase of
// another name than those of our plans is left out. The last command may have ended with an error before a step,
// without a record of it.
func sectionTimes(f Facts, judged v1.Status) []v1.SectionTime {
	doc := f.Journal
	steps, have, idle := f.steps(), results(doc), idling(f, judged)
	var order []string
	sections := map[string]*section{}
	for _, step := range steps {
		if sections[step.Phase] == nil {
			sections[step.Phase] = &section{}
			order = append(order, step.Phase)
		}
		r := have[step.ID]
		sections[step.Phase].addRecord(r, step.ID == judged.LastErrorStep || isBegun(r) && r.Error != "")
	}
	var out []v1.SectionTime
	for _, name := range order {
		s := sections[name]
		if s.from.IsZero() || !slices.Contains(planstep.Phases, name) {
			continue
		}
		length := f.since(s.from) - doc.IdleSince(s.from) - idle
		if s.isLeft && doc.Ended != nil {
			s.to = *doc.Ended
		}
		if !s.isLeft || doc.Ended != nil {
			length = s.to.Sub(s.from) - (doc.IdleSince(s.from) - doc.IdleSince(s.to))
		}
		out = append(out, v1.SectionTime{Section: name, Result: s.stepResult(), Seconds: roundSeconds(max(0, length))})
	}
	return out
}

// section is what the records of its steps say of a phase.
type section struct {
	// from is when the first of its steps was begun, to when the last one that has ended did.
	from, to time.Time
	// isLeft reports whether a step has not ended, hasFailed whether the last try of one ended with an error.
	isLeft, hasFailed bool
}

// addRecord takes in the record of a step, which is empty for one that was not begun.
func (s *section) addRecord(r v1.StepRecord, hasFailed bool) {
	s.isLeft = s.isLeft || !r.IsEnded()
	s.hasFailed = s.hasFailed || hasFailed
	if !r.Started.IsZero() && (s.from.IsZero() || r.Started.Before(s.from)) {
		s.from = r.Started
	}
	if r.Ended != nil && r.Ended.After(s.to) {
		s.to = *r.Ended
	}
}

// stepResult is the result that a step would have which did all of the section.
func (s *section) stepResult() v1.StepResult {
	switch {
	case !s.isLeft:
		return v1.StepResultDone
	case s.hasFailed:
		return v1.StepResultFailed
	}
	return v1.StepResultStarted
}
