package check

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// codesFile has each code that a check has or had, sorted. One whose check is gone stays in it: "LB-099 retired: why".
// Reports, waivers and scripts of users name codes, and must not come to mean another check.
const codesFile = "testdata/codes.txt"

// codeLine is a code, and the reason where it is retired.
var codeLine = regexp.MustCompile(`^([A-Z]+-[0-9]{3})(?: retired: (\S.*))?$`)

func TestNoCodeIsReusedOrForgotten(t *testing.T) {
	content, err := os.ReadFile(codesFile)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, c := range All() {
		codes = append(codes, c.Code)
	}
	listed := string(content)
	if *update {
		listed = withCodes(listed, codes)
		if err := os.WriteFile(codesFile, []byte(listed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, problem := range codeProblems(listed, codes) {
		t.Error(problem)
	}
}

func TestCodesThatAreReusedOrForgottenAreSeen(t *testing.T) {
	const listed = "LB-001\nLB-002 retired: the API has no such field since 1.24\nLB-003\n"
	codes := []string{"LB-003", "LB-001"}
	if problems := codeProblems(listed, codes); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
	for _, c := range []struct {
		name, listed string
		codes        []string
		want         string
	}{
		{"a new check", listed, append(codes, "LB-004"), "LB-004 is not in testdata/codes.txt"},
		{"a check that is gone", listed, []string{"LB-001"}, "no check has LB-003"},
		{"a code that comes back", listed, append(codes, "LB-002"), "LB-002 is retired (the API has no such field since 1.24)"},
		{"no order", "LB-003\nLB-001\n", codes, "LB-001 stands behind LB-003"},
		{"a code twice", "LB-001\nLB-001 retired: why\nLB-003\n", codes, "LB-001 stands behind LB-001"},
		{"a reason that is empty", "LB-001\nLB-002 retired: \nLB-003\n", codes, `"LB-002 retired: " is neither a code`},
	} {
		if problems := strings.Join(codeProblems(c.listed, c.codes), "\n"); !strings.Contains(problems, c.want) {
			t.Errorf("%s: %q does not say %q", c.name, problems, c.want)
		}
	}
	want := "LB-001\nLB-002 retired: the API has no such field since 1.24\nLB-003\nLB-004\n"
	if diff := cmp.Diff(want, withCodes(listed, append(codes, "LB-004"))); diff != "" {
		t.Errorf("with a new code (-want +got):\n%s", diff)
	}
}

// codeProblems are what is wrong with the list of codes, given those of all checks.
func codeProblems(listed string, codes []string) []string {
	var problems []string
	known, last := map[string]bool{}, ""
	for line := range strings.Lines(listed) {
		line = strings.TrimSuffix(line, "\n")
		found := codeLine.FindStringSubmatch(line)
		if found == nil {
			problems = append(problems, fmt.Sprintf("%q is neither a code nor \"CODE retired: why\"", line))
			continue
		}
		code, why := found[1], found[2]
		if code <= last {
			problems = append(problems, fmt.Sprintf("%s stands behind %s: the list is sorted, and has each code once", code, last))
		}
		has := slices.Contains(codes, code)
		switch {
		case why != "" && has:
			problems = append(problems, fmt.Sprintf("%s is retired (%s) and never reused: give the check another code", code, why))
		case why == "" && !has:
			problems = append(problems, fmt.Sprintf("no check has %s: bring it back, or write \" retired: \" and why behind it", code))
		}
		known[code], last = true, code
	}
	for _, code := range codes {
		if !known[code] {
			problems = append(problems, fmt.Sprintf("%s is not in %s; run go test ./internal/check -update", code, codesFile))
		}
	}
	return problems
}

// withCodes is the list with the codes that it lacks.
func withCodes(listed string, codes []string) string {
	lines := strings.Split(strings.TrimSuffix(listed, "\n"), "\n")
	for _, code := range codes {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, code) }) {
			lines = append(lines, code)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
