package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileIsReplacedWholeAndWithItsMode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, c := range []struct {
		text string
		mode fs.FileMode
	}{{"first, and longer", 0o644}, {"second", 0o600}} {
		if err := Write(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.text {
			t.Errorf("read %q, error %v; want %q", got, err, c.text)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != c.mode {
			t.Errorf("mode %v, error %v; want %v", info.Mode(), err, c.mode)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, error %v", left, err)
	}
}

func TestAFileThatCannotBeReplacedLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "by a directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := Write(path, []byte("x"), 0o600)
	if err == nil || !strings.Contains(err.Error(), "writing "+path) || !strings.Contains(err.Error(), "nothing of it was written") {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, error %v", left, err)
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}

func TestAPlaceIsCheckedWithoutATrace(t *testing.T) {
	dir := t.TempDir()
	if err := Check(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("in the directory: %v, error %v", left, err)
	}
	if err := Check(dir); err == nil || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("in the place of a directory: %v", err)
	}
	if err := Check(filepath.Join(dir, "none", "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}
