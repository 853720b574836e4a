package printer

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
)

// TestProblemsThatAreNotShownAreCounted holds the printed numbers to what the finding counts; each was said of ten problems only.
func TestProblemsThatAreNotShownAreCounted(t *testing.T) {
	for _, c := range []struct {
		problems      int
		wide          bool
		lines         int
		last, printed string
	}{
		{1, false, 0, "", "expected none, found n0: a; b"},
		{2, false, 2, "  n1: a; b", ""},
		{5, false, 4, "  and 2 more: -o wide shows them all", ""},
		{15, false, 4, "  and 12 more: -o wide shows ten", ""},
		{15, true, 11, "  and 5 more", ""},
	} {
		var bad findings.Problems
		for i := range c.problems {
			bad.Add("n", "n%d: a; b", i)
		}
		text := compared(findings.With(bad.Finding(v1.Fail, "bad"), "none", "", ""), Layout{Wide: c.wide})
		first, rest, several := strings.Cut(text, "\n")
		lines := strings.Split(rest, "\n")
		switch {
		case !several && text != c.printed:
			t.Errorf("%d problems: got %q, want %q", c.problems, text, c.printed)
		case several && (first != "expected none, found" || len(lines) != c.lines || lines[len(lines)-1] != c.last):
			t.Errorf("%d problems: got %q, want %d lines that end with %q", c.problems, text, c.lines, c.last)
		}
	}
	if got := fmt.Sprint(compared(v1.Finding{Found: "a; b"}, Layout{})); got != "found a; b" {
		t.Errorf("a finding without problems: %q", got)
	}
}
