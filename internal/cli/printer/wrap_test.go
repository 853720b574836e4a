package printer

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestNoWordIsLostOrBroken: half a path is another path.
func TestNoWordIsLostOrBroken(t *testing.T) {
	long := "--leader-migration-config=/etc/kubernetes/transplant/leader-migration-kcm.yaml"
	text := "change " + long + " and é ✓ " + strings.Repeat("word ", 40) + "end"
	for _, width := range []int{1, MinWidth, 60, 120, 500} {
		got := Layout{Width: width}.Wrap("  ! ", "      ", text)
		words := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(got, "\n      "+continued, " "), "  ! ", ""))
		if strings.Join(words, " ") != text {
			t.Errorf("width %d: the text is now %q", width, got)
		}
		for i, line := range strings.Split(got, "\n") {
			if n := utf8.RuneCountInString(line); n > max(width, MinWidth) && !strings.Contains(line, long) {
				t.Errorf("width %d: a line of %d: %q", width, n, line)
			}
			if i > 0 && !strings.HasPrefix(line, "      "+continued) {
				t.Errorf("width %d: a further line is not marked: %q", width, line)
			}
		}
	}
	if got := (Layout{}).Wrap("a ", "b", text); got != "a "+text {
		t.Errorf("without a width: %q", got)
	}
}

// TestOneCauseOfManyUnknownsIsOneLine: a list that may not be read left forty-six checks unknown, in a hundred and forty lines.
func TestOneCauseOfManyUnknownsIsOneLine(t *testing.T) {
	unknown := func(code, why string) v1.Finding {
		return v1.Finding{Code: code, Outcome: v1.Unknown, Level: "error", Summary: why}
	}
	r := v1.CheckReport{Findings: []v1.Finding{
		unknown("A-001", "forbidden"), unknown("A-002", "timeout"), unknown("A-003", "forbidden"), unknown("A-004", "forbidden"), unknown("A-005", "forbidden"),
		unknown("A-006", "forbidden"), unknown("A-007", "forbidden"), {Code: "A-008", Outcome: v1.Unknown, Level: "error", Summary: "forbidden", Fix: "kubectl get nodes"},
	}}
	var few, wide strings.Builder
	if err := errors.Join(PrintFindings(&few, r, Layout{Width: 120}), PrintFindings(&wide, r, Layout{Width: 120, Wide: true})); err != nil {
		t.Fatal(err)
	}
	want := "  ? A-001        error     forbidden (the same for 6 checks: A-001, A-003, A-004, A-005, A-006 and 1 more)\n"
	if !strings.Contains(few.String(), want) || strings.Count(few.String(), "  ? ") != 3 {
		t.Errorf("got\n%s", few.String())
	}
	if strings.Count(wide.String(), "  ? ") != 8 {
		t.Errorf("-o wide leaves some out:\n%s", wide.String())
	}
}

// TestWhatStandsInTheWayIsReadWhole, as far as three lines have it; -v has all.
func TestWhatStandsInTheWayIsReadWhole(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	next := "\n" + strings.Repeat(" ", 34) + "| "
	for name, c := range map[string]struct {
		message string
		verbose bool
		want    string
	}{
		"one line":  {"short", false, "✗ -      error    migration       short\nnext:"},
		"two lines": {words(10), false, "✗ -      error    migration       " + words(9) + next + "word\nnext:"},
		"too many":  {words(30) + " last", false, next + words(9) + next + words(8) + " wor…\nnext:"},
		"all of it": {words(30) + " last", true, next + words(9) + next + words(9) + next + words(3) + " last\nnext:"},
	} {
		s := v1.Status{State: v1.StateFailed, Run: "r", Health: []v1.Blocker{{Level: "error", Impact: "migration", Message: c.message}}, Next: "x"}
		if got := StatusText(s, Layout{Width: 80, Verbose: c.verbose}, false); !strings.Contains(got, c.want) {
			t.Errorf("%s: it does not say %q:\n%s", name, c.want, got)
		}
	}
}

// TestAReportBeginsWithItsVerdict, and goes on with what blocks, the worst first.
func TestAReportBeginsWithItsVerdict(t *testing.T) {
	r := v1.CheckReport{
		Summary: v1.CheckSummary{Blocked: true, Failed: 2, Unknown: 1, Warned: 1, Passed: 1, Skipped: 3},
		Findings: []v1.Finding{
			{Code: "A-001", Outcome: v1.Pass, Summary: "well", Level: "error"},
			{Code: "A-002", Outcome: v1.Warn, Summary: "so so", Level: "warning"},
			{Code: "A-003", Outcome: v1.Fail, Summary: "bad", Level: "error", Fix: "kubectl get nodes", FixKind: v1.FixLook, LookFor: "a taint"},
			{Code: "A-004", Outcome: v1.Skip, Summary: "needs A-003 first", Category: "one"},
			{Code: "A-005", Outcome: v1.Fail, Summary: "worse", Level: "critical", Fix: "kubectl drain a", FixKind: v1.FixChange, OnlyIf: "b", Warning: "c"},
			{Code: "A-006", Outcome: v1.Skip, Summary: "not for aws", Category: "two"},
			{Code: "A-007", Outcome: v1.Unknown, Summary: "who knows", Level: "info"},
			{Code: "A-008", Outcome: v1.Skip, Summary: "needs A-003 first", Category: "two"},
		},
	}
	text := func(l Layout) string {
		var b strings.Builder
		if err := PrintCheck(&b, r, l); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	got := text(Layout{Width: 120})
	if !strings.HasPrefix(got, "blocked: 2 failed, 1 unknown, 1 warning, 3 not evaluated, 1 passed (-v shows them)\nfailed\n  ✗ A-005        critical  worse\n") {
		t.Errorf("it begins with\n%s", got)
	}
	at := -1
	for _, part := range []string{
		"A-005 ", "\n      warning: c\n      only if b\n      fix: kubectl drain a\n      docs: https://",
		"A-003 ", "\n      look: kubectl get nodes\n      in its output: a taint\n      docs: https://", "#a-003 (offline: transplant explain A-003)\n",
		"unknown", "A-007", "warnings", "A-002", "not evaluated", "  - A-004, A-008  needs A-003 first\n", "next: transplant explain A-005\n",
	} {
		i := strings.Index(got[max(at, 0):], part)
		if i < 0 {
			t.Errorf("%q is missing behind what comes before it:\n%s", part, got)
			continue
		}
		at = max(at, 0) + i
	}
	if strings.Contains(got, "A-001") {
		t.Errorf("what passed is printed:\n%s", got)
	}
	if all := text(Layout{Width: 120, Verbose: true}); !strings.Contains(all, "passed\n  ✓ A-001        well\n") || strings.Contains(all, "-v shows") {
		t.Errorf("with -v:\n%s", all)
	}
	if few := text(Layout{Width: 120, Problems: true}); strings.Contains(few, "A-004") || strings.Contains(few, "A-001") || !strings.Contains(few, "A-002") {
		t.Errorf("only the problems:\n%s", few)
	}
}
