package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// Temporary files are named .transplant-<number>.tmp and locked by their writer for as long as it lives. One without a
// lock was left by a process that was killed, and the next write next to it removes it.
const (
	tempPrefix = ".transplant-"
	tempSuffix = ".tmp"
	// manifests is the name of the directory in which every file is a pod.
	manifests = "manifests"
)

var tempNumber atomic.Uint64

// WriteFile implements hostaccess.Host: the file is replaced whole or not at all.
func (l *Host) WriteFile(ctx context.Context, p string, data []byte, mode fs.FileMode) error {
	if err := hostaccess.CheckLock(ctx); err != nil {
		return fmt.Errorf("writing %s on host %s: %w", p, l.name, err)
	}
	root, inside, err := l.through(ctx, p)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	target, old, err := destination(root, inside)
	if err != nil {
		return l.explain("writing", p, err)
	}
	made, err := makeParents(root, path.Dir(target), mode)
	if err == nil {
		err = l.replace(root, target, data, mode.Perm(), old)
	}
	if err != nil {
		for i := len(made) - 1; i >= 0; i-- {
			_ = root.Remove(made[i]) // keeps a directory that is in use meanwhile
		}
		return l.explain("writing", p, err)
	}
	if err := syncDir(root, path.Dir(target)); err != nil {
		return fmt.Errorf("writing %s on host %s: it is written, but a power cut could undo that: %w", p, l.name, err)
	}
	return nil
}

// destination follows symbolic links: replacing a link instead of the file that it names would not change the shared
// file.
func destination(root *os.Root, inside string) (string, fs.FileInfo, error) {
	for range maxLinks {
		info, err := root.Lstat(inside)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return inside, nil, nil
		case err != nil:
			return "", nil, err
		case info.Mode().IsRegular():
			return inside, info, nil
		case info.Mode()&fs.ModeSymlink == 0:
			return "", nil, ErrNotRegular
		}
		to, err := root.Readlink(inside)
		if err != nil {
			return "", nil, err
		}
		if path.IsAbs(to) {
			return "", nil, errAbsolute
		}
		inside = path.Join(path.Dir(inside), to)
	}
	return "", nil, syscall.ELOOP
}

// makeParents returns the directories that it made, outermost first.
func makeParents(root *os.Root, dir string, mode fs.FileMode) ([]string, error) {
	perm := fs.FileMode(0o755)
	if mode.Perm()&0o077 == 0 {
		perm = 0o700
	}
	var missing []string
	for d := dir; d != "."; d = path.Dir(d) {
		info, err := root.Stat(d)
		if err == nil && !info.IsDir() {
			return nil, fmt.Errorf("/%s is not a directory", d)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		missing = append(missing, d)
	}
	var made []string
	for i := len(missing) - 1; i >= 0; i-- {
		d := missing[i]
		err := root.Mkdir(d, perm)
		if errors.Is(err, fs.ErrExist) {
			continue // another writer made it
		}
		if err != nil {
			return made, err
		}
		made = append(made, d)
		if err := root.Chmod(d, perm); err != nil { // whatever the umask is
			return made, err
		}
		if err := syncDir(root, path.Dir(d)); err != nil {
			return made, err
		}
	}
	return made, nil
}

// replace writes the bytes next to the file and renames them over it. A file in a manifests directory is a pod whatever
// its name is; only dot-files are skipped. So the temporary one is in the directory above. If that is another file
// system, it is a dot-file.
func (l *Host) replace(root *os.Root, target string, data []byte, perm fs.FileMode, old fs.FileInfo) error {
	dir := path.Dir(target)
	if path.Base(dir) != manifests {
		return l.replaceFrom(root, dir, target, data, perm, old)
	}
	err := l.replaceFrom(root, path.Dir(dir), target, data, perm, old)
	if errors.Is(err, syscall.EXDEV) {
		return l.replaceFrom(root, dir, target, data, perm, old)
	}
	return err
}

func (l *Host) replaceFrom(
	root *os.Root,
	tempDir, target string,
	data []byte,
	perm fs.FileMode,
	old fs.FileInfo,
) (err error) {
	sweep(root, tempDir)
	f, temp, err := createTemp(root, tempDir)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(temp)
		}
		_ = f.Close() // the lock ends here; what was written has been synced
	}()
	if err := keepOwner(f, old); err != nil {
		return err
	}
	if err := f.Chmod(perm); err != nil { // after the owner: a change of owner clears bits
		return err
	}
	if _, err := l.write(f, data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return root.Rename(temp, target)
}

func keepOwner(f *os.File, old fs.FileInfo) error {
	if old == nil {
		return nil
	}
	was, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); ok && is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	return f.Chown(int(was.Uid), int(was.Gid))
}

// createTemp returns a new file that is locked. Between its creation and the lock a sweeper may have taken it for a
// left-over, hence the second look.
func createTemp(root *os.Root, dir string) (*os.File, string, error) {
	for range lockTries {
		name := path.Join(dir, tempPrefix+strconv.Itoa(os.Getpid())+"-"+strconv.FormatUint(tempNumber.Add(1), 10)+tempSuffix)
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue // left by an earlier process of this PID, and locked by its sweeper now
		}
		if err != nil {
			return nil, "", err
		}
		if hostaccess.TryLockFile(f) && isSameFile(root, name, f) {
			return f, name, nil
		}
		_ = root.Remove(name) // where nothing can be locked, no sweeper finds it
		_ = f.Close()
	}
	return nil, "", fmt.Errorf("no new file in %s can be locked (flock): look at what file system it is on", dir)
}

// lockTries is how often a sweeper may take a new file for a left-over. Without a bound, a file system that knows no
// locks would be filled.
const lockTries = 100

func isSameFile(root *os.Root, name string, f *os.File) bool {
	byName, err := root.Lstat(name)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(byName, opened)
}

// sweep removes what killed writers have left in a directory. It is a courtesy: what hinders it hinders nothing else.
func sweep(root *os.Root, dir string) {
	d, err := root.Open(orDot(dir))
	if err != nil {
		return
	}
	defer d.Close() //nolint:errcheck // opened for reading
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if !strings.HasPrefix(name, tempPrefix) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		name = path.Join(dir, name)
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if hostaccess.TryLockFile(f) && isSameFile(root, name, f) {
			_ = root.Remove(name)
		}
		_ = f.Close()
	}
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(orDot(dir))
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // synced below
	return d.Sync()
}
