package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const usage = "use pod, none, manual[:WAY], local:DIR (each subdirectory with etc/kubernetes or var/lib/kubelet in it is a host) " +
	"or local:NAME=DIR,NAME=DIR"

// rootMarks are what tells a host's root directory from another directory.
var rootMarks = []string{"etc/kubernetes", "var/lib/kubelet"}

// Open understands "local:DIR" (every subdirectory of DIR that has etc/kubernetes or var/lib/kubelet is a host of that
// name) and "local:name=dir,name=dir". Hosts are sorted by name.
func Open(spec string) ([]hostaccess.Host, error) {
	rest, ok := strings.CutPrefix(spec, "local:")
	if !ok {
		return nil, fmt.Errorf("%q is no kind of host access: %s", spec, usage)
	}
	if rest == "" {
		return nil, fmt.Errorf("%q names no directory: %s", spec, usage)
	}
	dirs, err := pairs(rest)
	if err == nil && dirs == nil {
		dirs, err = subdirectories(rest)
	}
	if err != nil {
		return nil, err
	}
	var hosts []hostaccess.Host
	var problems []error
	for name, dir := range dirs {
		h, err := New(name, dir)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		hosts = append(hosts, h)
	}
	if len(problems) > 0 {
		slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(problems...)
	}
	slices.SortFunc(hosts, func(a, b hostaccess.Host) int { return strings.Compare(a.Name(), b.Name()) })
	if err := sameDirectories(hosts); err != nil {
		return nil, err
	}
	return hosts, nil
}

// pairs reads name=dir,name=dir; nil when it is one directory.
func pairs(list string) (map[string]string, error) {
	if !strings.Contains(list, "=") || isDirectory(list) {
		return nil, nil
	}
	dirs := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		name, dir, ok := strings.Cut(item, "=")
		switch {
		case !ok, name == "", dir == "":
			return nil, fmt.Errorf("%q is not NAME=DIR: %s", item, usage)
		case strings.ContainsAny(name, "/ \t"):
			return nil, fmt.Errorf("%q is no name of a host: %s", name, usage)
		case dirs[name] != "":
			return nil, fmt.Errorf("host %q is named twice (%s and %s): leave one of them out", name, dirs[name], dir)
		}
		dirs[name] = dir
	}
	return dirs, nil
}

// subdirectories finds the hosts under a directory.
func subdirectories(parent string) (map[string]string, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("looking for hosts in %q: %w", parent, err)
	}
	dirs := map[string]string{}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if slices.ContainsFunc(rootMarks, func(mark string) bool { return isDirectory(filepath.Join(dir, mark)) }) {
			dirs[e.Name()] = dir
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf(
			"no directory in %q has etc/kubernetes or var/lib/kubelet in it, so that there is no host: %s",
			parent,
			usage,
		)
	}
	return dirs, nil
}

// sameDirectories refuses two names of one machine: it would be edited twice.
func sameDirectories(hosts []hostaccess.Host) error {
	names := map[string]string{}
	for _, h := range hosts {
		dir := h.(*Host).Dir
		if other, ok := names[dir]; ok {
			return fmt.Errorf("hosts %q and %q are the same directory %s: leave one of them out", other, h.Name(), dir)
		}
		names[dir] = h.Name()
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
