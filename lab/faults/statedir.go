package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fillLogs puts a file system without a free byte in the place of every cluster's ownership logs; the returned function
// takes it away again, and what was there before is there again. It needs root.
func fillLogs(stateDir string) (restore func(), err error) {
	dirs, err := filepath.Glob(filepath.Join(stateDir, "*", "*.ownership.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("looking for ownership logs: %w", err)
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("there is no ownership log in %s whose disk could be full", stateDir)
	}
	mounted := map[string]bool{}
	restore = func() {
		for dir := range mounted {
			_ = unix.Unmount(dir, unix.MNT_DETACH) // the next run says what is wrong with it
		}
	}
	for _, log := range dirs {
		dir := filepath.Dir(log)
		if mounted[dir] {
			continue
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size=4096"); err != nil {
			restore()
			return nil, fmt.Errorf("mounting a small file system on %s: %w", dir, err)
		}
		mounted[dir] = true
		if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 8192), 0o600); !errors.Is(err, unix.ENOSPC) {
			restore()
			return nil, fmt.Errorf("filling %s: it takes more than it has (%w)", dir, err)
		}
	}
	return restore, nil
}
