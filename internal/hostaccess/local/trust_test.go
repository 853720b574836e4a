package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// TestAProgramInAHostsDirectoryIsNeverRun: root on a host whose disk is mounted here writes what lies there, and what
// runs here runs as the administrator.
func TestAProgramInAHostsDirectoryIsNeverRun(t *testing.T) {
	const unit = "kube-apiserver.service"
	for name, do := range map[string]func(context.Context, *Host) error{
		"a program": func(ctx context.Context, l *Host) error {
			_, err := l.Run(ctx, hostaccess.Command{Path: "/usr/bin/systemctl", Args: []string{"--version"}})
			return err
		},
		"a program behind a link": func(ctx context.Context, l *Host) error {
			_, err := l.Run(ctx, hostaccess.Command{Path: "/link"})
			return err
		},
		"restart the kubelet": func(ctx context.Context, l *Host) error { return l.RestartKubelet(ctx) },
		"reload":              func(ctx context.Context, l *Host) error { return l.DaemonReload(ctx) },
		"restart":             func(ctx context.Context, l *Host) error { return l.Restart(ctx, unit) },
		"stop":                func(ctx context.Context, l *Host) error { return l.Stop(ctx, unit) },
		"start":               func(ctx context.Context, l *Host) error { return l.Start(ctx, unit) },
		"active":              func(ctx context.Context, l *Host) error { _, err := l.Active(ctx, unit); return err },
	} {
		t.Run(name, func(t *testing.T) {
			dir, loot := filepath.Join(t.TempDir(), "cp-1"), filepath.Join(t.TempDir(), "loot")
			if err := os.MkdirAll(filepath.Join(dir, "etc/kubernetes"), 0o755); err != nil {
				t.Fatal(err)
			}
			hosts, err := Open("local:cp-1=" + dir)
			if err != nil {
				t.Fatal(err)
			}
			l := hosts[0].(*Host)
			script(t, l, "id > "+loot+"\necho ActiveState=active\n")
			if err := os.Symlink("usr/bin/systemctl", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			if err := do(t.Context(), l); !errors.Is(err, hostaccess.ErrRunsNoPrograms) || !strings.Contains(err.Error(), "host cp-1") {
				t.Errorf("err = %v", err)
			}
			if _, err := os.Stat(loot); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the host's program ran here: %v", err)
			}
		})
	}
}

// TestALinkOutOfAHostsDirectoryLeadsNowhere: neither does a read show a file of this machine, nor does a write change
// one.
func TestALinkOutOfAHostsDirectoryLeadsNowhere(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "mine"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	back, err := filepath.Rel("/x/cp-1/etc", "/x")
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"an absolute directory": outside,
		"up and out":            back + "/" + filepath.Base(outside),
		"through the process":   "/proc/self/root" + outside,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(filepath.Dir(outside), "cp-1-"+filepath.Base(t.Name()))
			if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, filepath.Join(dir, "etc/kubernetes")); err != nil {
				t.Fatal(err)
			}
			l, err := New("cp-1", dir)
			if err != nil {
				t.Fatal(err)
			}
			const at = "/etc/kubernetes/mine"
			if f, err := l.ReadFile(t.Context(), at); err == nil {
				t.Errorf("read %q", f.Data)
			}
			if _, _, err := l.Digest(t.Context(), at); err == nil {
				t.Error("the hash was told")
			}
			if names, err := l.List(t.Context(), "/etc/kubernetes"); err == nil {
				t.Errorf("listed %q", names)
			}
			if err := l.WriteFile(t.Context(), at, []byte("theirs"), 0o600); err == nil {
				t.Error("it was written")
			}
			if err := l.WriteFile(t.Context(), "/etc/kubernetes/new", []byte("theirs"), 0o600); err == nil {
				t.Error("another was written")
			}
			if err := l.Remove(t.Context(), at); err == nil {
				t.Error("it was removed")
			}
			if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
				t.Errorf("outside there is %v, %v", names, err)
			}
			if data, err := os.ReadFile(filepath.Join(outside, "mine")); err != nil || string(data) != "mine" {
				t.Errorf("the file outside: %q, %v", data, err)
			}
		})
	}
}
