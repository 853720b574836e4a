package check

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func pass(format string, a ...any) v1.Finding {
	return v1.Finding{Outcome: v1.Pass, Summary: fmt.Sprintf(format, a...)}
}

func skip(format string, a ...any) v1.Finding {
	return v1.Finding{Outcome: v1.Skip, Summary: fmt.Sprintf(format, a...)}
}

// dependent is a check that cannot be answered because another one, which reports the cause, was not.
func dependent(code string) v1.Finding {
	f := skip("not evaluated: depends on %s", code)
	f.DependsOn = code
	return f
}

func unknown(format string, a ...any) v1.Finding {
	return v1.Finding{Outcome: v1.Unknown, Summary: fmt.Sprintf(format, a...)}
}

// complaints collects what is wrong with the objects of one check; the finding shows all of them at once.
type complaints struct {
	lines   []string
	objects []string
}

func (c *complaints) add(object, format string, a ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, a...))
	c.objects = append(c.objects, object)
}

func (c *complaints) empty() bool { return len(c.lines) == 0 }

// finding turns the complaints into a finding of the given outcome. The summary is the caller's sentence; Found says the first complaints and counts the
// rest, and Objects are all of them.
func (c *complaints) finding(outcome v1.Outcome, format string, a ...any) v1.Finding {
	objects := slices.Clone(c.objects)
	slices.Sort(objects)
	return v1.Finding{
		Outcome: outcome,
		Summary: fmt.Sprintf(format, a...),
		Objects: slices.Compact(objects),
		Found:   strings.Join(c.first(), "; "),
	}
}

// first are as many complaints as a reader can take in, and how many more there are.
func (c *complaints) first() []string {
	if len(c.lines) <= shown {
		return c.lines
	}
	return append(slices.Clone(c.lines[:shown]), fmt.Sprintf("and %d more", len(c.lines)-shown))
}

// with fills in what a reader needs to act.
func with(f v1.Finding, expected, source, fix string) v1.Finding {
	f.Expected, f.Source, f.Fix = expected, source, fix
	return f
}

// plural returns "1 node" or "3 nodes".
func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// be returns "is" or "are" for n things.
func be(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// fewOf joins names, the first of them when there are many.
func fewOf(names []string) string { return few(names) }
