package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, script string) (p *Process, output string) {
	t.Helper()
	output = filepath.Join(t.TempDir(), "output")
	p, err := Start(Options{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"GREETING=hello"}, Output: output})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, output
}

func TestAProgramsOutputEnvironmentAndExitCodeAreItsOwn(t *testing.T) {
	t.Setenv("SECRET", "not for children")
	p, output := start(t, `echo "$GREETING $SECRET"; exit 3`)
	if got := p.ExitCode(); got != 3 || p.Err() == nil {
		t.Errorf("exit code is %d, error %v; want 3 and an error", got, p.Err())
	}
	text, err := os.ReadFile(output)
	if err != nil || strings.TrimSpace(string(text)) != "hello" {
		t.Errorf("output is %q, %v", text, err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signalling a program that has ended: %v", err)
	}
}

func TestAProgramThatStandsStillOrDoesNotListenIsStopped(t *testing.T) {
	p, _ := start(t, `trap "" TERM; while :; do :; done`)
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Stop(t.Context(), time.Millisecond)
	if p.ExitCode() != -1 {
		t.Errorf("it ended with code %d, not by a signal", p.ExitCode())
	}
}

func TestUsageOfALivingProgramAndOfOneThatHasEnded(t *testing.T) {
	p, _ := start(t, `while :; do :; done`)
	deadline := time.Now().Add(20 * time.Second)
	for {
		u, err := p.Usage()
		if err != nil {
			t.Fatal(err)
		}
		if u.CPU > 0 && u.MaxRSSBytes > 100_000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a busy program has used %+v", u)
		}
	}
	p.Kill()
	if u, err := p.Usage(); err != nil || u.CPU <= 0 || u.MaxRSSBytes < 100_000 {
		t.Errorf("afterwards it has used %+v, %v", u, err)
	}
}

func TestCPUTimeIsTheKernelsOwnAccount(t *testing.T) {
	p, _ := start(t, `i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; kill -STOP $$`)
	var before, after Usage
	for deadline := time.Now().Add(time.Minute); ; { // until two readings say the same: it has stopped
		var err error
		if after, err = p.Usage(); err != nil {
			t.Fatal(err)
		}
		if after == before && after.CPU > 0 && stopped(t, p.PID()) {
			break
		}
		if before = after; time.Now().After(deadline) {
			t.Fatalf("the program has not stopped; it has used %+v", after)
		}
	}
	p.Kill()
	final, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if diff := (final.CPU - after.CPU).Abs(); diff > 20*time.Millisecond {
		t.Errorf("a program that had stopped had used %s, and %s when it was gone", after.CPU, final.CPU)
	}
}

// stopped reports whether a process is stopped by a signal.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(status), "\nState:\tT")
}

func TestUsageOfNoProcess(t *testing.T) {
	gone, _ := start(t, `exit 0`)
	gone.ExitCode()
	if _, err := readUsage(gone.PID()); err == nil {
		t.Error("usage of a process that has ended was read")
	}
	status := "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1536 kB\nRssAnon:\t 1024 kB\nRssFile:\t 512 kB\n"
	if most, own, err := parseStatus([]byte(status)); err != nil || most != 2<<20 || own != 1<<20 {
		t.Errorf("resident memory is %d, of its own %d, %v; want 2 and 1 MiB", most, own, err)
	}
	if _, _, err := parseStatus(nil); err == nil {
		t.Error("an empty status was read")
	}
}

func TestWhatCannotStartSaysSo(t *testing.T) {
	dir := t.TempDir()
	for name, o := range map[string]Options{
		"no program":   {Name: "ghost", Path: filepath.Join(dir, "ghost"), Output: filepath.Join(dir, "output")},
		"no directory": {Name: "ghost", Path: "/bin/sh", Output: filepath.Join(dir, "none", "output")},
	} {
		if _, err := Start(o); err == nil || !strings.Contains(err.Error(), `"ghost"`) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
