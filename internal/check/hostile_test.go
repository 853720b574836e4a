package check

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
)

// payloads end a name, a path or a flag's value with what a shell would run. It makes a file.
var payloads = []string{"';>pwned;'", "$(>pwned)", "\n>pwned\n"}

// running returns the commands in which a shell runs a payload. Programs are not found, and no directory of the machine
// is written to.
func running(t *testing.T, commands []string) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	var at []string
	for _, command := range commands {
		safe := command
		for _, absolute := range []string{"> ", "> '"} {
			safe = strings.ReplaceAll(safe, absolute+"/", absolute+"none/")
		}
		for _, c := range []string{safe, strings.ReplaceAll(safe, "   # ", "   ; : ")} { // some shells know no comments at a prompt
			own := filepath.Join(dir, strconv.Itoa(len(at)))
			if err := errors.Join(os.Mkdir(own, 0o700), os.WriteFile(filepath.Join(own, "command"), []byte(c), 0o600)); err != nil {
				t.Fatal(err)
			}
			at = append(at, command)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `for d in *; do (cd "$d" && . ./command); done; exit 0`)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/nonexistent"}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for i, command := range at {
		if _, err := os.Stat(filepath.Join(dir, strconv.Itoa(i), "pwned")); err == nil {
			out[command] = true
		}
	}
	return out
}

func TestAShellRunsWhatIsNotQuoted(t *testing.T) {
	commands := map[string]bool{
		"curl a" + payloads[1]:                   true,
		"curl \"a" + payloads[1] + "\"":          true,
		"curl a" + payloads[2]:                   true,
		"curl -d 'a" + payloads[0] + "'":         true,
		"ls /a   # on host a" + payloads[1]:      true,
		"curl 'a" + payloads[1] + "'":            false,
		`curl 'a'\'';>pwned;'\'''   # on host a`: false,
	}
	got := running(t, slices.Collect(maps.Keys(commands)))
	for command, want := range commands {
		if got[command] != want {
			t.Errorf("%q: have %t, want %t", command, got[command], want)
		}
	}
}

// leaves are the texts of a document and their parts between slashes that a command has.
func leaves(document any, command string, out map[string]bool) {
	switch v := document.(type) {
	case map[string]any:
		for key, value := range v {
			leaves(key, command, out)
			leaves(value, command, out)
		}
	case []any:
		for _, value := range v {
			leaves(value, command, out)
		}
	case string:
		for _, part := range append(strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune("/=:@_", r) }), v) {
			if len(part) > 2 && strings.Contains(command, part) {
				out[part] = true
			}
		}
	}
}

// inText is a text within the quotes of JSON.
func inText(t *testing.T, text string) string {
	t.Helper()
	out, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(out), `"`)
}

// fixOf is the fix of one check for a document; empty when it is no snapshot, or passes.
func fixOf(code, document string, opts facts.Options) string {
	var s v1.Snapshot
	if json.Unmarshal([]byte(document), &s) != nil {
		return ""
	}
	f := facts.New(&s, opts)
	for _, c := range checksFor(&s) {
		if c.Code == code {
			c.DependsOn = nil
			return runCheck(c, f).Fix
		}
	}
	return ""
}

// TestNoFixRunsWhatAClusterSays gives each text of a snapshot that is in the fix of a case a payload, everywhere.
func TestNoFixRunsWhatAClusterSays(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	codes, by := map[string]bool{}, map[string]string{} // by is which check and text a command is of
	for _, tc := range allRules() {
		s := healthy()
		if tc.base != nil {
			s = tc.base()
		}
		if tc.change != nil {
			tc.change(s)
		}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := json.Unmarshal(data, &document); err != nil {
			t.Fatal(err)
		}
		fix := fixOf(tc.code, string(data), tc.opts)
		if fix == "" || tried[fix] {
			continue
		}
		tried[fix] = true
		parts := map[string]bool{}
		leaves(document, fix, parts)
		for part := range parts {
			if tried[tc.code+part] {
				continue
			}
			tried[tc.code+part] = true
			for _, payload := range payloads {
				hostile := strings.ReplaceAll(string(data), inText(t, part), inText(t, part+payload))
				got := fixOf(tc.code, hostile, tc.opts)
				if !strings.Contains(got, "pwned") && !strings.Contains(got, "<refused") {
					continue
				}
				codes[tc.code] = true
				by[got] = tc.code + " and " + part
			}
		}
	}
	for command := range running(t, slices.Collect(maps.Keys(by))) {
		t.Errorf("of %s, a shell runs what the cluster says: %s", by[command], command)
	}
	t.Logf("%d commands of %d checks", len(by), len(codes))
	if len(codes) < 40 {
		t.Errorf("only the fixes of %d checks were tried with hostile texts", len(codes))
	}
	for _, code := range []string{"HOOK-004", "LM-009", "PULL-002", "VER-012", "LB-009", "NODE-001"} {
		if !codes[code] {
			t.Errorf("the fix of %s was not tried with a hostile text; those of %q were", code, slices.Sorted(maps.Keys(codes)))
		}
	}
}
