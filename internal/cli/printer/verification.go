package printer

import (
	"fmt"
	"io"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client/wording"
)

// PrintVerification prints a line for each check, and below it what failed or is unknown; wide adds the differences
// that are expected.
func PrintVerification(w io.Writer, v v1.Verification, l Layout) error {
	v = safe(v)
	var b strings.Builder
	for _, c := range v.Checks {
		fmt.Fprintf(&b, "%s %s\n", l.paint(c.Outcome, l.Mark(c.Outcome)), titled(c))
		for _, p := range c.Problems {
			if p != c.Summary {
				fmt.Fprintf(&b, "    %s\n", p)
			}
		}
		for _, d := range c.Differences {
			switch {
			case d.Accepted != "":
				fmt.Fprintf(&b, "    accepted: %s: %s · reason: %s\n", d.Object, d.Field, d.Accepted)
			case d.Expected && l.Wide:
				fmt.Fprintf(
					&b,
					"    expected: %s: %s %s -> %s (%s)\n",
					d.Object,
					d.Field,
					wording.OrDash(d.Before),
					wording.OrDash(d.After),
					d.Why,
				)
			}
		}
	}
	if hint := acceptHint(v); hint != "" {
		fmt.Fprintf(&b, "to live with a difference: transplant verify --accept '%s=REASON'\n", hint)
	}
	_, err := io.WriteString(w, l.Plain(b.String()))
	return err
}

// titled is a check's sentence; those that only count are introduced by what they count.
func titled(c v1.VerificationCheck) string {
	switch c.Name {
	case "finished", "owners", "hosts", "facts":
		return c.Summary
	}
	return c.Name + ": " + c.Summary
}

// acceptHint is the first object with a difference that nothing explains.
func acceptHint(v v1.Verification) string {
	for _, c := range v.Checks {
		for _, d := range c.Differences {
			if !d.Expected && d.Accepted == "" {
				return d.Object
			}
		}
	}
	return ""
}
