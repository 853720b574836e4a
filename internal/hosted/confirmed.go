package hosted

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// UnconfirmedError says that a part was not begun because its plan is another one than the plan that a person
// confirmed.
type UnconfirmedError struct {
	// Confirmed and Made are the SHA-256 of the steps of both plans.
	Confirmed, Made string
	// Other are the IDs of steps that both plans have and that do something else now. New and Gone are those of steps that
	// only one of them has. All are empty when only the SHA-256 was kept of what was confirmed.
	Other, New, Gone []string
}

// stepDigits is how much is kept of the sum of one step: it tells steps apart, and the sum of all decides.
const stepDigits = 8

// Confirmation is what is kept of steps that a person confirms. It is their SHA-256, followed by the ID and a few
// digits of each, by which a refusal names those that differ. Words for readers are left out, so that a plan stays
// confirmed when a later version of the program says the same in other words.
func Confirmation(steps []v1.Step) string {
	out := []string{Sum(steps)}
	for _, s := range steps {
		out = append(out, s.ID+"="+Sum([]v1.Step{s})[:stepDigits])
	}
	return strings.Join(out, " ")
}

// Sum is the SHA-256 of what steps do.
func Sum(steps []v1.Step) string { return compare.Sum(steps) }

// confirmed compares a plan with what was confirmed. Nothing was, when the confirmation is empty.
func confirmed(confirmation string, steps []v1.Step) error {
	was := strings.Fields(confirmation)
	made := Sum(steps)
	if len(was) == 0 || was[0] == made {
		return nil
	}
	out := &UnconfirmedError{Confirmed: was[0], Made: made}
	if len(was) == 1 {
		return out
	}
	before := map[string]string{}
	for _, word := range was[1:] {
		if at := strings.LastIndexByte(word, '='); at >= 0 {
			before[word[:at]] = word[at+1:]
		}
	}
	for _, s := range steps {
		sum, there := before[s.ID]
		switch {
		case !there:
			out.New = append(out.New, s.ID)
		case sum != Sum([]v1.Step{s})[:stepDigits]:
			out.Other = append(out.Other, s.ID)
		}
		delete(before, s.ID)
	}
	for id := range before {
		out.Gone = append(out.Gone, id)
	}
	slices.Sort(out.Gone)
	return out
}

// namedSteps is how many steps of a kind a message names.
const namedSteps = 4

// Error names the steps that differ.
func (e *UnconfirmedError) Error() string {
	out := fmt.Sprintf(
		"the plan is not the one that was confirmed (%.*s then, %.*s now)",
		stepDigits,
		e.Confirmed,
		stepDigits,
		e.Made,
	)
	var words []string
	for _, sort := range []struct {
		what string
		ids  []string
	}{{"changed", e.Other}, {"new", e.New}, {"gone", e.Gone}} {
		if len(sort.ids) == 0 {
			continue
		}
		list := strings.Join(sort.ids[:min(len(sort.ids), namedSteps)], ", ")
		if more := len(sort.ids) - namedSteps; more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		words = append(words, sort.what+" "+list)
	}
	if len(words) == 0 {
		return out
	}
	return out + ": " + strings.Join(words, "; ")
}
