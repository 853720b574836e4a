package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheCommandThatFollowsHasTheGlobalFlagsOfThisOne(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a plan.yaml")
	args := append([]string{"plan", "--from-snapshot", labSnapshot, "--out", out, "--cloud", "aws:cluster=lab", "--host-access=local:/srv/my hosts", "--ascii", "-o", "json"}, credentials...)
	r := transplant(t, args...)
	want := "carry it out with: transplant apply '" + out + "' --cloud=aws:cluster=lab --host-access='local:/srv/my hosts'\n"
	if r.code != exitOK || !strings.Contains(r.errOut, want) {
		t.Errorf("exit %d: %s\nwant %s", r.code, r.errOut, want)
	}
}

func TestAWordOfAShellIsQuotedWhereItHasTo(t *testing.T) {
	for in, want := range map[string]string{"a/b-1=c:d": "a/b-1=c:d", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'"} {
		if have := quotedWord(in); have != want {
			t.Errorf("%q is written %s, want %s", in, have, want)
		}
	}
}
