package kubelet

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

var errStopped = errors.New("the host is stopped")

// spawner starts processes that die with this one. The kernel's parent-death signal is bound to the thread that made
// the child, not to its process: a child started from an arbitrary goroutine would be killed when the Go runtime
// retires that thread. So one goroutine keeps one thread for as long as the host lives, and starts everything from
// there.
type spawner struct {
	starts chan func()
	quit   chan struct{}
	done   chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{starts: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and what it started dies
		for {
			select {
			case f := <-s.starts:
				f()
			case <-s.quit:
				return
			}
		}
	}()
	return s
}

// start runs the command in a process group of its own, so that a Ctrl-C in the terminal reaches only the lab, which
// then stops its hosts in order.
func (s *spawner) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	result := make(chan error, 1)
	select {
	case s.starts <- func() { result <- cmd.Start() }:
		return <-result
	case <-s.done:
		return errStopped
	}
}

func (s *spawner) stop() {
	close(s.quit)
	<-s.done
}
