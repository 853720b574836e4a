package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what a program has used since its start.
type Usage struct {
	CPU         time.Duration // user and system time
	MaxRSSBytes int64         // the most memory that was resident at once
}

// clockTick is the unit of times in /proc/<pid>/stat: USER_HZ, which is 100 on every platform that Go runs Linux on.
const clockTick = 10 * time.Millisecond

// Usage tells what the program has used: of a living one what /proc says, of one that has ended what the kernel accounted for it.
func (p *Process) Usage() (Usage, error) {
	select {
	case <-p.done:
		return p.finalUsage()
	default:
	}
	u, err := readUsage(fmt.Sprintf("/proc/%d", p.PID()))
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

// readUsage reads a process's directory below /proc.
func readUsage(dir string) (Usage, error) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return Usage{}, err
	}
	cpu, err := parseStat(stat)
	if err != nil {
		return Usage{}, err
	}
	rss, err := parseStatus(status)
	return Usage{CPU: cpu, MaxRSSBytes: rss}, err
}

// parseStat returns user and system time: fields 14 and 15. Field 2 is the program's name in parentheses and may hold anything.
func parseStat(stat []byte) (time.Duration, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 14 - 3, 15 - 3 // the fields begin with the third
	if len(fields) <= system {
		return 0, fmt.Errorf("the process's stat has %d fields", len(fields))
	}
	var ticks int64
	for _, text := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading a time of the process's stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// parseStatus returns the peak of resident memory.
func parseStatus(status []byte) (int64, error) {
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("the process's status has no VmHWM")
}
