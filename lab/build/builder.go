package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// buildFlags are the flags of every set: go.mod and go.sum are taken as they are, and a program does not depend on
// where it was built.
var buildFlags = []string{"-mod=readonly", "-trimpath", "-buildvcs=false"}

// lowest is the priority of what runs when nobody else wants the processor.
const lowest = 19

// builder compiles one set in a directory of its own.
type builder struct {
	set        Set
	toolchain  toolchain
	progress   io.Writer
	heartbeat  time.Duration
	background bool
}

// run writes the module, lists its packages (this downloads what is missing), compiles, and names the programs.
func (b builder) run(ctx context.Context, work string) error {
	start := time.Now()
	module := filepath.Join(work, "module")
	if err := b.writeModule(module); err != nil {
		return err
	}
	fmt.Fprintf(b.progress, "%s: looking up its modules\n", b.set.label())
	total, err := b.countPackages(ctx, module)
	if err != nil {
		return err
	}
	bin := filepath.Join(work, "result", binDir)
	if err := b.compile(ctx, module, bin, total); err != nil {
		return err
	}
	for _, c := range b.set.Commands {
		if from := defaultName(c.Package); from != c.Name {
			if err := os.Rename(filepath.Join(bin, from), filepath.Join(bin, c.Name)); err != nil {
				return fmt.Errorf("naming program %q: %w", c.Name, err)
			}
		}
	}
	fmt.Fprintf(b.progress, "%s: built in %s\n", b.set.label(), time.Since(start).Round(time.Second))
	return nil
}

func (b builder) writeModule(dir string) error {
	source, err := b.set.source()
	if err != nil {
		return err
	}
	for _, sub := range []string{dir, filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return fmt.Errorf("creating module directory: %w", err)
		}
	}
	for name, data := range source {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("writing module file %q: %w", name, err)
		}
	}
	return nil
}

// countPackages returns how many packages the programs consist of, the upper bound of what is compiled.
func (b builder) countPackages(ctx context.Context, module string) (int, error) {
	args := append([]string{"list", "-deps", "-mod=readonly"}, b.packages()...)
	var out bytes.Buffer
	var downloads atomic.Int64
	stderr := &lineWriter{line: func(s string) bool {
		if strings.HasPrefix(s, "go: downloading ") {
			downloads.Add(1)
			return true
		}
		return false
	}}
	status := func() string { return fmt.Sprintf("downloaded %d modules", downloads.Load()) }
	if err := b.goCommand(ctx, module, args, &out, stderr, status); err != nil {
		return 0, fmt.Errorf("loading the packages of %s: %w", b.set.label(), err)
	}
	return bytes.Count(out.Bytes(), []byte("\n")), nil
}

func (b builder) compile(ctx context.Context, module, bin string, total int) error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return fmt.Errorf("creating program directory: %w", err)
	}
	args := append([]string{"build", "-v"}, buildFlags...)
	args = append(args, "-ldflags="+strings.Join(b.set.LDFlags, " "), "-o", bin+string(filepath.Separator))
	args = append(args, b.packages()...)
	var compiled atomic.Int64
	stderr := &lineWriter{line: func(s string) bool {
		if strings.ContainsAny(s, " :") { // not an import path: a compiler's message
			return false
		}
		compiled.Add(1)
		return true
	}}
	status := func() string {
		return fmt.Sprintf("compiled %d of at most %d packages", compiled.Load(), total)
	}
	if err := b.goCommand(ctx, module, args, io.Discard, stderr, status); err != nil {
		return fmt.Errorf("compiling %s: %w", b.set.label(), err)
	}
	return nil
}

// goCommand runs the go command in the module with the sanitised environment, reporting status at every heartbeat. When
// ctx ends, the compilers that it started end with it.
func (b builder) goCommand(
	ctx context.Context,
	module string,
	args []string,
	out io.Writer,
	stderr *lineWriter,
	status func() string,
) error {
	cmd := exec.CommandContext(ctx, b.toolchain.command, args...)
	cmd.Dir = module
	cmd.Env = append(append([]string{}, b.toolchain.env...), "GOTMPDIR="+filepath.Join(module, "tmp"))
	cmd.Stdout, cmd.Stderr = out, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second

	start := time.Now()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(b.heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				fmt.Fprintf(b.progress, "%s: %s, %s\n", b.set.label(), status(), time.Since(start).Round(time.Second))
			}
		}
	})
	runtime.LockOSThread() // the parent-death signal follows the thread, which must outlive the command
	err := cmd.Start()
	if err == nil {
		if b.background {
			_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, lowest) // the compilers that it starts inherit it
		}
		err = cmd.Wait()
	}
	runtime.UnlockOSThread()
	close(stop)
	wg.Wait()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &commandError{command: "go " + args[0], err: err, output: stderr.rest()}
}

func (b builder) packages() []string {
	out := make([]string, 0, len(b.set.Commands))
	for _, c := range b.set.Commands {
		out = append(out, c.Package)
	}
	return out
}

func (s Set) label() string { return s.Name + " " + s.Version }

var majorVersion = regexp.MustCompile(`^v[2-9][0-9]*$|^v1[0-9]+$`)

// defaultName is the file name the go command gives to a main package.
func defaultName(pkg string) string {
	base := path.Base(pkg)
	if majorVersion.MatchString(base) {
		return path.Base(path.Dir(pkg))
	}
	return base
}

// commandError is a go command that ended with an error, with what it wrote besides progress.
type commandError struct {
	command string
	err     error
	output  string
}

func (e *commandError) Error() string {
	if e.output == "" {
		return fmt.Sprintf("%s: %v", e.command, e.err)
	}
	return fmt.Sprintf("%s: %v:\n%s", e.command, e.err, e.output)
}

func (e *commandError) Unwrap() []error {
	if strings.Contains(e.output, syscall.ENOSPC.Error()) {
		return []error{e.err, syscall.ENOSPC} // the go command only passes it on as text
	}
	return []error{e.err}
}

var _ error = (*commandError)(nil)

const keptLines = 30 // of a failed command's output: the first error is among the last lines

// lineWriter hands each line to line and keeps the last ones that it did not want.
type lineWriter struct {
	line    func(string) (consumed bool)
	partial []byte
	kept    []string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	for {
		n, s, err := bufio.ScanLines(w.partial, false)
		if err != nil || n == 0 {
			return len(p), err
		}
		w.take(string(s))
		w.partial = w.partial[n:]
	}
}

func (w *lineWriter) take(s string) {
	if w.line(s) {
		return
	}
	w.kept = append(w.kept, s)
	if len(w.kept) > keptLines {
		w.kept = w.kept[1:]
	}
}

// rest is what the line function did not want, at most keptLines lines.
func (w *lineWriter) rest() string {
	if len(w.partial) > 0 {
		w.take(string(w.partial))
		w.partial = nil
	}
	return strings.Join(w.kept, "\n")
}

// isFull tells a full file system, also when only the go command's words say so.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
