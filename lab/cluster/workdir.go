package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// markFile marks a directory as a lab's and is locked while that lab runs.
const markFile = ".transplant-lab"

// workDir is the directory of a lab, held by this process.
type workDir struct{ lock *os.File }

// takeDir makes dir an empty directory of this lab. What an earlier lab left is removed; anything else is not touched.
func takeDir(dir string) (*workDir, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the lab's directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the lab's directory: %w", err)
	}
	mark := filepath.Join(dir, markFile)
	if _, err := os.Stat(mark); len(entries) > 0 && err != nil {
		return nil, fmt.Errorf("directory %q has other content than a lab's: choose another one, or empty it", dir)
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("marking the lab's directory: %w", err)
	}
	w := &workDir{lock: f}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		w.release()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("a lab is running in %q: stop it, or choose another directory", dir)
		}
		return nil, fmt.Errorf("locking %q: %w", mark, err)
	}
	for _, e := range entries {
		if e.Name() == markFile {
			continue
		}
		leaveDisks(filepath.Join(dir, e.Name()))
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			w.release()
			return nil, fmt.Errorf("removing what an earlier lab left: %w", err)
		}
	}
	return w, nil
}

func (w *workDir) release() { _ = w.lock.Close() } // closing the only descriptor drops the lock
