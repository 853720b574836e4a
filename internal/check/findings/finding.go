// Package findings builds what a check answers: an outcome, a sentence, and the problems of single objects with their
// source and fix.
package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/visible"
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
	f := Skip("needs %s first", code)
	f.DependsOn = code
	return f
}

// Unknown returns a finding of a check that could not be answered, with the reason. It blocks like a failure.
func Unknown(format string, a ...any) v1.Finding {
	return v1.Finding{Outcome: v1.Unknown, Summary: fmt.Sprintf(format, a...)}
}

// Problems are what is wrong with the objects of one check; the finding shows all of them at once.
type Problems []v1.Problem

// maxText bounds, in bytes, the text about one object. A flag in it may have a megabyte, and objects may be thousands.
// The user of one namespace could take the memory of the operator of a whole fleet.
const maxText = 2 << 10

// Add notes what is wrong with one object, in a clause that names it.
func (p *Problems) Add(object, format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	*p = append(*p, v1.Problem{Object: visible.Cut(object, maxText), Text: visible.Cut(text, maxText)})
}

// Empty reports whether no object has a problem.
func (p Problems) Empty() bool { return len(p) == 0 }

// Objects returns the object of each problem.
func (p Problems) Objects() []string {
	out := make([]string, 0, len(p))
	for _, one := range p {
		out = append(out, one.Object)
	}
	return out
}

// Texts returns the text of each problem.
func (p Problems) Texts() []string {
	out := make([]string, 0, len(p))
	for _, one := range p {
		out = append(out, one.Text)
	}
	return out
}

// namedOf is how many of the objects with the same problem its text names; the problem has all of them.
const namedOf = 5

// Grouped returns each problem once, with all objects that have it. Two problems are the same if their texts differ
// only in the name of the object. Errors of many hosts are one line then, and a second error among them is seen.
func (p Problems) Grouped() Problems {
	out := make(Problems, 0, len(p))
	at := make(map[string]int, len(p))
	for _, one := range p {
		key := one.Text
		for _, name := range namesIn(one.Object) {
			key = strings.ReplaceAll(key, name, "\x00")
		}
		if key == one.Text { // it does not name its object
			out = append(out, one)
			continue
		}
		i, seen := at[key]
		if !seen {
			at[key] = len(out)
			out = append(out, one)
			continue
		}
		if len(out[i].Objects) == 0 {
			out[i].Objects = []string{out[i].Object}
		}
		out[i].Objects = append(out[i].Objects, one.Object)
	}
	for i, one := range out {
		if len(one.Objects) > 0 {
			text := fmt.Sprintf("%s (%d in all: %s)", one.Text, len(one.Objects), english.FirstOf(namedOf, one.Objects))
			out[i].Text = visible.Cut(text, maxText)
		}
	}
	return out
}

// namesIn are the names by which a text may call an object: its own, and that of the host in component@host and in
// hosts/host/fact. An error of a host names the host once more.
func namesIn(object string) []string {
	if object == "" {
		return nil
	}
	out := []string{object}
	host := object[strings.LastIndexByte(object, '@')+1:]
	if rest, isFact := strings.CutPrefix(object, "hosts/"); isFact {
		host, _, _ = strings.Cut(rest, "/")
	}
	if host != "" && host != object {
		out = append(out, host)
	}
	return out
}

// Finding returns a finding of the given outcome about these problems, the summary being the caller's sentence. It has
// the first problems and counts the rest, and all objects.
func (p Problems) Finding(outcome v1.Outcome, format string, a ...any) v1.Finding {
	objects := p.Objects()
	slices.Sort(objects)
	p = p.Grouped()
	shown := p[:min(len(p), MaxShown)]
	f := v1.Finding{
		Outcome:      outcome,
		Summary:      fmt.Sprintf(format, a...),
		Objects:      slices.Compact(objects),
		Problems:     slices.Clone(shown),
		MoreProblems: len(p) - len(shown),
	}
	texts := shown.Texts()
	if f.MoreProblems > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", f.MoreProblems))
	}
	f.Found = strings.Join(texts, "; ")
	return f
}

// Some returns a finding of problems about objects of which there may be thousands: sorted by object, and what several
// objects share is said once.
func (p Problems) Some(outcome v1.Outcome, format string, a ...any) v1.Finding {
	sorted := slices.Clone(p)
	slices.SortStableFunc(sorted, func(a, b v1.Problem) int { return cmp.Compare(a.Object, b.Object) })
	said := make(map[string]bool, len(p))
	sorted = slices.DeleteFunc(sorted, func(one v1.Problem) bool {
		before := said[one.Text]
		said[one.Text] = true
		return before
	})
	finding := sorted.Finding(outcome, format, a...)
	finding.Objects = slices.Sorted(slices.Values(p.Objects()))
	finding.Objects = slices.Compact(finding.Objects)
	return finding
}

// With fills in what a reader needs to act.
func With(f v1.Finding, expected, source, fix string) v1.Finding {
	f.Expected, f.Source, f.Fix = expected, source, fix
	return f
}

// Worst puts what warns behind what fails in one finding; ok is false when there is nothing of either.
func Worst(failing, warning Problems) (all Problems, outcome v1.Outcome, ok bool) {
	outcome = v1.Warn
	if !failing.Empty() {
		outcome = v1.Fail
	}
	all = slices.Concat(failing, warning)
	return all, outcome, !all.Empty()
}

// MaxShown is how many objects a finding names when there may be thousands.
const MaxShown = 10
