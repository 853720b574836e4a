package hostaccess

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Units is a Host whose service manager can be told to stop and start units. An access that cannot do that is not one:
// ask for it with a type assertion, and say so where it fails.
type Units interface {
	// DaemonReload makes the service manager read its unit files again. What runs goes on.
	DaemonReload(ctx context.Context) error
	// Restart, Stop and Start wait for the service manager's answer, for at most two minutes. A unit whose processes take
	// longer is an error.
	Restart(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
	Start(ctx context.Context, unit string) error
	// Active reports whether a unit runs. One that is being stopped still does, one that is being started does not yet.
	// One that the service manager does not know is an error.
	Active(ctx context.Context, unit string) (bool, error)
}

// ErrRunsNoPrograms says that an access runs none of its host's programs, and so neither restarts its units.
var ErrRunsNoPrograms = errors.New("this access runs no programs of its host")

// Limited is a Host that says before it is asked what it will not do.
type Limited interface {
	// CanRun returns why none of the host's programs are run; nil where they are.
	CanRun() error
	// CanRestart returns why none of the host's units are stopped and started; nil where they are.
	CanRestart() error
}

// Distant is a Host whose processes may be those of another machine.
type Distant interface {
	// SeesProcesses returns why what runs on the host is not seen; nil where it is.
	SeesProcesses() error
}

// SeesProcesses returns why what runs on a host is not seen; nil where it is. That no process was found there is no
// proof then that none runs.
func SeesProcesses(h Host) error {
	if d, ok := h.(Distant); ok {
		return d.SeesProcesses()
	}
	return nil
}

// RunnerOf returns what runs a host's programs, or why none are run.
func RunnerOf(h Host) (Executor, error) {
	x, ok := h.(Executor)
	if !ok {
		return nil, fmt.Errorf("this way to host %s cannot run its programs", h.Name())
	}
	if l, ok := h.(Limited); ok {
		if err := l.CanRun(); err != nil {
			return nil, fmt.Errorf("host %s: %w", h.Name(), err)
		}
	}
	return x, nil
}

// CanRestart returns why none of a host's units are stopped and started; nil where they are as far as is known.
func CanRestart(h Host) error {
	if l, ok := h.(Limited); ok {
		if err := l.CanRestart(); err != nil {
			return fmt.Errorf("host %s: %w", h.Name(), err)
		}
	}
	return nil
}

// Executor is a Host that can run a program of its own machine.
type Executor interface {
	// Run starts the program and returns what it wrote to its standard output, at most 1 MiB. An error never holds output:
	// it may be a secret.
	Run(ctx context.Context, c Command) ([]byte, error)
}

// Command is a program with its arguments.
type Command struct {
	// Path is absolute on the host's machine.
	Path string
	Args []string
	// Env are NAME=value next to PATH; nothing else of this process' environment is handed on.
	Env []string
	// Stdin is what the program reads.
	Stdin []byte
	// Timeout ends the program and its children; zero means one minute.
	Timeout time.Duration
}

// Digester is a Host that can tell the hash of a file of any size without handing its bytes out.
type Digester interface {
	// Digest returns the SHA-256 in hexadecimal digits, and the mode with all its bits. Errors are those of ReadFile.
	Digest(ctx context.Context, path string) (sha256 string, mode fs.FileMode, err error)
}

// Clock is a Host that can tell how far its clock is from this machine's.
type Clock interface {
	// Offset is positive when the host's clock is ahead; it is known to within uncertainty.
	Offset(ctx context.Context) (offset, uncertainty time.Duration, err error)
}

// Digest asks a Digester, and else reads the file.
func Digest(ctx context.Context, h Host, path string) (sha256 string, mode fs.FileMode, err error) {
	if d, ok := h.(Digester); ok {
		return d.Digest(ctx, path)
	}
	f, err := h.ReadFile(ctx, path)
	if err != nil {
		return "", 0, err
	}
	return SHA256(f.Data), f.Mode, nil
}

// Reader reads one host's files within one context; it is what controlplane.ReadUnit takes.
type Reader struct {
	ctx  context.Context //nolint:containedctx // it lives as long as the call that it is made for
	host Host
}

// Reading returns a Reader of a host. It must not outlive the context.
func Reading(ctx context.Context, h Host) Reader { return Reader{ctx: ctx, host: h} }

// Read returns a file's bytes; errors are those of Host.ReadFile.
func (r Reader) Read(path string) ([]byte, error) {
	f, err := r.host.ReadFile(r.ctx, path)
	return f.Data, err
}

// List returns the names in a directory; errors are those of Host.List.
func (r Reader) List(dir string) ([]string, error) { return r.host.List(r.ctx, dir) }
