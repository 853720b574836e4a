package kubelet

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

const schedulerUnit = "etc/systemd/system/kube-scheduler.service"

// newUnitHost is a host with a unit whose program is this binary.
func newUnitHost(t *testing.T, start string) *host {
	t.Helper()
	h := newHost(t, func(o *Options) {
		o.UnitProgram = func(string) (string, error) { return os.Executable() }
	})
	h.write(schedulerUnit, "[Unit]\nDescription=kube-scheduler\n\n[Service]\nEnvironmentFile=/etc/scheduler.env\nExecStart="+start+"\nRestart=always\n")
	h.write("var/.keep", "")
	h.write("etc/scheduler.env", "# what it is told\nARGS=\"--v=2 --saw=/var/saw\"\nSECRET=x\n")
	return h.start()
}

func TestAUnitRunsAsItsFilesSay(t *testing.T) {
	h := newUnitHost(t, "/usr/local/bin/kube-scheduler \\\n  --config=/etc/scheduler.yaml \\\n  $ARGS")
	if _, _, code := h.systemctl("start", "kube-scheduler"); code != 0 {
		t.Fatal("it did not start")
	}
	got := h.sighting("var/saw")
	if want := "kube-scheduler --config=" + h.path("etc/scheduler.yaml") + " --v=2 --saw=" + h.path("var/saw"); strings.Join(got.Args, " ") != want {
		t.Errorf("it runs with %q, not %q", got.Args, want)
	}
	if got.PID != h.UnitPID("kube-scheduler.service") || !strings.Contains(strings.Join(got.Env, " "), "SECRET=x") {
		t.Errorf("pid %d, %+v", h.UnitPID("kube-scheduler.service"), got)
	}
	if out, _, code := h.systemctl(
		"show",
		"--property=LoadState,ActiveState",
		"kube-scheduler.service",
	); out != "LoadState=loaded\nActiveState=active\n" ||
		code != 0 {
		t.Errorf("show: %q, exit code %d", out, code)
	}
	if _, _, code := h.systemctl("stop", "kube-scheduler"); code != 0 || h.UnitPID("kube-scheduler") != 0 || syscall.Kill(got.PID, 0) == nil {
		t.Errorf("stop: exit code %d, pid %d", code, h.UnitPID("kube-scheduler"))
	}
	if out, _, code := h.systemctl("is-active", "kube-scheduler"); out != "inactive\n" || code != 3 {
		t.Errorf("is-active: %q, exit code %d", out, code)
	}
}

func TestAUnitIsReadAtDaemonReload(t *testing.T) {
	h := newUnitHost(t, "/usr/local/bin/kube-scheduler --saw=/var/saw --v=1")
	args := func(verbs ...string) string {
		t.Helper()
		_ = os.Remove(h.path("var/saw"))
		for _, v := range verbs {
			if _, errOut, code := h.systemctl(strings.Fields(v)...); code != 0 {
				t.Fatalf("%s: %s", v, errOut)
			}
		}
		return strings.Join(h.sighting("var/saw").Args[2:], " ")
	}
	if got := args("start kube-scheduler"); got != "--v=1" {
		t.Errorf("started with %s", got)
	}
	data, err := os.ReadFile(h.path(schedulerUnit))
	if err != nil {
		t.Fatal(err)
	}
	h.write(schedulerUnit, strings.Replace(string(data), "--v=1", "--v=2", 1))
	if got := args("restart kube-scheduler"); got != "--v=1" {
		t.Errorf("systemd read the changed file without being told: %s", got)
	}
	if got := args("daemon-reload", "restart kube-scheduler"); got != "--v=2" {
		t.Errorf("restarted with %s", got)
	}
}

func TestAUnitWhoseProgramEndsIsStartedAgain(t *testing.T) {
	h := newUnitHost(t, "/usr/local/bin/kube-scheduler --saw=/var/saw")
	if err := h.StartUnit("kube-scheduler"); err != nil {
		t.Fatal(err)
	}
	first := h.sighting("var/saw").PID
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process", func() (bool, any) {
		pid := h.UnitPID("kube-scheduler")
		return pid != 0 && pid != first, pid
	})
}

func TestAUnitThatCannotStartSaysWhy(t *testing.T) {
	h := newUnitHost(t, "/usr/local/bin/kube-scheduler")
	for name, c := range map[string]struct{ text, want string }{
		"quotes":       {`ExecStart=/usr/local/bin/x "--a=b c"`, "has quotes"},
		"two programs": {"ExecStart=/bin/a\nExecStart=/bin/b", "several ExecStart="},
		"nothing":      {"Type=simple", "has no ExecStart="},
		"no variables": {"EnvironmentFile=/etc/nosuch.env\nExecStart=/bin/a", "nosuch.env: no such file"},
	} {
		h.write("etc/systemd/system/x.service", "[Service]\n"+c.text+"\n")
		_, _, _ = h.systemctl("daemon-reload")
		if _, errOut, code := h.systemctl("start", "x"); code != 1 || !strings.Contains(errOut, c.want) || !strings.Contains(errOut, "x.service") {
			t.Errorf("%s: exit code %d, %q", name, code, errOut)
		}
	}
	if _, errOut, code := h.systemctl("start", "y"); code != 5 || !strings.Contains(errOut, "has kubelet.service, kube-scheduler.service, x.service only") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}
