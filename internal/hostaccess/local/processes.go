package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// runsOtherProgram reports whether a process certainly runs another program now, at the cost of three system calls. An
// owner's end is checked fifty times a second, and a machine has hundreds of processes. It is false when in doubt, also
// about one that has no command line, unless it is a thread of the kernel.
func (l *Host) runsOtherProgram(pid, component string) bool {
	var buffer [512]byte
	data, ok := readPrefix(l.proc+"/"+pid+"/cmdline", buffer[:])
	if !ok {
		return false
	}
	if program, _, cut := bytes.Cut(data, []byte{0}); cut {
		return !runs(path.Base(string(program)), component)
	}
	if len(data) > 0 {
		return false
	}
	data, ok = readPrefix(l.proc+"/"+pid+"/stat", buffer[:])
	if !ok {
		return false
	}
	rest, ok := behindLast(data, ')')
	fields := bytes.Fields([]byte(rest))
	const flags = 9 - 3 // the first field after the name is the third
	if !ok || len(fields) <= flags {
		return false
	}
	value, err := strconv.ParseUint(string(fields[flags]), 10, 32)
	const kernelThread = 0x00200000 // PF_KTHREAD
	return err == nil && value&kernelThread != 0
}

// readPrefix reads the beginning of a file of procfs.
func readPrefix(name string, buffer []byte) ([]byte, bool) {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer syscall.Close(fd) //nolint:errcheck // opened for reading
	n, err := syscall.Read(fd, buffer)
	if err != nil {
		return nil, false
	}
	return buffer[:n], true
}

// ticksPerSecond is USER_HZ, in which the kernel gives times to programs: 100 on every architecture that Kubernetes
// runs on.
const ticksPerSecond = 100

// Processes looks for programs whose working directory is the host's directory. Only root sees that of other users'
// programs. One with the component's name makes the answer unknown. It does not if its user owns nothing of the host
// and so cannot run the host's programs.
func (l *Host) Processes(ctx context.Context, component string) ([]v1.Process, error) {
	found, err := l.scan(ctx, component)
	if err != nil {
		return nil, fmt.Errorf("looking for %s on host %s: %w", component, l.name, err)
	}
	return found, nil
}

func (l *Host) scan(ctx context.Context, component string) ([]v1.Process, error) {
	if !isDirectory(l.Dir) {
		return nil, fmt.Errorf("its directory %s is gone, and what runs there cannot be known", l.Dir)
	}
	// PID 1 always runs. A procfs mounted with hidepid shows it only to its owner, and hides others as well.
	if _, err := os.ReadFile(filepath.Join(l.proc, "1", "stat")); err != nil {
		return nil, fmt.Errorf(
			"the processes of other users are hidden from user id %d: run the same command again as root (%w)",
			os.Geteuid(),
			err,
		)
	}
	boot, err := bootTime(l.proc)
	if err != nil {
		return nil, err
	}
	names, err := readNames(l.proc)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var out []v1.Process
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pid, err := strconv.Atoi(name)
		if err != nil || l.runsOtherProgram(name, component) {
			continue
		}
		p, ours, err := l.processOf(pid, component)
		if err != nil {
			return nil, err
		}
		if ours {
			p.Started = boot.Add(time.Duration(p.StartTicks) * (time.Second / ticksPerSecond))
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b v1.Process) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // opened for reading
	return d.Readdirnames(-1)
}

