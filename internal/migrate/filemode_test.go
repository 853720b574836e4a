package migrate

import (
	"os"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// A credential that an interrupted run, or somebody, left with the right bytes for all to read is no credential that is done.
func TestAFileThatMoreMayReadThanItsStepSaysIsWrittenAgain(t *testing.T) {
	t.Parallel()
	const path, text = "/etc/kubernetes/ccm.conf", "password = x\n"
	for name, c := range map[string]struct{ wanted, there, after os.FileMode }{
		"a credential that all may read":       {0o600, 0o644, 0o600},
		"a credential that its group may read": {0o600, 0o640, 0o600},
		"one that was closed further":          {0o600, 0o400, 0o400},
		"a file for all":                       {0o644, 0o644, 0o644},
		"a file for all that was closed":       {0o644, 0o600, 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.write("cp-1", path, text, c.there)
			mode := map[os.FileMode]string{0o600: "0600", 0o644: "0644"}[c.wanted]
			p := w.given(v1.Step{ID: "write/x", Phase: "p", Kind: v1.StepWriteFile, Host: "cp-1", Path: path, Content: text, Mode: mode})
			if step, err := w.run(p); err != nil {
				t.Fatal(step, err)
			}
			info, err := os.Stat(w.at("cp-1", path))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != c.after || w.read("cp-1", path) != text {
				t.Errorf("mode %v, want %v; content %q", info.Mode().Perm(), c.after, w.read("cp-1", path))
			}
		})
	}
}
