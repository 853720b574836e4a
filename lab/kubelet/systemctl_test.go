package kubelet

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// systemctl runs the host's own.
func (h *host) systemctl(args ...string) (out, errOut string, code int) {
	h.t.Helper()
	cmd := exec.Command(h.path("usr/bin/systemctl"), args...)
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

func TestSystemctlStopsStartsAndShowsTheKubelet(t *testing.T) {
	h := newHost(t, nil).start()
	type answer struct {
		out, errOut string
		code        int
	}
	for _, step := range []struct {
		args string
		want answer
	}{
		{"is-active kubelet", answer{"active\n", "", 0}},
		{"daemon-reload", answer{}},
		{"stop kubelet", answer{}},
		{"is-active kubelet.service", answer{"inactive\n", "", 3}},
		{"is-active --quiet kubelet", answer{"", "", 3}},
		{"show kubelet -p ActiveState,SubState", answer{"ActiveState=inactive\nSubState=dead\n", "", 0}},
		{"start kubelet", answer{}},
		{"restart kubelet.service", answer{}},
		{"show --property=ActiveState --value kubelet", answer{"active\n", "", 0}},
		{"restart docker", answer{"", "Unit docker not found: this host has kubelet.service only.\n", 5}},
		{"mask kubelet", answer{"", "Unknown command verb mask: this host knows restart, stop, start, is-active, status, show and daemon-reload.\n", 1}},
		{"", answer{"", "systemctl: no command given\n", 1}},
	} {
		out, errOut, code := h.systemctl(strings.Fields(step.args)...)
		if got := (answer{out, errOut, code}); got != step.want {
			t.Errorf("systemctl %s: %+v, not %+v", step.args, got, step.want)
		}
	}
	left, err := os.ReadDir(h.path(spoolDir))
	if err != nil || len(left) != 1 {
		t.Errorf("left in the spool: %v, %v", left, err)
	}
}

func TestKubeletWithAWrongFlagFailsVisiblyAndIsTriedAgain(t *testing.T) {
	h := newHost(t, nil)
	h.manifest(kcmFile, kcm())
	h.start()
	c := h.running()
	h.write(kubeadmFlagsFile, flagsFile("--bogus"))
	_, errOut, code := h.systemctl("restart", "kubelet")
	if code != 1 || !strings.Contains(errOut, "unknown flag: --bogus") {
		t.Errorf("restart: exit code %d, %q", code, errOut)
	}
	if out, _, code := h.systemctl("is-active", "kubelet"); out != "activating\n" || code != 3 {
		t.Errorf("is-active: %q, exit code %d", out, code)
	}
	if out, _, _ := h.systemctl("status", "kubelet"); !strings.Contains(out, "unknown flag: --bogus") {
		t.Errorf("status: %q", out)
	}
	if log, _ := os.ReadFile(h.path("var/log/kubelet.log")); !strings.Contains(string(log), "unknown flag: --bogus") {
		t.Errorf("the kubelet's log does not name the flag:\n%s", log)
	}
	h.write(kubeadmFlagsFile, flagsFile("--cloud-provider=external"))
	eventually(t, "the next try", func() (bool, any) { f, up := h.Flags(); return up && f.CloudProvider == CloudExternal, f })
	if h.container().PID != c.PID {
		t.Errorf("the pod was restarted: %+v", h.Pods())
	}
}

func TestStartFailsCleanlyIfTheKubeletCannotStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		flags  string
		want   string
	}{
		"wrong flag":    {flags: "--bogus", want: "unknown flag: --bogus"},
		"no instance":   {flags: "--cloud-provider=aws", want: "the cloud knows no instance of this host"},
		"no kubeconfig": {change: func(o *Options) { o.Kubeconfig = "/nonexistent/kubelet.conf" }, want: `reading kubeconfig "/nonexistent/kubelet.conf"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, c.change)
			h.write(kubeadmFlagsFile, flagsFile(c.flags))
			err := h.Start(context.Background())
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `host "cp-1"`) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSystemctlOfAStoppedHostSaysSo(t *testing.T) {
	h := newHost(t, nil).start()
	if err := h.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, errOut, code := h.systemctl("restart", "kubelet")
	if code != 1 || !strings.Contains(errOut, "is not running") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}
