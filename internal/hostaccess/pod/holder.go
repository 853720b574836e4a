package pod

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// holder names a process so that another one on the same machine can tell whether it still lives.
type holder struct {
	user, host, boot, space string
	pid                     int
	start                   string
}

func thisProcess(user string) holder {
	name, _ := os.Hostname()
	h := holder{user: user, host: name, pid: os.Getpid()}
	if data, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.boot = strings.TrimSpace(string(data))
	}
	h.space, _ = os.Readlink("/proc/self/ns/pid")
	h.start = startOf(h.pid)
	return h
}

func (h holder) String() string {
	return fmt.Sprintf("%s@%s boot=%s pidns=%s pid=%d start=%s", h.user, h.host, h.boot, h.space, h.pid, h.start)
}

// dead tells that the process which a Job names has certainly ended: it was of this boot of this machine and of this space of process IDs, and no process of
// its ID was started when it was. It is false when in doubt.
func (h holder) dead(other string) bool {
	fields := map[string]string{}
	for _, f := range strings.Fields(other) {
		if name, value, ok := strings.Cut(f, "="); ok {
			fields[name] = value
		}
	}
	pid, err := strconv.Atoi(fields["pid"])
	if err != nil || h.boot == "" || h.space == "" || fields["boot"] != h.boot || fields["pidns"] != h.space || fields["start"] == "" {
		return false
	}
	now := startOf(pid)
	if now == "" {
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}
	return now != fields["start"]
}

// startOf is when a process was started, in ticks since the boot; empty when that cannot be read.
func startOf(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
	fields := strings.Fields(rest)
	const start = 22 - 3 // the first field after the name is the third
	if !ok || len(fields) <= start {
		return ""
	}
	return fields[start]
}
