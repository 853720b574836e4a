package manual

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/transplant-dev/transplant/internal/hostaccess/local"
)

// newMachine is a host in a directory of its own.
func newMachine(t *testing.T) *local.Host {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cp-1")
	if err := os.MkdirAll(filepath.Join(dir, "etc/kubernetes/manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := local.New("cp-1", dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func writeTo(t *testing.T, l *local.Host, path, text string, mode os.FileMode) string {
	t.Helper()
	at := filepath.Join(l.Dir, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at, mode); err != nil {
		t.Fatal(err)
	}
	return at
}

func readFrom(t *testing.T, l *local.Host, path string) string {
	t.Helper()
	f, err := l.ReadFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return string(f.Data)
}

// listTree lists every file and directory of a host but its root.
func listTree(t *testing.T, l *local.Host) []string {
	t.Helper()
	var out []string
	err := filepath.Walk(l.Dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != l.Dir {
			name := strings.TrimPrefix(path, l.Dir)
			if info.IsDir() {
				name += "/"
			}
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
