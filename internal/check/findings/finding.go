// Package findings builds what a check answers: an outcome, a sentence, and the problems of single objects with their
// source and fix.
package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Pass returns a finding of a check that passed.
func Pass(format string, a ...any) v1.Finding {
	return v1.Finding{Outcome: v1.Pass, Summary: fmt.Sprintf(format, a...)}
}

// Skip returns a finding of a check that could not be asked, with the reason.
func Skip(format string, a ...any) v1.Finding {
	return v1.Finding{Outcome: v1.Skip, Summary: fmt.Sprintf(format, a...)}
}

// Dependent is a check that cannot be answered because another one, which reports the cause, was not.
func Dependent(code string) v1.Finding {
	f := Skip("not evaluated: depends on %s", code)
	f.DependsOn = code
	return f
}

// Unknown returns a finding of a check that could not be answered, with the reason. It blocks as a failure does.
func Unknown(format string, a ...any) v1.Finding {
	return v1.Finding{Outcome: v1.Unknown, Summary: fmt.Sprintf(format, a...)}
}

// Problems collects what is wrong with the objects of one check; the finding shows all of them at once.
type Problems struct {
	Lines   []string
	Objects []string
}

// Add notes what is wrong with one object.
func (c *Problems) Add(object, format string, a ...any) {
	c.Lines = append(c.Lines, fmt.Sprintf(format, a...))
	c.Objects = append(c.Objects, object)
}

// Empty reports whether no object has a problem.
func (c *Problems) Empty() bool { return len(c.Lines) == 0 }

// Finding turns the complaints into a finding of the given outcome. The summary is the caller's sentence; Found says
// the first problems and counts the rest, and Objects are all of them.
func (c *Problems) Finding(outcome v1.Outcome, format string, a ...any) v1.Finding {
	objects := slices.Clone(c.Objects)
	slices.Sort(objects)
	return v1.Finding{
		Outcome: outcome,
		Summary: fmt.Sprintf(format, a...),
		Objects: slices.Compact(objects),
		Found:   strings.Join(c.First(), "; "),
	}
}

// First are as many problems as a reader can take in, and how many more there are.
func (c *Problems) First() []string {
	if len(c.Lines) <= MaxShown {
		return c.Lines
	}
	return append(slices.Clone(c.Lines[:MaxShown]), fmt.Sprintf("and %d more", len(c.Lines)-MaxShown))
}

// With fills in what a reader needs to act.
func With(f v1.Finding, expected, source, fix string) v1.Finding {
	f.Expected, f.Source, f.Fix = expected, source, fix
	return f
}

// Some is the finding of problems about objects of which there may be thousands: by object, it says a few and counts
// the rest, and says what several objects share once. Objects are all of them.
func (c *Problems) Some(outcome v1.Outcome, format string, a ...any) v1.Finding {
	order := make([]int, len(c.Lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.Objects[a], c.Objects[b]) })
	var few Problems
	said := make(map[string]bool, len(order))
	for _, i := range order {
		switch {
		case said[c.Lines[i]], len(few.Lines) == MaxShown: // another object of the same complaint, or one too many to say
			few.Objects = append(few.Objects, c.Objects[i])
		default:
			few.Add(c.Objects[i], "%s", c.Lines[i])
		}
		said[c.Lines[i]] = true
	}
	finding := few.Finding(outcome, format, a...)
	if rest := len(said) - len(few.Lines); rest > 0 {
		finding.Found += fmt.Sprintf("; and %d more", rest)
	}
	return finding
}

// Worst puts what warns behind what fails in one finding; ok is false when there is nothing of either.
func Worst(failing, warning *Problems) (all Problems, outcome v1.Outcome, ok bool) {
	all.Lines, all.Objects = slices.Concat(failing.Lines, warning.Lines), slices.Concat(failing.Objects, warning.Objects)
	outcome = v1.Warn
	if !failing.Empty() {
		outcome = v1.Fail
	}
	return all, outcome, !all.Empty()
}

// MaxShown is how many objects a finding names when there may be thousands.
const MaxShown = 10
