package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// MountedRoot is a machine whose own root file system is mounted in a directory of this process, as in a pod. Or parts
// of it are mounted, at their paths below that directory.
type MountedRoot struct {
	// Name of the machine, for messages.
	Name string
	// Dir is where the machine's root is.
	Dir string
	// Parts are the directories that are mounted, absolute on the machine and free of symbolic links; nil when everything
	// is. What lies outside of them is an error and never absent.
	Parts []string
	// Refused is what to do where this process is not allowed to do something though it is root.
	Refused string
}

// Machine is what can be done with a Whole.
type Machine interface {
	hostaccess.Host
	hostaccess.Units
	hostaccess.Executor
	hostaccess.Digester
	// Place tells where a file really is and what has to be mounted to replace it.
	Place(ctx context.Context, path string) (Place, error)
}

// Place is where a file is, behind all symbolic links.
type Place struct {
	// Path is absolute on the machine. The file need not exist.
	Path string `json:"path"`
	// Dir is the innermost existing directory in which everything happens when the file is replaced. It is the file's own,
	// or the one above a directory of manifests, for temporary files.
	Dir string `json:"dir"`
}

// OpenMounted returns the machine. Its programs are run in its own root. Its processes are those in the network
// namespace of this process' PID 1, so this process has to see the machine's processes.
func OpenMounted(w MountedRoot) (Machine, error) {
	if !isDirectory(w.Dir) {
		return nil, fmt.Errorf("root of host %q: %s is not a directory", w.Name, w.Dir)
	}
	l := &Host{
		name:    w.Name,
		Dir:     filepath.Clean(w.Dir),
		write:   (*os.File).Write,
		proc:    "/proc",
		restart: restartTimeout,
	}
	l.whole, l.parts, l.refused = true, w.Parts, w.Refused
	return l, nil
}

// maxHops bounds how many symbolic links a path on a whole machine goes through, as Linux does.
const maxHops = 40

// real follows the symbolic links of a path as the machine does whose root this is: an absolute link means that
// machine's path. With final the last element is followed, too. From the first element that does not exist, the path is
// what it says.
func (l *Host) real(root *os.Root, inside string, final bool) (string, error) {
	at, rest, hops := ".", split(inside), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		info, err := root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			at = strings.TrimPrefix(path.Join(append([]string{"/", next}, rest...)...), "/")
			break
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 || len(rest) == 0 && !final {
			at = next
			continue
		}
		if hops++; hops > maxHops {
			return "", &fs.PathError{Op: "open", Path: "/" + inside, Err: syscall.ELOOP}
		}
		to, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(to) {
			at = "."
		}
		rest = append(split(to), rest...)
	}
	if !l.isMounted(at) {
		return "", fmt.Errorf("/%s is reached through /%s: %w", strings.TrimPrefix(inside, "/"), at, ErrOutside)
	}
	return at, nil
}

// split returns the elements of a path. A ".." stays: behind a symbolic link it means the directory above the link's
// target.
func split(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" || s == "." })
}

// isMounted reports whether a path, relative to the root, is in what is mounted.
func (l *Host) isMounted(inside string) bool {
	return l.parts == nil ||
		slices.ContainsFunc(l.parts, func(part string) bool { return Within(part, path.Join("/", inside)) })
}

// Within reports whether a clean absolute path is a directory or lies in it.
func Within(dir, p string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// Place implements Machine.
func (l *Host) Place(ctx context.Context, p string) (Place, error) {
	root, inside, err := l.through(ctx, p)
	if err != nil {
		return Place{}, err
	}
	defer root.Close() //nolint:errcheck // a directory that was read
	dir := path.Dir(orDot(inside))
	if info, err := root.Stat(orDot(inside)); err == nil && info.IsDir() {
		dir = orDot(inside)
	}
	for {
		info, err := root.Stat(dir)
		if err == nil && !info.IsDir() {
			return Place{}, l.explain("writing", p, fmt.Errorf("/%s is not a directory", dir))
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Place{}, l.explain("writing", p, err)
		}
		dir = path.Dir(dir)
	}
	if path.Base(dir) == manifests {
		dir = path.Dir(dir)
	}
	return Place{Path: path.Join("/", inside), Dir: path.Join("/", dir)}, nil
}

// isOwnProcess reports whether a process is one of this machine's own. On a whole machine that is one in the network
// namespace of its PID 1. Components in pods of the host's network are, workloads of the same name with a network of
// their own are not. The kernel gives each namespace's directory of network files its own numbers, which may be read
// without the rights of a debugger.
func (l *Host) isOwnProcess(root *os.Root, thread string) (bool, error) {
	if !l.whole {
		cwd, err := root.Readlink(path.Join(thread, "cwd"))
		return err == nil && cwd == l.Dir, err
	}
	own, err := os.Stat(filepath.Join(l.proc, "1", "net", "dev"))
	if err != nil {
		return false, fmt.Errorf("looking at the network of process 1: %v", err) //nolint:errorlint // it has not ended
	}
	its, err := root.Stat(path.Join(thread, "net", "dev"))
	if errors.Is(err, syscall.EINVAL) { // it is being taken down
		err = fs.ErrNotExist
	}
	return err == nil && os.SameFile(own, its), err
}
