package shell_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/transplant-dev/transplant/internal/shell"
)

func TestAWordIsQuotedWhereAShellWouldReadItOtherwise(t *testing.T) {
	for text, want := range map[string]string{
		"ip-10-0-0-1.ec2.internal":          "ip-10-0-0-1.ec2.internal",
		"/etc/kubernetes/cloud.conf":        "/etc/kubernetes/cloud.conf",
		"registry:5000/a/b:v1.2@sha256:0f":  "registry:5000/a/b:v1.2@sha256:0f",
		"https://hooks.example.com/a?b=c&d": "'https://hooks.example.com/a?b=c&d'",
		"":                                  "''",
		"a b":                               "'a b'",
		"it's":                              `'it'\''s'`,
		"$(id)`id`;|&<>*?[]{}()!#~^\\\"":    "'$(id)`id`;|&<>*?[]{}()!#~^\\\"'",
		"é":                                 "'é'",
		"-rf":                               shell.Refused,
		"--":                                shell.Refused,
		"a\nb":                              shell.Refused,
		"a\tb":                              shell.Refused,
		"a\x1b[2K":                          shell.Refused,
		"a\u202eb":                          shell.Refused,
		"a\xffb":                            shell.Refused,
	} {
		if got := shell.Quote(text); got != want {
			t.Errorf("%q: have %s, want %s", text, got, want)
		}
	}
}

// TestAShellReadsAQuotedWordAsItself asks one.
func TestAShellReadsAQuotedWordAsItself(t *testing.T) {
	words := []string{"a", "it's", "''", "$(id)`id`;|&<>*?[]{}()!#~^\\\"", "a  b", "é", "a=b", "~", "%s"}
	command := "printf '<%s>'"
	want := ""
	for i, word := range shell.QuoteAll(words) {
		command += " " + word
		want += fmt.Sprintf("<%s>", words[i])
	}
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", command).Output()
	if err != nil || string(out) != want {
		t.Errorf("%s: have %s, want %s (%v)", command, out, want, err)
	}
}
