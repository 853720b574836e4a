package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a program has used since its start.
type Usage struct {
	CPU         time.Duration // user and system time
	MaxRSSBytes int64         // the most memory that was resident at once
	OwnBytes    int64         // memory that is resident now and in no file; 0 of a program that has ended
}

// Usage tells what the program has used: of a living one what its CPU clock and /proc say, of one that has ended what
// the kernel accounted for it.
func (p *Process) Usage() (Usage, error) {
	select {
	case <-p.done:
		return p.finalUsage()
	default:
	}
	u, err := readUsage(p.PID())
	if err == nil {
		return u, nil
	}
	select {
	case <-p.done: // it ended meanwhile
		return p.finalUsage()
	default:
		return Usage{}, fmt.Errorf("reading usage of %q: %w", p.name, err)
	}
}

func (p *Process) finalUsage() (Usage, error) {
	state := p.cmd.ProcessState
	r, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return Usage{}, fmt.Errorf("reading usage of %q: the system accounts none", p.name)
	}
	return Usage{CPU: state.UserTime() + state.SystemTime(), MaxRSSBytes: r.Maxrss * 1024}, nil
}

func readUsage(pid int) (Usage, error) {
	cpu, err := cpuTime(pid)
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	most, own, err := parseStatus(status)
	return Usage{CPU: cpu, MaxRSSBytes: most, OwnBytes: own}, err
}

// cpuTime returns the time of a process's CPU clock, see clock_getcpuclockid(3): all of its threads, also those that
// have ended, to the nanosecond. /proc/<pid>/stat counts ticks of 10 ms instead: a manager that serves four nodes
// between two ticks has used nothing there.
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED of the kernel's posix-timers.h: what the scheduler has given the whole process
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, fmt.Errorf("reading the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// parseStatus returns the peak of resident memory, and what of it is in no file now.
func parseStatus(status []byte) (most, own int64, err error) {
	fields := map[string]*int64{"VmHWM": &most, "RssAnon": &own}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		field := fields[name]
		if field == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading %s of the process's status: %w", name, err)
		}
		*field = kib * 1024
		delete(fields, name)
	}
	if len(fields) > 0 {
		return 0, 0, fmt.Errorf("the process's status has no VmHWM or RssAnon")
	}
	return most, own, nil
}
