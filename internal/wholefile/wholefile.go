// Package wholefile writes a file of this machine so that a reader sees the old one or the new one, never a part.
package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts a new file in the place of what is at path. After an error the old file is there as it was.
func Write(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".transplant-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it was renamed, or it is no good
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w; nothing of it was written", path, err)
	}
	return nil
}

// Check says why Write could not put a file at path: what is to be written may take minutes to read.
func Check(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("writing %s: it is a directory", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".transplant-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
