package hostaccess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// ticksPerSecond is USER_HZ, which Linux fixes at 100 towards user space on every architecture that Kubernetes runs on.
const ticksPerSecond = 100

// Processes looks through /proc for processes of the component whose working directory is the host's root. One that vanishes while it is looked
// at has ended, and so has a zombie. One of that name whose directory may not be read is an error: it could be the one.
func (l *local) Processes(_ context.Context, component string) ([]v1.Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("looking for processes of %s on host %s: %w", component, l.name, err)
	}
	var out []v1.Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, ok, err := l.process(pid, component)
		if err != nil {
			return nil, fmt.Errorf("looking at process %d, which may be %s on host %s: %w", pid, component, l.name, err)
		}
		if ok {
			out = append(out, p)
		}
	}
	return out, nil
}

func (l *local) process(pid int, component string) (v1.Process, bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if vanished(err) {
		return v1.Process{}, false, nil
	} else if err != nil {
		return v1.Process{}, false, err
	}
	args := strings.Split(string(bytes.TrimSuffix(cmdline, []byte{0})), "\x00")
	if path.Base(args[0]) != component {
		return v1.Process{}, false, nil // also a zombie, which has no arguments
	}
	cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
	if vanished(err) {
		return v1.Process{}, false, nil
	} else if err != nil {
		return v1.Process{}, false, err
	}
	if cwd != l.dir {
		return v1.Process{}, false, nil
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if vanished(err) {
		return v1.Process{}, false, nil
	} else if err != nil {
		return v1.Process{}, false, err
	}
	state, ticks, err := parseStat(stat)
	if err != nil {
		return v1.Process{}, false, err
	}
	if state == "Z" || state == "X" {
		return v1.Process{}, false, nil
	}
	started, err := startTime(ticks)
	if err != nil {
		return v1.Process{}, false, err
	}
	return v1.Process{PID: pid, StartTicks: ticks, Started: started, State: state, Args: args}, true, nil
}

func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// parseStat reads the state and the start time (fields 3 and 22) of a /proc/PID/stat; the name in field 2 may hold blanks and parentheses.
func parseStat(stat []byte) (state string, ticks uint64, err error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) < 20 {
		return "", 0, fmt.Errorf("its stat %q is not understood", stat)
	}
	ticks, err = strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("its start time %q is not understood: %w", fields[19], err)
	}
	return fields[0], ticks, nil
}

// startTime turns ticks since boot into a time, with the boot time in whole seconds that the kernel gives.
func startTime(ticks uint64) (time.Time, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "btime "); ok {
			boot, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			if err != nil {
				return time.Time{}, fmt.Errorf("boot time %q: %w", rest, err)
			}
			return time.Unix(boot, 0).Add(time.Duration(ticks) * time.Second / ticksPerSecond).UTC(), nil
		}
	}
	return time.Time{}, errors.New("/proc/stat has no boot time")
}
