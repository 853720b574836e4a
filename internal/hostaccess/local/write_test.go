package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const manifest = "/etc/kubernetes/manifests/kube-controller-manager.yaml"

func TestWriteFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	tests := map[string]struct {
		path string
		mode fs.FileMode
		want map[string]fs.FileMode // what is new or changed, with its mode
	}{
		"a manifest is replaced and keeps kubeadm's mode": {manifest, 0o600, map[string]fs.FileMode{manifest: 0o600}},
		"the umask does not matter":                       {manifest, 0o644, map[string]fs.FileMode{manifest: 0o644}},
		"missing directories of a secret are private":     {"/a/b/token", 0o600, map[string]fs.FileMode{"/a": 0o700, "/a/b": 0o700, "/a/b/token": 0o600}},
		"missing directories of a public file are public": {"/a/b/config", 0o644, map[string]fs.FileMode{"/a": 0o755, "/a/b": 0o755, "/a/b/config": 0o644}},
		"a file in the root":                              {"/file", 0o600, map[string]fs.FileMode{"/file": 0o600}},
		"bits that are no permissions are left out":       {"/file", 0o600 | fs.ModeSetuid, map[string]fs.FileMode{"/file": 0o600}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newHost(t)
			put(t, l, manifest, "old", 0o600)
			before := tree(t, l)
			if err := l.WriteFile(t.Context(), tt.path, []byte("new"), tt.mode); err != nil {
				t.Fatal(err)
			}
			if got := get(t, l, tt.path); got != "new" {
				t.Errorf("it holds %q", got)
			}
			extra := len(tt.want)
			for path, mode := range tt.want {
				info, err := os.Stat(filepath.Join(l.Dir, path))
				if err != nil || info.Mode()&(fs.ModePerm|fs.ModeSetuid) != mode {
					t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, mode)
				}
				if path == manifest {
					extra--
				}
			}
			if got := tree(t, l); len(got) != len(before)+extra {
				t.Errorf("there is something else: %q", got)
			}
		})
	}
}

func TestTheOwnerStays(t *testing.T) {
	needsRoot(t)
	l := newHost(t)
	if err := os.Chown(put(t, l, manifest, "old", 0o640), 1234, 2345); err != nil {
		t.Skipf("changing owners is not possible here: %v", err)
	}
	if err := l.WriteFile(t.Context(), manifest, []byte("new"), 0o640); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(l.Dir, manifest))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 2345 || info.Mode().Perm() != 0o640 {
		t.Errorf("owner %d:%d, mode %v", st.Uid, st.Gid, info.Mode())
	}
}

func TestNothingButTheManifestIsEverInTheManifestsDirectory(t *testing.T) {
	l := newHost(t)
	put(t, l, manifest, "old", 0o600)
	looked := false
	l.write = func(f *os.File, data []byte) (int, error) {
		looked = true
		names, err := l.List(t.Context(), "/etc/kubernetes/manifests")
		if err != nil || !cmp.Equal(names, []string{"kube-controller-manager.yaml"}) {
			t.Errorf("during the write there are %q, %v", names, err)
		}
		if got := get(t, l, manifest); got != "old" {
			t.Errorf("during the write it holds %q", got)
		}
		info, err := f.Stat()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the temporary file has mode %v, %v", info.Mode(), err)
		}
		return f.Write(data)
	}
	if err := l.WriteFile(t.Context(), manifest, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !looked {
		t.Fatal("the write was not watched")
	}
}

