package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	if err == nil || !strings.Contains(err.Error(), "writing "+path) || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, error %v", left, err)
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}

// A device that became a file would be so for the whole machine.
func TestWhatIsNoFileIsWrittenToAndStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		data, err := os.ReadFile(path)
		read <- fmt.Sprint(string(data), err)
	}()
	if err := errors.Join(Check(path), Write(path, []byte("text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "text<nil>" {
		t.Errorf("the reader got %s", got)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("it is %v now, %v", info.Mode(), err)
	}
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := Check(link); err != nil {
		t.Errorf("a link to what is no file, such as /dev/stdout: %v", err)
	}
}

func TestALinkToAFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, link} {
		for name, err := range map[string]error{"Check": Check(path), "Write": Write(path, []byte("new"), 0o600)} {
			if err == nil || !strings.Contains(err.Error(), "it is a link to "+file+": name that file itself") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if data, err := os.ReadFile(file); err == nil && string(data) != "old" {
			t.Error("the file was written")
		}
		_ = os.Remove(file) // then the link leads nowhere
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
