package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheProgramSaysWhatIsWrongWithItsFlags(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "manager")
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "damaged")
	if err := os.Mkdir(damaged, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "results.json"), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no manager":              {nil, "is not a program; `make bench` builds it"},
		"an unknown scenario":     {[]string{"--manager", program, "--scenario", "jion", "--out", dir}, `scenario "jion" is none of join`},
		"a page without a commit": {[]string{"--manager", program, "--page", "bench.md"}, "--page and --commit belong together"},
		"a cluster without nodes": {[]string{"--manager", program, "--nodes", "5000,0", "--out", dir}, "numbers of nodes are [5000 0]"},
		"an argument":             {[]string{"join"}, "unknown command"},
		"results that are broken": {[]string{"--manager", program, "--keep", "--out", damaged}, "reading results from"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand()
			cmd.SetArgs(c.args)
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want it to say %q", err, c.says)
			}
		})
	}
}

func TestHelpNamesEveryScenario(t *testing.T) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs([]string{"--help"})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"join", "handover-crash-migration", "upstream-tuned", "--window 10m"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the help lacks %q:\n%s", part, out.String())
		}
	}
}
