package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ExitRecord is one process that ended, for whoever judges when an owner was provably gone.
type ExitRecord struct {
	Host      string
	Pod       string
	Container string
	Component string // base name of argv[0]
	PID       int
	// StartTicks is the start time of the process in clock ticks since boot, as in /proc/<pid>/stat; with the PID it names
	// a process for good.
	StartTicks uint64
	Started    time.Time
	// Ended is when the kernel had reported the end: the process was gone then.
	Ended    time.Time
	ExitCode int // 128 + signal number if a signal ended it
	// Reason is why the kubelet stopped it, or how it ended by itself.
	Reason string
}

// process is a running or ended container.
type process struct {
	id         string
	component  string
	program    string
	pid        int
	startTicks uint64
	started    time.Time
	done       chan struct{} // closed when the process is gone and its record is written

	mu       sync.Mutex
	gone     bool // nothing may be signalled any more: the PID may belong to somebody else
	stopping string
	ended    time.Time
	exitCode int
	signal   syscall.Signal
}

// launch starts cmd and reports its end to onExit exactly once.
func launch(s *spawner, cmd *exec.Cmd, id, component string, onExit func(*process)) (*process, error) {
	if err := s.start(cmd); err != nil {
		return nil, err
	}
	p := &process{
		id: id, component: component, program: cmd.Path, pid: cmd.Process.Pid,
		started: time.Now(), done: make(chan struct{}),
	}
	if ticks, err := startTicks(p.pid); err == nil {
		p.startTicks = ticks
	}
	go p.reap(cmd, onExit)
	return p, nil
}

// reap waits for the end. The zombie is kept until its process group is dead as well, so that no other process can have
// got the number.
func (p *process) reap(cmd *exec.Cmd, onExit func(*process)) {
	defer close(p.done)
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	ended := time.Now()
	p.mu.Lock()
	p.gone = true
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // no such group: nothing was left
	p.mu.Unlock()
	_ = cmd.Wait() // how it ended is in the state
	p.mu.Lock()
	p.ended = ended
	p.exitCode = -1
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		p.exitCode = status.ExitStatus()
		if status.Signaled() {
			p.signal = status.Signal()
			p.exitCode = 128 + int(p.signal)
		}
	}
	p.mu.Unlock()
	onExit(p)
}

// stop asks the process to end and, after the grace, ends it and everything it started. It returns at once; done tells
// the end.
func (p *process) stop(reason string, grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.stopping != "" {
		return
	}
	p.stopping = reason
	_ = syscall.Kill(p.pid, syscall.SIGTERM)
	go func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
		case <-timer.C:
			p.kill(reason)
		}
	}()
}

// kill ends the process group now.
func (p *process) kill(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	if p.stopping == "" {
		p.stopping = reason
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
}

// running is false from before the end is reported: whoever is woken by the report finds the process ended.
func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended.IsZero()
}

// exit tells how the process ended; it is meaningful once the process does not run.
func (p *process) exit() (code int, ended time.Time, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopping != "":
		reason = p.stopping
	case p.signal != 0:
		reason = fmt.Sprintf("ended by signal %d (%s)", int(p.signal), p.signal)
	default:
		reason = fmt.Sprintf("exited with code %d", p.exitCode)
	}
	return p.exitCode, p.ended, reason
}

// startTicks reads field 22 of /proc/<pid>/stat, counted from behind the program's name, which may itself contain
// spaces and brackets.
func startTicks(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading start time of process %d: %w", pid, err)
	}
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, fmt.Errorf("reading start time of process %d: %q is no process status", pid, stat)
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
