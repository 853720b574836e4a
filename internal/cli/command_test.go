package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/wording"
)

func TestTheCommandThatFollowsHasTheGlobalFlagsOfThisOne(t *testing.T) {
	c := console.New(console.Streams{})
	c.Called, c.Given = "transplant", pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddGlobalFlags(c.Given)
	if err := c.Given.Parse([]string{"--cloud", "aws:cluster=lab", "--host-access=local:/srv/my hosts", "--as-group=a", "--as-group=b,c", "--ascii"}); err != nil {
		t.Fatal(err)
	}
	want := "transplant apply 'a plan.yaml' --as-group=a --as-group=b,c --cloud=aws:cluster=lab --host-access='local:/srv/my hosts'"
	if have := c.Command("apply", wording.QuoteWord("a plan.yaml")); have != want {
		t.Errorf("%s\nwant %s", have, want)
	}
	// A plan that is saved names it, and a snapshot in a file leaves no flag to name.
	out := filepath.Join(t.TempDir(), "a plan.yaml")
	r := transplant(t, append([]string{"plan", "--from-snapshot", labSnapshot, "--out", out, "-o", "json"}, credentials...)...)
	if want := "next: transplant apply '" + out + "'\n"; r.code != exitcode.OK || !strings.Contains(r.errOut, want) {
		t.Errorf("exit %d: %s\nwant %s", r.code, r.errOut, want)
	}
}

func TestAWordOfAShellIsQuotedWhereItHasTo(t *testing.T) {
	for in, want := range map[string]string{"a/b-1=c:d": "a/b-1=c:d", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'"} {
		if have := wording.QuoteWord(in); have != want {
			t.Errorf("%q is written %s, want %s", in, have, want)
		}
	}
}
