package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

func TestReadFile(t *testing.T) {
	l := newHost(t)
	put(t, l, "/etc/kubernetes/cloud.conf", "text", 0o640)
	f, err := l.ReadFile(t.Context(), "/etc//kubernetes/./cloud.conf")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hostaccess.File{Data: []byte("text"), Mode: 0o640, Modified: f.Modified}, f); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if age := time.Since(f.Modified); age < -time.Minute || age > time.Hour {
		t.Errorf("it was modified %s ago", age)
	}
}

func TestAbsentIsToldFromUnknown(t *testing.T) {
	l := newHost(t)
	outside := filepath.Join(filepath.Dir(l.Dir), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"escape": "../../../outside", "absolute": outside, "loop": "loop", "dangling": "nowhere", "up": "../.."}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(l.Dir, "etc", name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, l, "/etc/file", "x", 0o600)
	if err := syscall.Mkfifo(filepath.Join(l.Dir, "etc/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(put(t, l, "/etc/large", "", 0o600), maxFile+1); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path   string
		absent bool
	}{
		"no such file":                       {"/etc/nosuch", true},
		"no such directory":                  {"/nosuch/file", true},
		"a link to nowhere":                  {"/etc/dangling", true},
		"a link that leaves the host":        {"/etc/escape", false},
		"a link to an absolute path":         {"/etc/absolute", false},
		"a directory that leaves the host":   {"/etc/up/../outside", false},
		"a path that leaves the host":        {"/../outside", false},
		"a path that is not absolute":        {"etc/file", false},
		"a link to itself":                   {"/etc/loop", false},
		"a directory":                        {"/etc", false},
		"the root":                           {"/", false},
		"a file where a directory should be": {"/etc/file/x", false},
		"a FIFO that nobody writes to":       {"/etc/fifo", false},
		"a file that is too large":           {"/etc/large", false},
		"a NUL":                              {"/etc/\x00", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := l.ReadFile(t.Context(), tt.path)
			if err == nil {
				t.Fatalf("it was read: %q", f.Data)
			}
			if errors.Is(err, fs.ErrNotExist) != tt.absent {
				t.Errorf("absent should be %v: %v", tt.absent, err)
			}
			if !strings.Contains(err.Error(), "cp-1") {
				t.Errorf("the host is not named: %v", err)
			}
		})
	}
}

func TestAMachineThatIsOutOfReachHasNoAbsentFiles(t *testing.T) {
	l := newHost(t)
	if err := os.RemoveAll(l.Dir); err != nil {
		t.Fatal(err)
	}
	_, readErr := l.ReadFile(t.Context(), "/etc/x")
	_, listErr := l.List(t.Context(), "/etc")
	for _, err := range []error{readErr, listErr, l.Remove(t.Context(), "/etc/x"), l.WriteFile(t.Context(), "/etc/x", nil, 0o600), l.RestartKubelet(t.Context())} {
		if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "reaching host cp-1") {
			t.Errorf("err = %v", err)
		}
	}
	if found, err := l.Processes(t.Context(), "kube-apiserver"); err == nil {
		t.Errorf("it is certain that %v run there", found)
	}
}

func TestList(t *testing.T) {
	l := newHost(t)
	for _, name := range []string{"b.yaml", "a.yaml", ".hidden", "sub/inner.yaml"} {
		put(t, l, "/etc/kubernetes/manifests/"+name, "x", 0o600)
	}
	if err := os.Symlink("a.yaml", filepath.Join(l.Dir, "etc/kubernetes/manifests/link.yaml")); err != nil {
		t.Fatal(err)
	}
	got, err := l.List(t.Context(), "/etc/kubernetes/manifests/")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".hidden", "a.yaml", "b.yaml", "link.yaml"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := l.List(t.Context(), "/etc/nosuch"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v, want that it is absent", err)
	}
	if _, err := l.List(t.Context(), "/etc/kubernetes/manifests/a.yaml"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v, want that it is no directory", err)
	}
	if _, err := l.List(t.Context(), "/"); err != nil {
		t.Error(err)
	}
}

func TestRemove(t *testing.T) {
	l := newHost(t)
	put(t, l, "/etc/kubernetes/manifests/x.yaml", "x", 0o600)
	put(t, l, "/etc/kept", "x", 0o600)
	if err := os.Symlink("kept", filepath.Join(l.Dir, "etc/link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/kubernetes/manifests/x.yaml", "/etc/kubernetes/manifests/x.yaml", "/nosuch/x", "/etc/link"} {
		if err := l.Remove(t.Context(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	want := []string{"/etc/", "/etc/kept", "/etc/kubernetes/", "/etc/kubernetes/manifests/"}
	if diff := cmp.Diff(want, tree(t, l)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, path := range []string{"/etc/kubernetes/manifests", "/..", "etc/kept"} {
		if err := l.Remove(t.Context(), path); err == nil {
			t.Errorf("%s was removed", path)
		}
	}
}

func TestNothingIsDoneAfterTheContextHasEnded(t *testing.T) {
	l := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, readErr := l.ReadFile(ctx, "/etc/x")
	_, listErr := l.List(ctx, "/etc")
	_, scanErr := l.Processes(ctx, "x")
	for _, err := range []error{readErr, listErr, scanErr, l.Remove(ctx, "/etc/x"), l.WriteFile(ctx, "/etc/x", nil, 0o600), l.RestartKubelet(ctx)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
	}
}

func TestSHA256(t *testing.T) {
	if got := hostaccess.SHA256(nil); got != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("got %s", got)
	}
}

func TestOnTheMachineItselfAbsoluteLinksMeanWhatTheySay(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link, up := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "dir")
	for from, to := range map[string]string{link: file, up: dir} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	l, err := New("self", "/")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.WriteFile(t.Context(), link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := l.ReadFile(t.Context(), filepath.Join(up, "link")); err != nil || string(f.Data) != "new" {
		t.Errorf("got %q, %v", f.Data, err)
	}
	if err := l.Remove(t.Context(), link); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "new" {
		t.Errorf("the file that the link led to: %q, %v", data, err)
	}
	if _, err := l.ReadFile(t.Context(), "/etc/../etc/passwd"); err == nil {
		t.Error("a path that goes upwards was read")
	}
}
