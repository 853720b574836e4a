package kubelet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A container sees its volumes where its pod wants them, writes through them, is called as its pod, and what it mounts is seen nowhere else.
func TestAnIsolatedContainerHasFilesAndANameOfItsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes namespaces")
	}
	host := t.TempDir()
	volume, file := filepath.Join(host, "volume"), filepath.Join(host, "file")
	if err := os.MkdirAll(filepath.Join(volume, "deeper"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(volume, "in"): "in the volume", file: "a file alone"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const script = `set -e
cat /a-volume/in; echo; cat /a-volume/deeper/alone; echo
hostname
echo written > /a-volume/out
mkdir /of-this-container && mount -t tmpfs lab-isolated /of-this-container && grep -c lab-isolated /proc/self/mounts
env | grep -c LAB_KUBELET_CONTAINER || true`
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	e := &engine{hostDir: host}
	// The most specific mount comes first, as mountsOf has them.
	if err := e.isolate(cmd, "pod-of-a-test", []mount{{"/a-volume/deeper/alone", file}, {"/a-volume", volume}}); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "in the volume\na file alone\npod-of-a-test\n1\n0\n"; string(out) != want {
		t.Errorf("it says %q, not %q", out, want)
	}
	if written, err := os.ReadFile(filepath.Join(volume, "out")); err != nil || string(written) != "written\n" {
		t.Errorf("the volume has %q, %v", written, err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), "lab-isolated") || strings.Contains(string(mounts), host) {
		t.Errorf("its mounts are seen outside: %s, %v", mounts, err)
	}
	if _, err := os.Stat("/of-this-container"); err == nil {
		t.Error("its directories are seen outside")
	}
}
