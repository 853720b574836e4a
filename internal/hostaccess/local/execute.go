package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

var (
	_ hostaccess.Executor = (*Host)(nil)
	_ hostaccess.Digester = (*Host)(nil)
	_ hostaccess.Clock    = (*Host)(nil)
	_ hostaccess.Limited  = (*Host)(nil)
	_ hostaccess.Distant  = (*Host)(nil)
)

const (
	// runTimeout bounds a program that names no time.
	runTimeout = time.Minute
	// maxStdout is how much a program may answer, in bytes.
	maxStdout = 1 << 20
)

// notStartedError says that a program was not found, or is none.
type notStartedError struct{ err error }

func (e *notStartedError) Error() string { return e.err.Error() }

func (e *notStartedError) Unwrap() error { return e.err }

// Run implements hostaccess.Executor.
func (l *Host) Run(ctx context.Context, c hostaccess.Command) ([]byte, error) {
	out, _, err := l.run(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("running %s on host %s: %w", c.Path, l.name, err)
	}
	return out, nil
}

// CanRestart implements hostaccess.Limited: systemctl is a program of the host.
func (l *Host) CanRestart() error { return l.CanRun() }

// CanRun implements hostaccess.Limited. What lies in a directory belongs to the root of the machine
// that is mounted there. Here its programs would run as the administrator, and a change of root would not contain them.
func (l *Host) CanRun() error {
	if l.whole || l.programs {
		return nil
	}
	return fmt.Errorf(
		"%w: %s may hold the disk of another machine, whose root would be this user here; "+
			"use --host-access=pod, or manual to make the changes there yourself, "+
			"or run transplant on that host with --host-access=local:%s=/",
		hostaccess.ErrRunsNoPrograms,
		l.Dir,
		l.name,
	)
}

// SeesProcesses implements hostaccess.Distant. The processes of a machine whose disk is mounted here run there.
func (l *Host) SeesProcesses() error {
	if l.whole || l.processes {
		return nil
	}
	return fmt.Errorf(
		"what runs on host %s is not seen: %s may hold the disk of another machine, and that a manager has ended there could not be proven; "+
			"use --host-access=pod, or run transplant on that host with --host-access=local:%s=/",
		l.name, l.Dir, l.name,
	)
}

// run returns what the program wrote to its standard output. It also returns the beginning of standard output and
// standard error, in their order. Everything that is executed for a host is executed here.
func (l *Host) run(ctx context.Context, c hostaccess.Command) (stdout, output []byte, err error) {
	if err := l.CanRun(); err != nil {
		return nil, nil, err
	}
	root, inside, err := l.through(ctx, c.Path)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	info, err := root.Stat(inside)
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, nil, &notStartedError{err}
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = runTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, both := &last{most: maxStdout + 1, first: true}, &last{most: maxOutput}
	cmd := l.program(limited, c, inside)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(out, both), both
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Run()
	switch {
	case err == nil && len(out.data) > maxStdout:
		err = fmt.Errorf("it wrote more than %d MiB", maxStdout>>20)
	case err == nil:
		return out.data, both.data, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("no answer in %s", timeout)
	}
	return nil, both.data, err
}

// program is the host's own program, without credentials in its environment. One of a mounted machine is started in
// that machine's root, where its libraries are.
func (l *Host) program(ctx context.Context, c hostaccess.Command, inside string) *exec.Cmd {
	at, dir, search := filepath.Join(l.Dir, inside), l.Dir, os.Getenv("PATH")
	// It has a group of its own: Ctrl-C on the terminal must not interrupt a restart, and a timeout must end its children
	// too.
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if l.whole && l.Dir != "/" {
		at, dir, search = c.Path, "/", hostPath
		attributes.Chroot = l.Dir
	}
	cmd := exec.CommandContext(ctx, at, c.Args...) //nolint:gosec // see above
	cmd.Dir, cmd.SysProcAttr = dir, attributes
	cmd.Env = append([]string{"PATH=" + search}, c.Env...)
	return cmd
}

// hostPath is where programs of a mounted machine look for others.
const hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// last keeps the last bytes that are written to it, or the first.
type last struct {
	mu    sync.Mutex // standard output and standard error are written by two goroutines
	data  []byte
	most  int
	first bool
}

func (w *last) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data = append(w.data, p...)
	if over := len(w.data) - w.most; over > 0 && w.first {
		w.data = w.data[:w.most]
	} else if over > 0 {
		w.data = append(w.data[:0], w.data[over:]...)
	}
	return len(p), nil
}

// Digest implements hostaccess.Digester.
func (l *Host) Digest(ctx context.Context, p string) (string, fs.FileMode, error) {
	root, inside, err := l.through(ctx, p)
	if err != nil {
		return "", 0, err
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	sum, mode, err := digest(root, inside)
	if err != nil {
		return "", 0, l.explain("reading", p, err)
	}
	return sum, mode, nil
}

func digest(root *os.Root, inside string) (string, fs.FileMode, error) {
	f, err := root.OpenFile(inside, os.O_RDONLY|syscall.O_NONBLOCK, 0) // as in read
	if err != nil {
		return "", 0, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	if !info.Mode().IsRegular() {
		return "", 0, ErrNotRegular
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(hash.Sum(nil)), info.Mode(), nil
}

// Offset is nothing: a directory of this machine has this machine's clock.
func (l *Host) Offset(context.Context) (offset, uncertainty time.Duration, err error) {
	return 0, 0, nil
}
