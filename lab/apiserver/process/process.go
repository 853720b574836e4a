// Package process decides how the programs of a test live: each has its output in a file and a process group of its
// own, ends with the process that started it, also when that is killed, and tells what it has used.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Options describe a program to be started.
type Options struct {
	Name   string   // what errors call it
	Path   string   // the program
	Args   []string // without its name
	Env    []string // all of its environment; nothing is inherited
	Dir    string   // its working directory
	Output string   // the file that both streams are appended to
}

// Process is a running program, or one that has ended.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; to be read after done
}

// Start starts a program.
func Start(o Options) (*Process, error) {
	log, err := os.OpenFile(o.Output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening output of %q: %w", o.Name, err)
	}
	defer log.Close()
	p := &Process{name: o.Name, cmd: exec.Command(o.Path, o.Args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = o.Dir, log, log
	p.cmd.Env = append([]string{}, o.Env...) // never nil, which would inherit everything
	// A process group of its own: a Ctrl-C in the terminal is for whoever started it, who stops its programs in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that started the program ends: this one waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %q: %w", o.Name, err)
	}
	return p, nil
}

// Name is what the program was called when it was started.
func (p *Process) Name() string { return p.name }

// PID is its process id. Once Done is closed it may be another process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the program ended; nil for exit code 0. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// ExitCode is the code that the program ended with, or -1 if a signal ended it. It waits for the end.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends a signal. A program that has ended does not mind.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %q: %w", signal, p.name, err)
	}
	return nil
}

// Stop ends the program: politely, and after the grace or when ctx ends by force. One that stands still after SIGSTOP
// ends too.
func (p *Process) Stop(ctx context.Context, grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	p.Kill()
}

// Kill ends the program by force and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}