func TestLinksAreWrittenThrough(t *testing.T) {
	l := newHost(t)
	real := put(t, l, "/etc/real/cloud.conf", "old", 0o600)
	for name, to := range map[string]string{"link": "real/cloud.conf", "second": "link", "dangling": "real/new.conf"} {
		if err := os.Symlink(to, filepath.Join(l.Dir, "etc", name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"second", "dangling"} {
		if err := l.WriteFile(t.Context(), "/etc/"+name, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(filepath.Join(l.Dir, "etc", name)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("the link %s is gone: %v, %v", name, info, err)
		}
	}
	if data, err := os.ReadFile(real); err != nil || string(data) != "new" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if got := get(t, l, "/etc/real/new.conf"); got != "new" {
		t.Errorf("the file holds %q", got)
	}
}

func TestWriteFileRefuses(t *testing.T) {
	l := newHost(t)
	outside := filepath.Join(filepath.Dir(l.Dir), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, l, "/etc/file", "x", 0o600)
	for name, to := range map[string]string{"escape": "../../outside/x", "absolute": outside + "/x", "dir": "../../outside", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(l.Dir, "etc", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(l.Dir, "etc/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, l)
	for _, path := range []string{
		"/etc/escape", "/etc/absolute", "/etc/dir/x", "/etc/loop", "/etc/fifo", "/etc", "/etc/file/x", "/../outside/x", "/etc/../../outside/x",
		"relative", "/",
	} {
		if err := l.WriteFile(t.Context(), path, []byte("new"), 0o600); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	if diff := cmp.Diff(before, tree(t, l)); diff != "" {
		t.Errorf("something changed, -before +after:\n%s", diff)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("something was written outside: %v, %v", entries, err)
	}
}

// brokenWrites are what a disk may answer in the middle of a write.
var brokenWrites = map[string]struct {
	errno syscall.Errno
	want  string
}{
	"the disk is full": {
		syscall.ENOSPC,
		"no space left on host cp-1 for " + manifest + ": free some space and run the same command again; nothing was changed (write ",
	},
	"the quota is used up": {syscall.EDQUOT, "no space left on host cp-1 for "},
	"it became read-only": {
		syscall.EROFS,
		"writing " + manifest + " on host cp-1: the file system is read-only: make it writable and run the same command again; nothing was changed",
	},
	"it is not allowed":  {syscall.EACCES, "writing " + manifest + " on host cp-1: "}, // what to do depends on who is refused
	"the disk is broken": {syscall.EIO, "writing " + manifest + " on host cp-1: write "},
}

func TestABrokenWriteChangesNothing(t *testing.T) {
	for name, tt := range brokenWrites {
		t.Run(name, func(t *testing.T) {
			l := newHost(t)
			put(t, l, manifest, "old", 0o600)
			before := tree(t, l)
			l.write = func(f *os.File, data []byte) (int, error) {
				n, err := f.Write(data[:len(data)/2])
				if err != nil {
					t.Error(err)
				}
				return n, &fs.PathError{Op: "write", Path: f.Name(), Err: tt.errno}
			}
			for _, path := range []string{manifest, "/new/dir/file"} {
				err := l.WriteFile(t.Context(), path, []byte("new"), 0o600)
				if !errors.Is(err, tt.errno) || !strings.HasPrefix(err.Error(), strings.ReplaceAll(tt.want, manifest, path)) {
					t.Errorf("err = %v, want %q", err, tt.want)
				}
			}
			if got := get(t, l, manifest); got != "old" {
				t.Errorf("it holds %q", got)
			}
			if diff := cmp.Diff(before, tree(t, l)); diff != "" {
				t.Errorf("something is left, -before +after:\n%s", diff)
			}
		})
	}
}

func TestARealFullDisk(t *testing.T) {
	l := newHost(t)
	mount(t, l.Dir, "size=64k")
	put(t, l, manifest, "old", 0o600)
	before := tree(t, l)
	err := l.WriteFile(t.Context(), manifest, bytes.Repeat([]byte("x"), 1<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "no space left on host cp-1 for "+manifest) {
		t.Fatalf("err = %v", err)
	}
	if got := get(t, l, manifest); got != "old" {
		t.Errorf("it holds %d bytes", len(got))
	}
	if diff := cmp.Diff(before, tree(t, l)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if err := l.WriteFile(t.Context(), manifest, []byte("new"), 0o600); err != nil {
		t.Errorf("after the disk was full: %v", err)
	}
}

func TestARealReadOnlyFileSystem(t *testing.T) {
	l := newHost(t)
	mount(t, l.Dir, "size=64k")
	put(t, l, manifest, "old", 0o600)
	if err := syscall.Mount("tmpfs", l.Dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("remounting is not possible here: %v", err)
	}
	for what, err := range map[string]error{
		"writing":  l.WriteFile(t.Context(), manifest, []byte("new"), 0o600),
		"removing": l.Remove(t.Context(), manifest),
	} {
		if !errors.Is(err, syscall.EROFS) || !strings.HasPrefix(err.Error(), what+" "+manifest+" on host cp-1: the file system is read-only") {
			t.Errorf("err = %v", err)
		}
	}
	if got := get(t, l, manifest); got != "old" {
		t.Errorf("it holds %q", got)
	}
}

func TestAManifestsDirectoryThatIsAFileSystemOfItsOwn(t *testing.T) {
	l := newHost(t)
	mount(t, filepath.Join(l.Dir, "etc/kubernetes/manifests"), "size=64k")
	put(t, l, manifest, "old", 0o600)
	var during []string
	l.write = func(f *os.File, data []byte) (int, error) {
		during, _ = l.List(t.Context(), "/etc/kubernetes/manifests")
		return f.Write(data)
	}
	if err := l.WriteFile(t.Context(), manifest, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(during) != 2 || !strings.HasPrefix(during[0], ".") {
		t.Errorf("during the write there are %q, want one dot-file next to the manifest", during)
	}
	want := []string{"/etc/", "/etc/kubernetes/", "/etc/kubernetes/manifests/", manifest}
	if diff := cmp.Diff(want, tree(t, l)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhatAKilledWriterLeftIsTakenAway(t *testing.T) {
	l := newHost(t)
	left := put(t, l, "/etc/kubernetes/"+tempPrefix+"1-1"+tempSuffix, "half", 0o600)
	living := put(t, l, "/etc/kubernetes/"+tempPrefix+"1-2"+tempSuffix, "half", 0o600)
	f, err := os.Open(living)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !hostaccess.TryLockFile(f) {
		t.Fatal("it could not be locked")
	}
	if err := l.WriteFile(t.Context(), manifest, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the left-over: %v", err)
	}
	if _, err := os.Lstat(living); err != nil {
		t.Errorf("another writer's file: %v", err)
	}
}

// TestWritersAtOnce has many writers of one file and of its neighbours; whoever reads sees one writer's bytes, whole.
func TestWritersAtOnce(t *testing.T) {
	l := newHost(t)
	put(t, l, manifest, strings.Repeat("a", 64<<10), 0o600)
	const writers, rounds = 8, 20
	done := make(chan struct{})
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for round := range rounds {
				paths := []string{manifest, fmt.Sprintf("/etc/kubernetes/new-%d-%d/file", w, round), "/etc/kubernetes/shared/file"}
				for _, path := range paths {
					if err := l.WriteFile(t.Context(), path, bytes.Repeat([]byte{byte('a' + w)}, 64<<10), 0o600); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			f, err := l.ReadFile(t.Context(), manifest)
			if err != nil || len(f.Data) != 64<<10 || bytes.Count(f.Data, f.Data[:1]) != len(f.Data) {
				t.Errorf("read %d bytes, %v", len(f.Data), err)
				return
			}
		}
	})
	writing.Wait()
	close(done)
	reading.Wait()
	for _, path := range tree(t, l) {
		if strings.Contains(path, tempPrefix) {
			t.Errorf("%s is left", path)
		}
	}
}
