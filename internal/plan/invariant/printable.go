package invariant

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// word is what names of steps, phases, hosts and objects are made of. It has no blank, no line break, and nothing that
// a shell or a terminal obeys.
var word = regexp.MustCompile(`^[A-Za-z0-9._:/@+-]*$`)

// printable refuses texts of a plan that would imitate another line where they are printed. That is in the plan that is
// reviewed, and in commands that are pasted into a shell. A plan is kept in a file or in a ConfigMap, and its texts may
// be an attacker's.
func printable(p *v1.Plan) error {
	var errs []error
	if !word.MatchString(p.Until) {
		errs = append(errs, fmt.Errorf("until %q is no name of a phase or step", p.Until))
	}
	for i, e := range p.Effects {
		errs = append(errs, oneLine(fmt.Sprintf("effects[%d]", i), e))
	}
	for _, f := range p.Facts {
		errs = append(errs, oneLine("the id of a fact", f.ID))
	}
	for i, s := range p.Steps {
		if err := printableStep(s); err != nil {
			errs = append(errs, fmt.Errorf("steps[%d] %q: %w", i, s.ID, err))
		}
	}
	return errors.Join(errs...)
}

func printableStep(s v1.Step) error {
	var errs []error
	for _, f := range []struct{ name, value string }{
		{"id", s.ID}, {"phase", s.Phase}, {"batch", s.Batch}, {"host", s.Host}, {"component", s.Component}, {"ref", s.Ref},
		{"restore", s.Restore}, {"derive", s.Derive},
	} {
		if !word.MatchString(f.value) {
			errs = append(
				errs,
				fmt.Errorf("%s %q has characters that no %s has: letters, digits and ._:/@+- are allowed", f.name, f.value, f.name),
			)
		}
	}
	for _, f := range []struct {
		name   string
		values []string
	}{
		{
			"title", []string{s.Title},
		}, {
			"group", []string{s.Group},
		}, {"why", []string{s.Why}}, {"undo", []string{s.Undo}}, {"path", []string{s.Path}}, {"files", s.Files}, {
			"source", []string{s.Source},
		},
		{"unit", []string{s.Unit}}, {"manual", s.Manual}, {"leases", s.Leases}, {
			"successors", s.Successors,
		}, {"requires", s.Requires}, {"await", awaited(s.Await)},
	} {
		for _, v := range f.values {
			errs = append(errs, oneLine(f.name, v))
		}
	}
	for _, c := range s.Changes {
		errs = append(errs, oneLine("the field of a change", c.Field))
	}
	for _, e := range s.Edits {
		errs = append(errs, oneLine("the name of an edit", e.Name))
	}
	return errors.Join(errs...)
}

// awaited are the texts of what a step waits for.
func awaited(a *v1.Await) []string {
	if a == nil {
		return nil
	}
	return append([]string{a.Component, a.Version, a.NodeGone}, a.Instructions...)
}

// oneLine refuses what is more than one line, or has characters that are not seen.
func oneLine(name, text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s %q has a line break or a character that is not seen", name, text)
	}
	return nil
}
