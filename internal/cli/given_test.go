package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

// Arguments are checked before a cluster is asked: here there is none, and every error is about the argument.
func TestWhatIsGivenIsCheckedBeforeTheClusterIsAsked(t *testing.T) {
	noDirectory := filepath.Join(t.TempDir(), "none", "file.yaml")
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"apply", "nope.yaml"}, exitcode.Error, []string{"reading the plan", "nope.yaml: no such file or directory"}},
		{[]string{"diff", "nope.yaml"}, exitcode.DiffError, []string{"reading the plan", "nope.yaml: no such file or directory"}},
		{[]string{"apply", file(t, "plan.yaml", "kind: Report")}, exitcode.Error, []string{"plan"}},
		{[]string{"plan", "--strategy", "foo"}, exitcode.Error, []string{`strategy "foo" is not known: use leader-migration or downtime`}},
		{[]string{"check", "--retry-period", "1"}, exitcode.Error, []string{`retry period "1": give a duration`}},
		{[]string{"apply", "--ccm-env", "AWS_SECRET_ACCESS_KEY=planted"}, exitcode.Error, []string{"AWS_SECRET_ACCESS_KEY is a secret"}},
		{[]string{"plan", "--out", noDirectory}, exitcode.Error, []string{"--out " + noDirectory, "there is no directory"}},
		{[]string{"report", "--out", noDirectory}, exitcode.Error, []string{"--out " + noDirectory, "there is no directory"}},
		{[]string{"snapshot", "--out", "/dev/null/x"}, exitcode.Error, []string{"/dev/null is no directory"}},
		{[]string{"check", "--cloud", "digitalocean"}, exitcode.Error, []string{"--cloud: ", "digitalocean"}},
		{[]string{"check", "--host-access", "foo"}, exitcode.Error, []string{"--host-access: ", "foo"}},
		{[]string{"plan", "--host-access", "local:/nonexistent"}, exitcode.Error, []string{"--host-access: ", "/nonexistent"}},
		{[]string{"timeline", "--since", "yesterday"}, exitcode.Error, []string{`--since "yesterday": give a duration`}},
		{[]string{"explain", "LM-066"}, exitcode.Error, []string{`there is no check "LM-066"; did you mean LM-006?`}},
		{[]string{"explain", "--from-snapshot", "x"}, exitcode.Error, []string{"needs the code of the check"}},
		{[]string{"check", "--clodu", "aws"}, exitcode.Error, []string{"unknown flag: --clodu", "did you mean --cloud? see: transplant check --help"}},
		{[]string{"check", "--nothing-like-it"}, exitcode.Error, []string{"unknown flag: --nothing-like-it", "see: transplant check --help"}},
		{[]string{"diff", "--clodu"}, exitcode.DiffError, []string{"unknown flag: --clodu"}},
		{[]string{"diff"}, exitcode.DiffError, []string{"reading the kubeconfig"}},
	} {
		fails(t, transplant(t, append(c.args, "--kubeconfig", "/nonexistent/config")...), c.code, c.words...)
	}
}

func TestTheVersionIsPrintedByAFlagToo(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"version"}} {
		if got := transplant(t, args...); got.code != 0 || got.out != "transplant "+client.Version+"\n" {
			t.Errorf("%v: exit code %d, %q, %q", args, got.code, got.out, got.errOut)
		}
	}
}

func TestACheckIsExplainedByItsReasonToo(t *testing.T) {
	k := check.List()[0]
	if got, want := transplant(t, "explain", strings.ToLower(k.Reason)), transplant(t, "explain", k.Code); got.code != 0 || got.out != want.out {
		t.Errorf("%s: exit code %d:\n%s%s", k.Reason, got.code, got.out, got.errOut)
	}
}

func TestExplainWithoutACodeListsTheChecks(t *testing.T) {
	if got, want := transplant(t, "explain"), transplant(t, "check", "--list"); got.code != 0 || got.out != want.out {
		t.Errorf("exit code %d:\n%s", got.code, got.out)
	}
}
