package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

func TestRunHandsOverInputAndEnvironmentAndNothingElse(t *testing.T) {
	l := newHost(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	put(t, l, "/opt/bin/plugin", "#!/bin/sh\nread line; echo \"$line|$1|$REGION|$AWS_SECRET_ACCESS_KEY|$(pwd -P)\"; echo noise >&2\n", 0o755)
	out, err := l.Run(t.Context(), hostaccess.Command{Path: "/opt/bin/plugin", Args: []string{"get"}, Env: []string{"REGION=r1"}, Stdin: []byte("hello\n")})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), "hello|get|r1||"+l.Dir+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunTellsNothingOfWhatAProgramSaid(t *testing.T) {
	l := newHost(t)
	put(t, l, "/opt/bin/plugin", "#!/bin/sh\necho hunter2; echo hunter2 >&2; exit 3\n", 0o755)
	out, err := l.Run(t.Context(), hostaccess.Command{Path: "/opt/bin/plugin"})
	if err == nil || len(out) != 0 || err.Error() != "running /opt/bin/plugin on host cp-1: exit status 3" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestRunEndsInTime(t *testing.T) {
	l := newHost(t)
	put(t, l, "/plugin", "#!/bin/sh\nsleep 1000\n", 0o755)
	_, err := l.Run(t.Context(), hostaccess.Command{Path: "/plugin", Timeout: 100 * time.Millisecond})
	if err == nil || !strings.HasSuffix(err.Error(), "no answer in 100ms") {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = l.Run(ctx, hostaccess.Command{Path: "/plugin"}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestRunBoundsTheAnswer(t *testing.T) {
	l := newHost(t)
	put(t, l, "/plugin", "#!/bin/sh\nhead -c 3000000 /dev/zero\n", 0o755)
	if _, err := l.Run(t.Context(), hostaccess.Command{Path: "/plugin"}); err == nil || !strings.HasSuffix(err.Error(), "it wrote more than 1 MiB") {
		t.Errorf("err = %v", err)
	}
}

func TestRunRefusesWhatIsNoProgramOfTheHost(t *testing.T) {
	l := newHost(t)
	put(t, l, "/plain", "#!/bin/sh\n", 0o644)
	if err := os.Symlink("/bin/true", filepath.Join(l.Dir, "outside")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), hostaccess.Command{Path: "/absent"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	for _, path := range []string{"/plain", "/outside", "relative", "/../x", "/"} {
		if _, err := l.Run(t.Context(), hostaccess.Command{Path: path}); err == nil {
			t.Errorf("%s was run", path)
		}
	}
}

func TestDigestIsOfAFileOfAnySize(t *testing.T) {
	l := newHost(t)
	put(t, l, "/small", "abc", 0o755)
	sum, mode, err := hostaccess.Digest(t.Context(), l, "/small")
	if err != nil || sum != hostaccess.SHA256([]byte("abc")) || mode.Perm() != 0o755 {
		t.Errorf("got %s, %v, %v", sum, mode, err)
	}
	big := filepath.Join(l.Dir, "big")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ReadFile(t.Context(), "/big"); err == nil {
		t.Fatal("the file is not too large to be read")
	}
	if sum, _, err = hostaccess.Digest(t.Context(), l, "/big"); err != nil || len(sum) != 64 {
		t.Errorf("got %s, %v", sum, err)
	}
	if _, _, err = hostaccess.Digest(t.Context(), l, "/absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestDigestReadsWhereAHostCannotTell(t *testing.T) {
	l := newHost(t)
	put(t, l, "/small", "abc", 0o600)
	sum, mode, err := hostaccess.Digest(t.Context(), struct{ hostaccess.Host }{l}, "/small")
	if err != nil || sum != hostaccess.SHA256([]byte("abc")) || mode != 0o600 {
		t.Errorf("got %s, %v, %v", sum, mode, err)
	}
}

func TestALocalHostHasThisMachinesClock(t *testing.T) {
	if offset, uncertainty, err := newHost(t).Offset(t.Context()); offset != 0 || uncertainty != 0 || err != nil {
		t.Errorf("got %s, %s, %v", offset, uncertainty, err)
	}
}
