package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	binDir   = "bin"      // the programs of a set
	sizeFile = "set.json" // their sizes: a truncated program is seen without reading it
	lockPoll = 200 * time.Millisecond
)

// cache is the directory of finished sets:
//
//	sets/<id>-<key>/bin/<program>   a complete set
//	sets/<id>-<key>/set.json        the size of each program
//	building/<id>-<key>-*/          a build under way, or what a killed one left; removed by the next
//	locks/<id>-<key>                held while a set is built
type cache struct{ dir string }

// lookup returns the directory of a set if it is complete and none of its programs was removed or cut short since.
func (c cache) lookup(s Set, key string) (string, bool) {
	dir := c.final(s, key)
	data, err := os.ReadFile(filepath.Join(dir, sizeFile))
	if err != nil {
		return "", false
	}
	sizes := map[string]int64{}
	if json.Unmarshal(data, &sizes) != nil {
		return "", false
	}
	for _, cmd := range s.Commands {
		info, err := os.Stat(filepath.Join(dir, binDir, cmd.Name))
		if err != nil || info.Size() != sizes[cmd.Name] || info.Mode()&0o100 == 0 {
			return "", false
		}
	}
	return dir, true
}

// lock waits until this process is the only one that may build the set, and returns what ends that.
func (c cache) lock(ctx context.Context, s Set, key string, progress io.Writer) (func(), error) {
	dir := filepath.Join(c.dir, "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating cache directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, s.ID()+"-"+key), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening build lock: %w", err)
	}
	unlock := func() { _ = f.Close() } // closing the only descriptor releases the lock
	told := false
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			unlock()
			return nil, fmt.Errorf("locking %q: %w", f.Name(), err)
		}
		if !told {
			told = true
			fmt.Fprintf(progress, "%s: another process is building it, waiting\n", s.label())
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, fmt.Errorf("waiting for another process that builds: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// publish runs build in an empty directory and, only if it succeeds, makes the result the set. The caller holds the
// lock.
func (c cache) publish(s Set, key string, build func(work string) error) (string, error) {
	building := filepath.Join(c.dir, "building")
	for _, dir := range []string{building, filepath.Join(c.dir, "sets")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", fmt.Errorf("creating cache directory: %w", err)
		}
	}
	prefix := s.ID() + "-" + key + "-"
	if err := removeLeftovers(building, prefix); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(building, prefix)
	if err != nil {
		return "", fmt.Errorf("creating build directory: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // what stays is removed by the next build of the set

	if err := build(work); err != nil {
		return "", err
	}
	result := filepath.Join(work, "result")
	if err := writeSizes(s, result); err != nil {
		return "", err
	}
	final := c.final(s, key)
	if err := os.RemoveAll(final); err != nil { // an incomplete one: lookup said so
		return "", fmt.Errorf("removing damaged set: %w", err)
	}
	if err := os.Rename(result, final); err != nil {
		return "", fmt.Errorf("publishing set: %w", err)
	}
	return final, nil
}

func (c cache) final(s Set, key string) string {
	return filepath.Join(c.dir, "sets", s.ID()+"-"+key)
}

// writeSizes records the sizes of the programs next to them; every program of the set must be there.
func writeSizes(s Set, result string) error {
	sizes := map[string]int64{}
	for _, cmd := range s.Commands {
		info, err := os.Stat(filepath.Join(result, binDir, cmd.Name))
		if err != nil {
			return fmt.Errorf("checking program %q after the build: %w", cmd.Name, err)
		}
		sizes[cmd.Name] = info.Size()
	}
	data, err := json.MarshalIndent(sizes, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding program sizes: %w", err)
	}
	if err := os.WriteFile(filepath.Join(result, sizeFile), data, 0o644); err != nil {
		return fmt.Errorf("recording program sizes: %w", err)
	}
	return nil
}

// removeLeftovers removes the directories of earlier builds of the same set that were killed.
func removeLeftovers(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("looking for interrupted builds: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("removing interrupted build: %w", err)
		}
	}
	return nil
}
