package build

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// explain says what to do about the errors that come from the machine and not from the sources.
func explain(err error, cacheDir string) error {
	switch {
	case isFull(err):
		return fmt.Errorf("no space is left%s: free about 3 GB (the Go build cache needs most of it), "+
			"or choose another cache directory than %q: %w", free(cacheDir), cacheDir, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf(
			"cache directory %q cannot be written: change its permissions or choose another one: %w",
			cacheDir,
			err,
		)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("cache directory %q lies below a file: choose another one: %w", cacheDir, err)
	}
	return err
}

// free says how much is left on the file system of dir, or nothing if that cannot be told.
func free(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	return fmt.Sprintf(" (%d MB free)", st.Bavail*uint64(st.Bsize)>>20)
}
