package hostaccess

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// RelativePath makes an absolute path one that is relative to the host's root.
func RelativePath(p string) (string, error) {
	if !strings.HasPrefix(p, "/") {
		return "", fmt.Errorf("path %q is not absolute", p)
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return "", fmt.Errorf("path %q goes upwards with \"..\", which is not allowed", p)
	}
	if strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("path %q holds a NUL", p)
	}
	return strings.TrimPrefix(path.Clean(p), "/"), nil
}

// CheckUnitName is what systemd takes for the name of a unit, and no option.
var CheckUnitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]*$`)

// TryLockFile reports whether the lock of a file was taken. It does not wait for who holds it.
func TryLockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
