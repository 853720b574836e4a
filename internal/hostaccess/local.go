package hostaccess

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

// restartBudget bounds a restart of the kubelet.
const restartBudget = 60 * time.Second

// local is a host whose file system root is a directory of this machine, and whose processes have that directory as their working directory.
type local struct {
	name string
	dir  string
	root *os.Root
}

var _ Host = (*local)(nil)

func newLocal(name, dir string) (*local, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs) // as /proc/PID/cwd shows it
	}
	if err != nil {
		return nil, fmt.Errorf("directory of host %q: %w", name, err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("directory of host %q: %w", name, err)
	}
	return &local{name: name, dir: abs, root: root}, nil
}

func (l *local) Name() string { return l.name }

// rel is a path below the root; os.Root refuses what would lead out of it, by dots or by a link.
func rel(p string) (string, error) {
	if !strings.HasPrefix(p, "/") {
		return "", fmt.Errorf("path %q is not absolute", p)
	}
	clean := strings.TrimPrefix(path.Clean(p), "/")
	if clean == "" {
		clean = "."
	}
	return clean, nil
}

func (l *local) ReadFile(_ context.Context, p string) (File, error) {
	r, err := rel(p)
	if err != nil {
		return File{}, err
	}
	f, err := l.root.Open(r)
	if err != nil {
		return File{}, l.explain("reading", p, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, l.explain("reading", p, err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return File{}, l.explain("reading", p, err)
	}
	return File{Data: data, Mode: info.Mode().Perm()}, nil
}

func (l *local) List(_ context.Context, dir string) ([]string, error) {
	r, err := rel(dir)
	if err != nil {
		return nil, err
	}
	f, err := l.root.Open(r)
	if err != nil {
		return nil, l.explain("listing", dir, err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, l.explain("listing", dir, err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() {
			out = append(out, e.Name())
		}
	}
	sort.Strings(out)
	return out, nil
}

func (l *local) WriteFile(_ context.Context, p string, data []byte, mode fs.FileMode) error {
	r, err := rel(p)
	if err != nil {
		return err
	}
	if err := l.root.MkdirAll(path.Dir(r), 0o755); err != nil {
		return l.explain("writing", p, err)
	}
	tmp := tempName(r)
	if err := l.writeTemp(tmp, data, mode, r); err != nil {
		_ = l.root.Remove(tmp) // what is half written must not stay
		return l.explain("writing", p, err)
	}
	if err := l.root.Rename(tmp, r); err != nil {
		_ = l.root.Remove(tmp)
		return l.explain("writing", p, err)
	}
	if err := l.syncDir(path.Dir(r)); err != nil {
		return l.explain("writing", p, err)
	}
	return nil
}

// tempName is beside the file, but beside the directory when that is a manifests directory; a dot file, so that nobody takes it for anything.
func tempName(r string) string {
	dir := path.Dir(r)
	if path.Base(dir) == "manifests" {
		dir = path.Dir(dir)
	}
	return path.Join(dir, ".transplant-"+rand.Text())
}

// writeTemp writes the bytes to the disk, under the owner of the file that will be replaced.
func (l *local) writeTemp(tmp string, data []byte, mode fs.FileMode, target string) error {
	f, err := l.root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode.Perm())
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode.Perm()) // the umask may have taken something away
	}
	if info, statErr := l.root.Stat(target); err == nil && statErr == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid()) {
			err = f.Chown(int(st.Uid), int(st.Gid))
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the rename survive a power cut.
func (l *local) syncDir(dir string) error {
	d, err := l.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (l *local) Remove(_ context.Context, p string) error {
	r, err := rel(p)
	if err != nil {
		return err
	}
	if err := l.root.Remove(r); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return l.explain("removing", p, err)
	}
	return l.syncDir(path.Dir(r))
}

// explain says what to do about the errors that an operator can do something about. The old file is whole in every case.
func (l *local) explain(doing, p string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = ": free some space there and run the same command again; the file is as it was"
	case errors.Is(err, syscall.EROFS):
		hint = ": mount it writable and run the same command again; the file is as it was"
	case errors.Is(err, fs.ErrPermission) && doing != "reading" && doing != "listing":
		hint = ": run as a user who may write there; the file is as it was"
	}
	return fmt.Errorf("%s %s on host %s: %w%s", doing, p, l.name, err, hint)
}

func (l *local) RestartKubelet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restartBudget)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(l.dir, "usr/bin/systemctl"), "restart", "kubelet")
	cmd.Dir = l.dir
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("restarting the kubelet on host %s: %w: %s", l.name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
