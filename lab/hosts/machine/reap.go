package machine

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/transplant-dev/transplant/lab/hosts/units"
)

// reaper is the only one in the process that waits for children: the first process of a host gets everybody's orphans.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
}

// start begins to wait for children, until the process ends.
func (r *reaper) start() {
	r.waiting = map[int]chan syscall.WaitStatus{}
	ended := make(chan os.Signal, 1) // one that is not yet read covers all that come meanwhile
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			r.collect()
		}
	}()
}

// collect takes every child that has ended.
func (r *reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if done, ok := r.waiting[pid]; ok {
			delete(r.waiting, pid)
			done <- status
		}
	}
}

// launch is the units' Launcher. The lock keeps the child from being collected before it is known.
func (r *reaper) launch(argv, env []string, log string) (units.Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return units.Process{}, fmt.Errorf("opening log: %w", err)
	}
	defer out.Close() //nolint:errcheck // the child has its own descriptor
	null, err := os.Open(os.DevNull)
	if err != nil {
		return units.Process{}, fmt.Errorf("opening input: %w", err)
	}
	defer null.Close() //nolint:errcheck // it is only read
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{null.Fd(), out.Fd(), out.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return units.Process{}, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	done := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = done
	return units.Process{PID: pid, Done: done}, nil
}
