package step

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOnlyARegularFileOfThisMachineIsRead: a plan may come from the cluster, and a pipe or a device has no end.
func TestOnlyARegularFileOfThisMachineIsRead(t *testing.T) {
	dir := t.TempDir()
	pipe, file, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxLocal+1); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		pipe: "is no regular file", "/dev/zero": "is no regular file", dir: "is no regular file", large: "has at most", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := readLocal(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if data, err := readLocal(file); err != nil || string(data) != "binary" {
		t.Errorf("%q, %v", data, err)
	}
}
