package hostaccess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	systemctl = "usr/bin/systemctl"
	// maxOutput is how much of a program's output an error shows, in bytes.
	maxOutput = 2048
)

func (l *local) RestartKubelet(ctx context.Context) error {
	root, inside, err := l.open(ctx, "/"+systemctl)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	info, err := root.Stat(inside)
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return fmt.Errorf("restarting the kubelet on host %s: looking for /%s: %w", l.name, systemctl, err)
	}
	limited, cancel := context.WithTimeout(ctx, l.restart)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(limited, filepath.Join(l.dir, systemctl), "restart", "kubelet") //nolint:gosec // the host's own program
	cmd.Dir = l.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // nobody's credentials
	cmd.Stdout, cmd.Stderr = &out, &out
	// A group of its own: Ctrl-C on the terminal must not cut a restart in half, and the end of the time must end its children too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("no answer in %s", l.restart)
	}
	return fmt.Errorf("restarting the kubelet on host %s: systemctl restart kubelet: %w%s", l.name, err, tail(out.Bytes()))
}

// tail is the end of a program's output, for an error.
func tail(out []byte) string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(out[max(0, len(out)-maxOutput):])), "?")
	if text == "" {
		return ""
	}
	return ": " + text
}
