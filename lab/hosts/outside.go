package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// What is in this file looks at a host from the machine that it is on, past everything that a test tries: no API
// server, no kubelet and no pod is asked.

// Processes lists the programs of a host's own network with this base name; for cloud-controller-manager also those of
// a cloud's own. PIDs are the machine's.
func (h *Host) Processes(ctx context.Context, component string) ([]v1.Process, error) {
	init, err := h.pid()
	if errors.Is(err, ErrDown) {
		return nil, nil // a host without power runs nothing
	}
	if err != nil {
		return nil, err
	}
	network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", init))
	if err != nil {
		return nil, fmt.Errorf("looking at the network of host %s: %w", h.Name, err)
	}
	boot, err := bootTime()
	if err != nil {
		return nil, err
	}
	pids, err := h.candidates(component)
	if err != nil {
		return nil, fmt.Errorf("listing processes of host %s: %w", h.Name, err)
	}
	var out []v1.Process
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, ok, err := look(pid, component, network)
		if err != nil {
			return nil, err
		}
		if ok {
			p.Started = boot.Add(time.Duration(p.StartTicks) * (time.Second / ticksPerSecond))
			out = append(out, p)
		}
	}
	return out, nil
}

// candidates are the processes among which a component is looked for: all of the machine for the kubelet, and those in
// the host's pods for everything else. A recorder looks several times a second on each host, and a machine that runs
// hosts has a thousand processes.
func (h *Host) candidates(component string) ([]int, error) {
	if component == "kubelet" {
		return everyPID()
	}
	var out []int
	err := filepath.WalkDir(
		filepath.Join(cgroupRoot, "cpu", h.cgroup()),
		func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a pod that ends takes its groups along
			}
			if err != nil || e.Name() != "cgroup.procs" {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return unlessGone(err)
			}
			for _, field := range strings.Fields(string(data)) {
				pid, err := strconv.Atoi(field)
				if err != nil {
					return fmt.Errorf("reading %s: %w", path, err)
				}
				out = append(out, pid)
			}
			return nil
		},
	)
	return out, err
}

// ticksPerSecond is USER_HZ, in which the kernel gives times to programs.
const ticksPerSecond = 100

// look reports whether a process is a component in a network. One that ends meanwhile is none.
func look(pid int, component, network string) (v1.Process, bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(line) == 0 {
		return v1.Process{}, false, unlessGone(err)
	}
	args := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
	if name := path.Base(args[0]); name != component && !strings.HasSuffix(name, "-"+component) {
		return v1.Process{}, false, nil
	}
	if its, err := os.Readlink(filepath.Join(dir, "ns/net")); err != nil || its != network {
		return v1.Process{}, false, unlessGone(err)
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return v1.Process{}, false, unlessGone(err)
	}
	// state is the first, the start time the twentieth
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return v1.Process{}, false, nil
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return v1.Process{}, false, fmt.Errorf("reading the start of process %d: %w", pid, err)
	}
	return v1.Process{PID: pid, StartTicks: ticks, State: fields[0], Args: args}, true, nil
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// bootTime is when the machine was started, which is looked up once.
var bootTime = sync.OnceValues(func() (time.Time, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the boot time: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "btime "); ok {
			seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return time.Time{}, fmt.Errorf("reading the boot time: %w", err)
			}
			return time.Unix(seconds, 0).UTC(), nil
		}
	}
	return time.Time{}, errors.New("reading the boot time: there is no btime in /proc/stat")
})

// DialContext connects to an address, given as an IP and a port, from the host's own network.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	pid, err := h.pid()
	if err != nil {
		return nil, err
	}
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		// The thread is not unlocked, and so ends with the goroutine: it is of the host's network for good.
		runtime.LockOSThread()
		conn, err := dialIn(ctx, pid, network, address)
		done <- dialed{conn, err}
	}()
	d := <-done
	return d.conn, d.err
}

// dialIn dials on a thread that has moved into the network of a process. A literal address is dialled by the calling
// goroutine itself.
func dialIn(ctx context.Context, pid int, network, address string) (net.Conn, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("entering the network of process %d: %w", pid, err)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
