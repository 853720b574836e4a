package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/lab/poll"
)

// command is a run of the product. Its standard error is a pipe, as it would be on the way into another program.
type command struct {
	cmd   *exec.Cmd
	read  *os.File
	done  chan struct{} // closed when the process has ended
	copy  chan struct{} // closed when all that it wrote has been read
	mu    sync.Mutex
	text  bytes.Buffer
	err   error
	begin time.Time
}

// ended is how a run came to its end.
type ended struct {
	// code is the exit code; -1 when a signal ended it.
	code   int
	stderr string
}

func (e ended) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(e.stderr), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func start(cmd *exec.Cmd) (*command, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	c := &command{cmd: cmd, read: read, done: make(chan struct{}), copy: make(chan struct{}), begin: time.Now()}
	cmd.Stdout, cmd.Stderr = io.Discard, write
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true              // a Ctrl-C is for the test, which ends the command itself
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // a command whose campaign was interrupted would go on with the cluster
	started := make(chan error)
	heedHangUp()
	go func() {
		defer close(c.done)
		runtime.LockOSThread() // the parent-death signal follows the thread, which must outlive the command
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	err = <-started
	_ = write.Close() // the command has it, or nobody
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	go func() {
		defer close(c.copy)
		_, _ = io.Copy((*narration)(c), read) // ends when the command does, or when nobody reads any longer
	}()
	return c, nil
}

// heedHangUp has the commands get SIGHUP also when the campaign itself runs under nohup: a signal that is ignored stays
// so in every child.
var heedHangUp = sync.OnceFunc(func() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // and this process goes on, as before
	}
})

// narration keeps what a command says.
type narration command

func (n *narration) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (c *command) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// wait waits for the end. When ctx ends, the command is ended too.
func (c *command) wait(ctx context.Context) (ended, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = c.cmd.Process.Kill() // it may have ended
		<-c.done
		return ended{}, context.Cause(ctx)
	}
	<-c.copy
	_ = c.read.Close() // only read from
	e := ended{stderr: c.said()}
	var exit *exec.ExitError
	switch {
	case errors.As(c.err, &exit):
		e.code = exit.ExitCode()
	case c.err != nil:
		return e, fmt.Errorf("running %s: %w", c.cmd.Path, c.err)
	}
	return e, nil
}

// deafen stops to read what the command says.
func (c *command) deafen() error { return c.read.Close() }

// signal sends a signal and waits until the command says that it has heard it; it says nothing of some.
func (c *command) signal(ctx context.Context, s syscall.Signal, heard string) error {
	if err := c.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %s to the command: %w", s, err)
	}
	if heard == "" {
		return nil
	}
	what := "the command to say that it has heard " + s.String()
	return poll.Within(ctx, 20*time.Millisecond, 10*time.Second, what, func(context.Context) error {
		if !strings.Contains(c.said(), heard) {
			return errors.New("it has not")
		}
		return nil
	})
}
