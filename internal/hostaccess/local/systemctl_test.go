package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func script(t *testing.T, l *Host, text string) {
	t.Helper()
	put(t, l, "/usr/bin/systemctl", "#!/bin/sh\n"+text, 0o755)
}

func TestRestartKubelet(t *testing.T) {
	l := newHost(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	script(t, l, `echo "$# $1 $2 $(pwd -P) $AWS_SECRET_ACCESS_KEY" >called`)
	if err := l.RestartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, l, "/called"), "2 restart kubelet "+l.Dir+" \n"; got != want {
		t.Errorf("it was called as %q, want %q", got, want)
	}
}

func TestRestartKubeletTellsWhatTheHostSaid(t *testing.T) {
	l := newHost(t)
	script(t, l, "echo Unit kubelet.service is masked >&2\nexit 5\n")
	err := l.RestartKubelet(t.Context())
	want := "restarting the kubelet on host cp-1: systemctl restart kubelet: exit status 5: Unit kubelet.service is masked"
	if err == nil || err.Error() != want {
		t.Errorf("err = %v, want %q", err, want)
	}
}

func TestRestartKubeletShowsTheEndOfALongOutput(t *testing.T) {
	l := newHost(t)
	script(t, l, "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo line $i; done; exit 1\n")
	err := l.RestartKubelet(t.Context())
	if err == nil || len(err.Error()) > maxOutput+200 || !strings.HasSuffix(err.Error(), "line 5000") {
		t.Errorf("err = %v", err)
	}
}

func TestRestartKubeletEndsInTimeWithItsChildren(t *testing.T) {
	l := newHost(t)
	l.restart = 300 * time.Millisecond
	script(t, l, "sleep 1000 &\necho $! >child.new && mv child.new child\nwait\n")
	err := l.RestartKubelet(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "restarting the kubelet on host cp-1: systemctl restart kubelet: no answer in 300ms") {
		t.Fatalf("err = %v", err)
	}
	data, err := os.ReadFile(filepath.Join(l.Dir, "child"))
	if err != nil {
		t.Skipf("the script was too slow to start its child: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the script's child has ended", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if isVanished(err) {
			return true
		}
		state, _, err := parseStat(stat)
		return err == nil && isDead(state)
	})
}

func TestRestartKubeletEndsWithItsContext(t *testing.T) {
	l := newHost(t)
	script(t, l, ": >begun\nsleep 1000\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- l.RestartKubelet(ctx) }()
	until(t, "the script has begun", func() bool { _, err := os.Stat(filepath.Join(l.Dir, "begun")); return err == nil })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestRestartKubeletWithoutAUsableSystemctl(t *testing.T) {
	l := newHost(t)
	if err := l.RestartKubelet(t.Context()); err == nil || !strings.Contains(err.Error(), "looking for /usr/bin/systemctl") {
		t.Errorf("absent: %v", err)
	}
	put(t, l, "/usr/bin/systemctl", "#!/bin/sh\n", 0o644)
	if err := l.RestartKubelet(t.Context()); !errors.Is(err, syscall.EACCES) {
		t.Errorf("not executable: %v", err)
	}
	if err := os.Remove(filepath.Join(l.Dir, "usr/bin/systemctl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/true", filepath.Join(l.Dir, "usr/bin/systemctl")); err != nil {
		t.Fatal(err)
	}
	if err := l.RestartKubelet(t.Context()); err == nil {
		t.Error("a program outside of the host was run")
	}
}
