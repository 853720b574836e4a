package local

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestWhatIsRefusedToRootNamesWhoMayHaveRefusedIt(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	for _, refusal := range []error{syscall.EACCES, syscall.EPERM} {
		l := newHost(t)
		put(t, l, "/etc/f", "old", 0o644)
		l.write = func(*os.File, []byte) (int, error) { return 0, refusal }
		err := l.WriteFile(t.Context(), "/etc/f", []byte("new"), 0o644)
		for _, part := range []string{"writing /etc/f on host cp-1: it was refused to root; nothing was changed", "SELinux or AppArmor", "lsattr", "run the same command again"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v: the error does not say %q: %v", refusal, part, err)
			}
		}
		if !errors.Is(err, fs.ErrPermission) || get(t, l, "/etc/f") != "old" {
			t.Errorf("%v: error %v, content %q", refusal, err, get(t, l, "/etc/f"))
		}
	}
}
