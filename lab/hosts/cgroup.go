package hosts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/lab/poll"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies lists the mounted control group hierarchies of version 1, and the one of version 2 next to them.
func hierarchies() ([]string, error) {
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("listing control group hierarchies: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(cgroupRoot, e.Name()))
		}
	}
	return out, nil
}

// makeCgroups makes groups in every hierarchy, parents first. A kubelet needs a root of its own, or it removes the pods
// of the others; a group without processors and memory nodes takes no process.
func makeCgroups(groups ...string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range all {
		for _, group := range groups {
			dir := filepath.Join(hierarchy, group)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making control group: %w", err)
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return fmt.Errorf("reading %s: %w", file, err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
					return fmt.Errorf("writing %s of control group %s: %w", file, group, err)
				}
			}
		}
	}
	return nil
}

// hostShares is how much of a busy processor a host is given, against 1024 of a session of the machine. What runs in a
// cluster's pods shares one group, whose weight would be that of a single session else, and managers would lose their
// leases to any compiler next to them: a real host has processors of its own.
const hostShares = 32768

// weigh gives a cluster's group the weight of all of its hosts.
func weigh(group string, hosts int) error {
	file := filepath.Join(cgroupRoot, "cpu", group, "cpu.shares")
	err := os.WriteFile(file, []byte(strconv.Itoa(hosts*hostShares)), 0o644)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a machine without that controller has other reasons to be slow
		return fmt.Errorf("weighing control group %s: %w", group, err)
	}
	return nil
}

// removeCgroups removes a group and those below it from every hierarchy. The processes in them have been killed and are
// about to go.
func removeCgroups(ctx context.Context, group string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	return poll.Until(ctx, 50*time.Millisecond, "control groups of "+group+" to empty", func(context.Context) error {
		var problems []error
		for _, hierarchy := range all {
			problems = append(problems, removeTree(filepath.Join(hierarchy, group)))
		}
		return errors.Join(problems...)
	})
}

// removeTree removes empty directories, the deepest first.
func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("looking for control groups: %w", err)
	}
	slices.SortFunc(dirs, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, dir := range dirs {
		if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("removing control group %s: %w", dir, err)
		}
	}
	return nil
}
