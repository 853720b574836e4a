// Package local reaches a machine whose root directory is a directory of this one. It is that of a test, of a mount, or
// the machine's own as a pod sees it.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/internal/fault"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const (
	// maxFile bounds what is read into memory, in bytes; manifests and configurations are a few kilobytes.
	maxFile = 16 << 20
	// restartTimeout bounds a kubelet's restart. systemd itself gives a unit 90 s to stop.
	restartTimeout = 2 * time.Minute
	// maxLinks bounds how many symbolic links a path may go through.
	maxLinks = 16
)

// Host is a machine whose root directory is a directory of this one. Its processes have that directory as their working
// directory.
type Host struct {
	name string
	Dir  string // absolute, without symbolic links
	// whole reports whether the directory is a machine's own root, as the root of this process or a mount of another one.
	whole bool
	parts []string
	// refused is what to do where root is not allowed to do something.
	refused string
	// programs reports whether programs in a directory are run all the same: those of a lab's simulated host.
	programs bool
	// processes reports the same of whether what runs on the host runs on this machine.
	processes bool
	// seams for tests
	write   func(*os.File, []byte) (int, error)
	proc    string // where procfs is mounted
	restart time.Duration
}

var _ hostaccess.Host = (*Host)(nil)

// New returns the host whose root is a directory.
func New(name, dir string) (*Host, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("directory of host %q: %w", name, err)
	}
	if !isDirectory(abs) {
		return nil, fmt.Errorf("directory of host %q: %s is not a directory", name, dir)
	}
	return &Host{
		name:     name,
		Dir:      abs,
		whole:    abs == "/",
		programs: fault.HostPrograms(abs), processes: fault.HostProcesses(abs),
		write:   (*os.File).Write,
		proc:    "/proc",
		restart: restartTimeout,
	}, nil
}

// Name implements hostaccess.Host.
func (l *Host) Name() string { return l.name }

// open returns the host's root and the path inside it. Whatever is done through the root cannot leave it, not even
// through symbolic links.
func (l *Host) open(ctx context.Context, p string) (*os.Root, string, error) {
	return l.enter(ctx, p, false)
}

// through is like open, for what lies behind symbolic links. On a whole machine a link to an absolute path means what
// it says. In another directory it could be of the host or of this machine, and is refused.
func (l *Host) through(ctx context.Context, p string) (*os.Root, string, error) {
	return l.enter(ctx, p, true)
}

func (l *Host) enter(ctx context.Context, p string, final bool) (*os.Root, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	inside, err := hostaccess.RelativePath(p)
	if err != nil {
		return nil, "", fmt.Errorf("on host %s: %w", l.name, err)
	}
	root, err := os.OpenRoot(l.Dir)
	if err != nil {
		return nil, "", &hostaccess.UnreachableError{Host: l.name, Err: err}
	}
	if !l.whole {
		return root, inside, nil
	}
	if inside, err = l.real(root, inside, final); err != nil {
		_ = root.Close()
		return nil, "", l.explain("finding", p, err)
	}
	return root, inside, nil
}

// ReadFile implements hostaccess.Host.
func (l *Host) ReadFile(ctx context.Context, p string) (hostaccess.File, error) {
	root, inside, err := l.through(ctx, p)
	if err != nil {
		return hostaccess.File{}, err
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	out, err := readRegular(root, inside)
	if err != nil {
		return hostaccess.File{}, l.explain("reading", p, err)
	}
	return out, nil
}

func readRegular(root *os.Root, inside string) (hostaccess.File, error) {
	// O_NONBLOCK: a FIFO in a manifests directory must not hang the reader.
	f, err := root.OpenFile(inside, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return hostaccess.File{}, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return hostaccess.File{}, err
	}
	if !info.Mode().IsRegular() {
		return hostaccess.File{}, ErrNotRegular
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return hostaccess.File{}, err
	}
	if len(data) > maxFile {
		return hostaccess.File{}, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return hostaccess.File{Data: data, Mode: info.Mode().Perm(), Modified: info.ModTime()}, nil
}

// Remove implements hostaccess.Host.
func (l *Host) Remove(ctx context.Context, p string) error {
	if err := hostaccess.CheckLock(ctx); err != nil {
		return fmt.Errorf("removing %s on host %s: %w", p, l.name, err)
	}
	root, inside, err := l.open(ctx, p)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	info, err := root.Lstat(inside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		err = ErrNotRegular
	}
	if err == nil {
		err = root.Remove(inside)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was quicker
	}
	if err != nil {
		return l.explain("removing", p, err)
	}
	if err := syncDir(root, path.Dir(inside)); err != nil {
		return fmt.Errorf("removing %s on host %s: it is gone, but a power cut could bring it back: %w", p, l.name, err)
	}
	return nil
}

// List implements hostaccess.Host.
func (l *Host) List(ctx context.Context, dir string) ([]string, error) {
	root, inside, err := l.through(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	f, err := root.Open(orDot(inside))
	if err != nil {
		return nil, l.explain("listing", dir, err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, l.explain("listing", dir, err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func orDot(inside string) string {
	if inside == "" {
		return "."
	}
	return inside
}
