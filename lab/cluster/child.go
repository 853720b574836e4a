package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// child is a process of the lab itself. It ends with the lab, also when the lab is killed.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; to be read after done
}

// startChild starts a program whose output goes to a file.
func startChild(name, program, output, dir string, args []string) (*child, error) {
	log, err := os.OpenFile(output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening log of %s: %w", name, err)
	}
	defer log.Close() //nolint:errcheck // the child has a descriptor of its own
	c := &child{name: name, cmd: exec.Command(program, args...), done: make(chan struct{})}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dir, log, log
	c.cmd.Env = []string{}
	// Its own process group: a Ctrl-C in the terminal is for the lab, which stops its parts in order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that started the child ends: this one waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

// stop ends the process: politely, and after the grace or when ctx ends by force.
func (c *child) stop(ctx context.Context, grace time.Duration) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	_ = c.cmd.Process.Kill()
	<-c.done
}