// processOf reports whether a process runs the component on this host. One that ends while it is looked at does not.
// The directory is opened once. What is read through it is of this process or of none, also when its PID is reused
// meanwhile.
func (l *Host) processOf(pid int, component string) (v1.Process, bool, error) {
	root, err := os.OpenRoot(filepath.Join(l.proc, strconv.Itoa(pid)))
	if isVanished(err) {
		return v1.Process{}, false, nil
	}
	if err != nil {
		return v1.Process{}, false, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	args, thread, err := commandLine(root)
	if err != nil {
		return v1.Process{}, false, fmt.Errorf("reading the command line of process %d: %w", pid, err)
	}
	if len(args) == 0 || !runs(path.Base(args[0]), component) {
		return v1.Process{}, false, nil
	}
	own, err := l.isOwnProcess(root, thread)
	switch {
	case isVanished(err):
		return v1.Process{}, false, nil
	case err != nil && errors.Is(err, fs.ErrPermission) && l.isForeign(root):
		return v1.Process{}, false, nil
	case err != nil:
		return v1.Process{}, false, fmt.Errorf(
			"process %d is a %s whose location user id %d may not read, so it may be this host's; run the same command again as root (%w)",
			pid,
			component,
			os.Geteuid(),
			err,
		)
	case !own:
		return v1.Process{}, false, nil
	}
	state, ticks, err := life(root, thread)
	if err != nil {
		return v1.Process{}, false, fmt.Errorf("reading the state of process %d: %w", pid, err)
	}
	return v1.Process{
		PID:        pid,
		StartTicks: ticks,
		State:      state,
		Args:       args,
	}, state != "", nil
}

// runs reports whether a program is a component: cloud-controller-manager is also every cloud's own, such as
// aws-cloud-controller-manager.
func runs(program, name string) bool {
	return program == name || name == component.CCM && strings.HasSuffix(program, "-"+name)
}

// isForeign reports whether a process runs as a user who owns neither the host's directory nor what makes it a host. It
// is false when in doubt.
func (l *Host) isForeign(root *os.Root) bool {
	status, err := root.ReadFile("status")
	if err != nil {
		return false
	}
	owners := map[string]bool{}
	for _, path := range []string{".", "etc/kubernetes", "etc/kubernetes/manifests", "var/lib/kubelet"} {
		info, err := os.Stat(filepath.Join(l.Dir, path))
		if errors.Is(err, fs.ErrNotExist) && path != "." {
			continue
		}
		if err != nil {
			return false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		owners[strconv.FormatUint(uint64(st.Uid), 10)] = true
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok { // real, effective, saved, of the file system
			users := strings.Fields(ids)
			return len(users) == 4 && !slices.ContainsFunc(users, func(id string) bool { return owners[id] })
		}
	}
	return false
}

// commandLine returns the arguments of a process and the thread that they were found with, as a path below the process.
// It returns none for a kernel thread and for a process that has ended. A process whose first thread has ended while
// others run looks like a zombie, and still acts: then those are asked.
func commandLine(root *os.Root) ([]string, string, error) {
	args, err := readArgs(root, ".")
	if err != nil || len(args) > 0 {
		return args, ".", err
	}
	tasks, err := root.Open("task")
	if isVanished(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer tasks.Close() //nolint:errcheck // opened for reading
	threads, err := tasks.Readdirnames(-1)
	if err != nil && !isVanished(err) {
		return nil, "", err
	}
	for _, t := range threads {
		thread := path.Join("task", t)
		if args, err = readArgs(root, thread); err != nil || len(args) > 0 {
			return args, thread, err
		}
	}
	return nil, "", nil
}

func readArgs(root *os.Root, thread string) ([]string, error) {
	data, err := root.ReadFile(path.Join(thread, "cmdline"))
	if isVanished(err) {
		return nil, nil
	}
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return strings.Split(string(bytes.TrimSuffix(data, []byte{0})), "\x00"), nil
}

// life returns the state of the thread and the start of the process; an empty state when it has ended.
func life(root *os.Root, thread string) (state string, startTicks uint64, err error) {
	data, err := root.ReadFile("stat")
	if err == nil {
		state, startTicks, err = parseStat(data)
	}
	if err == nil && thread != "." {
		if data, err = root.ReadFile(path.Join(thread, "stat")); err == nil {
			state, _, err = parseStat(data)
		}
	}
	if isVanished(err) || isDead(state) {
		return "", 0, nil
	}
	return state, startTicks, err
}

// isVanished reports whether a procfs entry vanished while it was read.
func isVanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

func isDead(state string) bool { return state == "Z" || state == "X" || state == "x" }

// parseStat reads state and start time of /proc/PID/stat. The program's name stands in parentheses and may hold spaces
// and parentheses.
func parseStat(data []byte) (state string, startTicks uint64, err error) {
	rest, ok := behindLast(data, ')')
	fields := strings.Fields(rest)
	const afterName = 3 // the first field after the name is the third
	if !ok || len(fields) <= 22-afterName {
		return "", 0, fmt.Errorf("unexpected format %q", data)
	}
	startTicks, err = strconv.ParseUint(fields[22-afterName], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("start time: %w", err)
	}
	return fields[0], startTicks, nil
}

// behindLast is what stands behind the last separator.
func behindLast(data []byte, sep byte) (after string, ok bool) {
	i := bytes.LastIndexByte(data, sep)
	if i < 0 {
		return "", false
	}
	return string(data[i+1:]), true
}

// bootTime is when the kernel says it was booted, in whole seconds. Programs that export their own start time compute
// it from the same number.
func bootTime(proc string) (time.Time, error) {
	data, err := os.ReadFile(filepath.Join(proc, "stat"))
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
}
