// Package holder names a process as the holder of something in a cluster, and decides whether such a process has
// certainly ended.
package holder

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Process is named so that people read who it is, and another process on the same machine can report whether it still
// lives.
type Process struct {
	User, Host string
	PID        int
	// Start is when it was started, in ticks since the boot. Boot and Space name that boot of its machine, and the space
	// of process IDs that PID is of. They are empty if they cannot be read, and then it is unknown whether it has ended.
	Start, Boot, Space string
}

// This is the process that calls it.
func This(user string) Process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	p := Process{User: user, Host: host, PID: os.Getpid()}
	// A /proc that was mounted for another space of process IDs shows other processes under the same IDs.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(p.PID) {
		return p
	}
	if data, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		p.Boot = strings.TrimSpace(string(data))
	}
	p.Space, _ = os.Readlink("/proc/self/ns/pid")
	p.Start = startOf(p.PID)
	return p
}

func (p Process) String() string {
	return fmt.Sprintf("%s@%s pid %d start=%s boot=%s pidns=%s", p.User, p.Host, p.PID, p.Start, p.Boot, p.Space)
}

// Parse reads what String wrote, whatever stands behind it. It is false for a holder that names no process.
func Parse(s string) (Process, bool) {
	who, rest, ok := strings.Cut(s, " pid ")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return Process{}, false
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil || pid <= 0 {
		return Process{}, false
	}
	p := Process{PID: pid}
	p.User, p.Host, _ = strings.Cut(who, "@")
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "start":
			p.Start = value
		case "boot":
			p.Boot = value
		case "pidns":
			p.Space = value
		}
	}
	return p, true
}

// Words are the part of a holder that says something to people.
func Words(s string) string {
	p, ok := Parse(s)
	if !ok {
		return s
	}
	who, _, _ := strings.Cut(s, " pid ")
	return fmt.Sprintf("%s pid %d", who, p.PID)
}

// Dead reports whether the named process has certainly ended. It must have been of this boot of this machine and of
// this space of process IDs. No process that has its ID now may have been started when it was. It is false when in
// doubt: machines, and containers of one machine, may well have one hostname.
func (p Process) Dead(other string) bool {
	o, ok := Parse(other)
	if !ok || p.Boot == "" || p.Space == "" || p.Start == "" || o.Start == "" || o.Boot != p.Boot || o.Space != p.Space ||
		o.Host != p.Host {
		return false
	}
	now := startOf(o.PID)
	if now == "" {
		return errors.Is(syscall.Kill(o.PID, 0), syscall.ESRCH)
	}
	return now != o.Start
}

// startOf is when a process was started, in ticks since the boot; empty when that cannot be read.
func startOf(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(data[max(0, strings.LastIndexByte(string(data), ')')):]), " ")
	fields := strings.Fields(rest)
	const start = 22 - 3 // the first field after the name is the third
	if !ok || len(fields) <= start {
		return ""
	}
	return fields[start]
}
