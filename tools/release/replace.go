package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// mayReplace refuses a directory with other things in it than an earlier release.
func mayReplace(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the directory for the release: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, sumsFile)); err != nil {
		return fmt.Errorf(
			"%s has files and no %s, so that it is none of an earlier release: name another directory with --out",
			dir, sumsFile,
		)
	}
	return nil
}

// replace moves a whole directory to its place. What was there is kept until then, so that a crash leaves either.
func replace(whole, dir, before string) error {
	err := os.Rename(dir, before)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing the release of before: %w", err)
	}
	if err := os.Rename(whole, dir); err != nil {
		if back := os.Rename(before, dir); back != nil && !errors.Is(back, fs.ErrNotExist) {
			err = errors.Join(err, back)
		}
		return fmt.Errorf("moving the release to its place: %w", err)
	}
	return nil
}
