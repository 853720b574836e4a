package fault

import (
	"path/filepath"
	"testing"
)

func TestOnlyALabsHostsHaveProgramsThatAreRun(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{filepath.Join(dir, "cp-1"): inLabs, dir: false, filepath.Dir(dir): false, dir + "-other": false, "/": false} {
		t.Setenv("TRANSPLANT_TEST_HOST_PROGRAMS", dir)
		if got := HostPrograms(at); got != want {
			t.Errorf("%s: %v, not %v", at, got, want)
		}
		t.Setenv("TRANSPLANT_TEST_HOST_PROGRAMS", "")
		if HostPrograms(at) {
			t.Errorf("%s: run although no directory is named", at)
		}
	}
}
