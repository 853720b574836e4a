package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

var (
	// ErrNotRegular says that something is neither a file nor absent: a directory, a device.
	ErrNotRegular = errors.New("it is not a regular file")
	// ErrOutside says that a path is not in what an access was opened for, so that nothing is known of it.
	ErrOutside = errors.New("it is outside of what is mounted for this access")

	errAbsolute = errors.New(
		"it is a symbolic link to an absolute path, which could leave the host: name the file that it leads to",
	)
	errLeaves = errors.New(
		"a symbolic link in the path leads out of the host's directory, or to an absolute path that could; name its target instead",
	)
)

// explain names the object, the place and, where there is one, the way out. It is used where nothing has been changed
// yet, and keeps the system's error underneath.
func (l *Host) explain(doing, path string, err error) error {
	at := path + " on host " + l.name
	switch {
	case errors.Is(err, fs.ErrNotExist) && doing != "writing":
		return fmt.Errorf("%s %s: %w", doing, at, err)
	case strings.Contains(err.Error(), "path escapes from parent"): // the library has no name for it
		return fmt.Errorf("%s %s: %w (%w)", doing, at, errLeaves, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf(
			"no space left on host %s for %s: free some space and run the same command again; nothing was changed (%w)",
			l.name,
			path,
			err,
		)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf(
			"%s %s: the file system is read-only: make it writable and run the same command again; nothing was changed (%w)",
			doing,
			at,
			err,
		)
	case errors.Is(err, fs.ErrPermission) && l.refused != "":
		return fmt.Errorf("%s %s: it was refused to root%s: %s (%w)", doing, at, unchanged(doing), l.refused, err)
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() == 0:
		return fmt.Errorf("%s %s: it was refused to root%s: %s (%w)", doing, at, unchanged(doing), refusedToRoot, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf(
			"%s %s: user id %d is not allowed to: run the same command again as a user who is (most often root)%s (%w)",
			doing,
			at,
			os.Geteuid(),
			unchanged(doing),
			err,
		)
	default:
		return fmt.Errorf("%s %s: %w", doing, at, err)
	}
}

// refusedToRoot is what refuses something to root, and where that is written down.
const refusedToRoot = "SELinux or AppArmor, or an attribute of the file, may refuse it; look with \"ausearch -m avc -ts recent\", \"journalctl -k -g apparmor\" and \"lsattr\" on that host, " +
	"allow it there, and run the same command again"

func unchanged(doing string) string {
	if doing == "writing" || doing == "removing" {
		return "; nothing was changed"
	}
	return ""
}
