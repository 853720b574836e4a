package repopolicy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/check"
)

const (
	fieldProblems = "../../docs/reference/field-problems.md"
	knownLimits   = "../../docs/explanation/known-limits.md"
)

// problemGroups are the numbers of the field problems: first and last of each group.
var problemGroups = [][2]int{{1, 13}, {20, 36}, {40, 51}, {60, 71}, {80, 85}, {90, 93}}

// problem is a row of the table.
type problem struct {
	id, text, seen string
	answers        []string
}

func problems(t *testing.T) []problem {
	t.Helper()
	var out []problem
	for line := range strings.Lines(read(t, fieldProblems)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| F") {
			continue
		}
		if len(cells) != 4 {
			t.Errorf("a row has %d cells and not 4: %s", len(cells), line)
			continue
		}
		p := problem{id: strings.TrimSpace(cells[0]), text: cells[1], seen: cells[2]}
		for answer := range strings.SplitSeq(cells[3], ", ") {
			p.answers = append(p.answers, strings.TrimSpace(answer))
		}
		out = append(out, p)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEveryFieldProblemIsListedOnce(t *testing.T) {
	var want, got []string
	for _, group := range problemGroups {
		for n := group[0]; n <= group[1]; n++ {
			want = append(want, "F"+string(rune('0'+n/10))+string(rune('0'+n%10)))
		}
	}
	for _, p := range problems(t) {
		got = append(got, p.id)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestEveryFieldProblemIsAnsweredByWhatExists(t *testing.T) {
	codes := map[string]bool{}
	for _, c := range check.List() {
		codes[c.Code] = true
	}
	rules, anchors := planRules(t), headings(read(t, knownLimits))
	code := regexp.MustCompile(`^\[([A-Z]+-\d{3})\]\(checks\.md#([a-z]+-\d{3})\)$`)
	limit := regexp.MustCompile(`^\[known limit\]\(\.\./explanation/known-limits\.md#([a-z0-9-]+)\)$`)
	rule := regexp.MustCompile(`^P-\d\d$`)
	reference := regexp.MustCompile(`^\[[^\]]+\]\(https://[^)]+\)(, \[[^\]]+\]\(https://[^)]+\))*$`)
	for _, p := range problems(t) {
		if p.text == "" || !reference.MatchString(p.seen) {
			t.Errorf("%s has no description or no public reference: %s", p.id, p.seen)
		}
		if len(slices.Compact(slices.Sorted(slices.Values(p.answers)))) != len(p.answers) {
			t.Errorf("%s names an answer twice", p.id)
		}
		for _, answer := range p.answers {
			switch {
			case code.MatchString(answer):
				m := code.FindStringSubmatch(answer)
				if !codes[m[1]] || m[2] != strings.ToLower(m[1]) {
					t.Errorf("%s is answered by %s, which is no check", p.id, answer)
				}
			case rule.MatchString(answer):
				if !rules[answer] {
					t.Errorf("%s is answered by %s, which is no rule of the plan", p.id, answer)
				}
			case limit.MatchString(answer):
				if !anchors[limit.FindStringSubmatch(answer)[1]] {
					t.Errorf("%s is answered by %s, and there is no such heading", p.id, answer)
				}
			default:
				t.Errorf("%s is answered by %q, which is no check, rule or known limit", p.id, answer)
			}
		}
	}
}

func TestKnownLimitsNameChecksThatExist(t *testing.T) {
	codes := map[string]bool{}
	for _, c := range check.List() {
		codes[strings.ToLower(c.Code)] = true
	}
	named := regexp.MustCompile(`checks\.md#([a-z]+-\d{3})`).FindAllStringSubmatch(read(t, knownLimits), -1)
	if len(named) == 0 {
		t.Error("known limits name no check at all: the expression that looks for them is wrong")
	}
	for _, m := range named {
		if !codes[m[1]] {
			t.Errorf("known limits name %s, which is no check", m[1])
		}
	}
}

// planRules are the ids in the list of the plan's rules, read from its source.
func planRules(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../plan/invariant/rule*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("the plan has no rules: %v", err)
	}
	id := regexp.MustCompile(`"(P-\d\d)"`)
	out := map[string]bool{}
	for _, file := range files {
		if isTest(file) {
			continue
		}
		for _, m := range id.FindAllStringSubmatch(read(t, filepath.ToSlash(file)), -1) {
			out[m[1]] = true
		}
	}
	return out
}

// headings are the anchors of a page.
func headings(page string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			out[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = true
		}
	}
	return out
}
