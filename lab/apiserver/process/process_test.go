package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestUsageIsReadWhateverAProgramIsCalled(t *testing.T) {
	cpu, err := parseStat([]byte("42 (a) R (b c) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 9 0 1 2 3"))
	if err != nil {
		t.Fatal(err)
	}
	rss, err := parseStatus([]byte("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Usage{CPU: 2 * time.Second, MaxRSSBytes: 2 << 20}, Usage{CPU: cpu, MaxRSSBytes: rss}); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 (x) S 1 42 42 0 -1 4194560 1 2 3 4 many 50 7"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if _, err := parseStatus(nil); err == nil {
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
