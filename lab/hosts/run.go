package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/lab/poll"
)

// run runs a program of the machine; an error has what it printed.
func run(ctx context.Context, argv ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w: %s", strings.Join(argv, " "), err, tail(said.String()))
	}
	return nil
}

// Enter is the command in front of a program that runs on the host as root, in all of the host's namespaces, until the
// host's next boot.
func (h *Host) Enter() ([]string, error) {
	pid, err := h.pid()
	if err != nil {
		return nil, err
	}
	return []string{"nsenter", "-t", strconv.Itoa(pid), "-m", "-u", "-i", "-n", "-p", "--wd=/", "--"}, nil
}

// Exec runs a program on the host as root, in all of the host's namespaces. The error is an *exec.ExitError when the
// program failed.
func (h *Host) Exec(ctx context.Context, in io.Reader, out, errs io.Writer, argv ...string) error {
	enter, err := h.Enter()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, enter[0], append(enter[1:], argv...)...)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LANG=C.UTF-8",
		"TERM=" + os.Getenv("TERM"),
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	cmd.WaitDelay = 5 * time.Second
	return cmd.Run()
}

// Output runs a program on the host and returns what it printed; an error has what it complained of.
func (h *Host) Output(ctx context.Context, argv ...string) (string, error) {
	var out, errs bytes.Buffer
	if err := h.Exec(ctx, nil, &out, &errs, argv...); err != nil {
		return out.String(), fmt.Errorf(
			"running %s on host %s: %w: %s",
			strings.Join(argv, " "),
			h.Name,
			err,
			tail(errs.String()+out.String()),
		)
	}
	return out.String(), nil
}

// tail is the end of a long output.
func tail(text string) string {
	const kept = 4000
	text = strings.TrimSpace(text)
	if len(text) > kept {
		return "... " + text[len(text)-kept:]
	}
	return text
}

// ErrDown is a host that does not run.
var ErrDown = errors.New("host is down")

// pid is the host's first process, as the machine sees it. It is found by its command line: a number that is remembered
// could belong to another by now.
func (h *Host) pid() (int, error) {
	argv := []string{filepath.Join(h.cluster.binDir(), "lab-init"), h.config()}
	if last := int(h.last.Load()); last != 0 && commandLine(last) == joined(argv) {
		return last, nil
	}
	pids, err := processes(argv...)
	if err != nil {
		return 0, err
	}
	if len(pids) == 0 {
		return 0, fmt.Errorf("%s: %w", h.Name, ErrDown)
	}
	h.last.Store(int64(pids[0]))
	return pids[0], nil
}

// Running reports whether the host has power.
func (h *Host) Running() bool {
	_, err := h.pid()
	return err == nil
}

// joined is how the kernel shows a command line.
func joined(argv []string) string { return strings.Join(argv, "\x00") + "\x00" }

// commandLine is empty for a process that has ended.
func commandLine(pid int) string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	return string(data)
}

// processes lists the machine's processes with exactly this command line.
func processes(argv ...string) ([]int, error) {
	want := joined(argv)
	return processesThat(func(cmdline string) bool { return cmdline == want })
}

// processesWithPrefix lists the machine's processes of a program whose first argument begins like this.
func processesWithPrefix(program, prefix string) ([]int, error) {
	want := program + "\x00" + prefix
	return processesThat(func(cmdline string) bool { return strings.HasPrefix(cmdline, want) })
}

func processesThat(match func(cmdline string) bool) ([]int, error) {
	pids, err := everyPID()
	return slices.DeleteFunc(pids, func(pid int) bool { return !match(commandLine(pid)) }), err
}

// everyPID lists the machine's processes.
func everyPID() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// end kills a process and waits until it is gone.
func end(ctx context.Context, pid int, signal syscall.Signal) error {
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending process %d: %w", pid, err)
	}
	return poll.Until(ctx, 20*time.Millisecond, fmt.Sprintf("process %d to end", pid), func(context.Context) error {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return nil
		}
		if _, rest, found := strings.Cut(string(data), ") "); found && strings.HasPrefix(rest, "Z") {
			return nil // its parent has yet to notice
		}
		return errors.New("it is still there")
	})
}
