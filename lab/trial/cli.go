package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Result is how a command ended.
type Result struct {
	// Code is the exit code; -1 when a signal ended it.
	Code   int
	Stdout string
	Stderr string
}

// CLI runs transplant with the global flags that an operator of this lab would give. narration gets standard error as
// it comes; nil for nowhere. env are further variables, NAME=VALUE.
func (t *Trial) CLI(ctx context.Context, narration io.Writer, env []string, args ...string) (Result, error) {
	made := t.Command(append(args, "--state-dir", t.StateDir())...)
	cmd := exec.CommandContext(ctx, made.Path, made.Args[1:]...)
	cmd.Env = append(made.Env, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if narration != nil {
		cmd.Stderr = io.MultiWriter(&errOut, narration)
	}
	// A group of its own: a Ctrl-C for the demo reaches the demo, which ends the command itself, and in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	r := Result{Stdout: out.String(), Stderr: errOut.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		return r, fmt.Errorf("running transplant %s: %w", args[0], err)
	}
	return r, nil
}

// StateDir is where the command line keeps what it records of a run.
func (t *Trial) StateDir() string { return filepath.Join(t.dir, "state") }

// Command is transplant with the global flags that an operator of this lab would give, but for --state-dir. It is not
// started.
func (t *Trial) Command(args ...string) *exec.Cmd {
	args = append(args, "--kubeconfig", t.kubeconfig, "--host-access", t.HostAccess())
	if named := t.namedHosts(); len(named) > 0 {
		args = append(args, "--control-plane-hosts", strings.Join(named, ","))
	}
	cmd := exec.Command(t.product.CLI, args...)
	cmd.Env = append(os.Environ(), t.Env()...)
	return cmd
}

// As returns the trial in the hands of an operator who has the rights of groups and no others.
func (t *Trial) As(user string, groups ...string) (*Trial, error) {
	file, err := t.KubeconfigOf(user, groups...)
	if err != nil {
		return nil, err
	}
	other := *t
	other.kubeconfig = file
	return &other, nil
}

// namedHosts are the Nodes of the control plane that the operator has to name: those with the names of their hosts, and
// all where a DaemonSet is to find them. The lab's API servers announce no addresses, since no client could use those
// of loopback.
func (t *Trial) namedHosts() (names []string) {
	for _, h := range t.ControlPlanes() {
		if h.NodeName == h.Name || t.namesNodes {
			names = append(names, h.NodeName)
		}
	}
	return names
}

// MigrationFlags are the flags of check, plan and apply for this lab: how the new manager gets at its cloud.
func MigrationFlags() []string {
	return []string{
		"--ccm-env", "AWS_SHARED_CREDENTIALS_FILE=" + credentials,
		"--ccm-env", "AWS_EC2_METADATA_DISABLED=true",
		"--ccm-env", "HTTPS_PROXY=http://127.0.0.1:9",
		"--ccm-env", "NO_PROXY=127.0.0.0/8",
	}
}
