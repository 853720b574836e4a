package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/lab/kubelet"
)

// run executes the command line and returns what it wrote.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestBadCommandLinesAreRefusedBeforeAnythingIsBuilt(t *testing.T) {
	for line, want := range map[string]string{
		"up --profile fast":            `profile "fast" is not known: choose from ["short" "kubelet"]`,
		"up here":                      "unknown command",
		"build --set kubernetes-v0.0.": "is not known: choose from etcd-",
		"down":                         "unknown command",
	} {
		stdout, stderr, err := run(t, strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lab %s: %v, want %q", line, err, want)
		}
		if stdout != "" || stderr != "" {
			t.Errorf("lab %s wrote %q and %q", line, stdout, stderr)
		}
	}
}

func TestProfilesHaveTheNamesOfTheFlag(t *testing.T) {
	for name, want := range map[string]kubelet.Profile{"short": kubelet.Short(), "kubelet": kubelet.Measured()} {
		if got, err := kubelet.ProfileByName(name); err != nil || got != want {
			t.Errorf("profile %q is %+v, %v", name, got, err)
		}
	}
}

func TestHelpListsTheCommands(t *testing.T) {
	stdout, _, err := run(t, "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"build ", "up "} {
		if !strings.Contains(stdout, "\n  "+want) {
			t.Errorf("help does not list %q:\n%s", want, stdout)
		}
	}
}
