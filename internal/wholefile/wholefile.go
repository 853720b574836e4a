// Package wholefile writes a file of this machine so that a reader sees the old one or the new one, never a part.
package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts a new file in the place of what is at path. After an error the old file is there as it was. A device or a
// pipe, such as /dev/stdout, is written to.
func Write(path string, data []byte, mode fs.FileMode) error {
	if inPlace, err := look(path); err != nil {
		return err
	} else if inPlace {
		return writeInPlace(path, data)
	}
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

// look reports whether what is at path is no file, and is written to. It refuses links to files: another user of a
// directory such as /tmp could have root replace a file of the system.
func look(path string) (inPlace bool, err error) {
	info, err := os.Stat(path)
	if link, linkErr := os.Readlink(path); linkErr == nil && (err != nil || info.Mode().IsRegular()) {
		return false, fmt.Errorf("writing %s: it is a link to %s: name that file itself", path, link)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("writing %s: %w", path, err)
	case info.IsDir():
		return false, fmt.Errorf("writing %s: it is a directory", path)
	}
	return !info.Mode().IsRegular(), nil
}

func writeInPlace(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w; a part of it may have been written", path, err)
	}
	return nil
}

// Check says why Write could not put a file at path: what is to be written may take minutes to read.
func Check(path string) error {
	if inPlace, err := look(path); err != nil || inPlace {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".transplant-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
