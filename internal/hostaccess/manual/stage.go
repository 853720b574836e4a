package manual

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// stagePrefix names the directories of files that wait to be copied. Each is locked by the process that made it for as
// long as that lives.
const stagePrefix = "manual-"

// console is what the manual hosts of one command share.
type console struct {
	Options

	mu         sync.Mutex
	introduced bool
	number     int
}

// introduction is printed once.
func (c *console) introduction() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.introduced {
		return nil
	}
	c.introduced = true
	out := []string{
		"transplant changes nothing on a host itself. Paste each block like this one, unchanged, into a shell that reaches the hosts, or do the same in another way.",
		"It waits for as long as that takes. Ctrl-C stops it; the same command goes on where it stopped and prints what is still to do.",
	}
	if c.Unattended {
		out = append(
			out,
			"There is no terminal here: transplant waits all the same, until the commands are run.",
		)
	}
	return out
}

// print writes a block at once: two hosts may be worked on side by side.
func (c *console) print(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := io.WriteString(c.Out, text)
	return err
}

// staged are the files of one block, by the number of their change.
type staged struct {
	dir   string
	lock  *os.File
	files map[int]string
}

// stage writes what is to be copied to a host into a directory that only this user may enter.
func (c *console) stage(host string, queue []*change) (*staged, error) {
	s := &staged{files: map[int]string{}}
	for i, ch := range queue {
		if ch.kind != changeWrite {
			continue
		}
		if s.dir == "" {
			if err := s.open(c.StateDir); err != nil {
				return s, fmt.Errorf("staging files for host %s: %w", host, err)
			}
		}
		c.mu.Lock()
		c.number++
		name := strconv.Itoa(c.number) + "-" + path.Base(ch.path)
		c.mu.Unlock()
		at := filepath.Join(s.dir, name)
		if err := os.WriteFile(at, ch.data, 0o600); err != nil {
			return s, fmt.Errorf(
				"staging %s for host %s: %w: free some space, or name another directory with --state-dir, and run the same command again; nothing was changed",
				ch.path,
				host,
				err,
			)
		}
		s.files[i] = at
	}
	return s, nil
}

// open makes the directory, and takes away those that killed processes left.
func (s *staged) open(parent string) error {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return err
	}
	sweepStages(parent)
	for {
		dir, err := os.MkdirTemp(parent, stagePrefix) // 0700
		if err != nil {
			return err
		}
		lock, err := os.Open(dir)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(dir); hostaccess.TryLockFile(lock) && err == nil {
			s.dir, s.lock = dir, lock
			return nil
		}
		_ = lock.Close() // another process took it for a left-over
	}
}

// sweepStages is a courtesy: what hinders it hinders nothing else.
func sweepStages(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), stagePrefix) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		if hostaccess.TryLockFile(f) {
			_ = os.RemoveAll(dir)
		}
		_ = f.Close()
	}
}

// remove takes the files away, whatever became of them.
func (s *staged) remove() {
	if s.dir == "" {
		return
	}
	_ = os.RemoveAll(s.dir)
	_ = s.lock.Close()
}
