package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// envContainer holds what RunContainer is to do.
const envContainer = "LAB_KUBELET_CONTAINER"

// containerDir is where the root of each isolated container is mounted, in its own namespace.
const containerDir = "run/lab-container"

// isolation is how an isolated container sees its files.
type isolation struct {
	Program string
	Host    string // name of the pod, which is its host's name: what sidecars elect their leaders by
	Dir     string // of the overlay
	Mounts  []isolatedMount
}

type isolatedMount struct{ Inside, Outside string }

// isolate has a command started in namespaces of its own, for mounts and for the host's name, by way of RunContainer in
// the lab's own program.
func (e *engine) isolate(cmd *exec.Cmd, host string, mounts []mount) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the lab's own program: %w", err)
	}
	what := isolation{Program: cmd.Path, Host: host, Dir: filepath.Join(e.hostDir, containerDir)}
	if err := os.MkdirAll(what.Dir, 0o755); err != nil {
		return fmt.Errorf("making the container's directory: %w", err)
	}
	for _, m := range mounts {
		what.Mounts = append(what.Mounts, isolatedMount{m.inside, m.outside})
	}
	slices.Reverse(what.Mounts) // what lies in another comes behind it
	data, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encoding the container's mounts: %w", err)
	}
	cmd.Path, cmd.Env = self, append(slices.Clone(cmd.Env), envContainer+"="+string(data))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS}
	return nil
}

// RunContainer becomes the program of an isolated container when the process was started as one, and does not return
// then. It has to be called first in main.
//
// The container sees this machine's files under an overlay of its own, with its volumes where its pod wants them.
// Everything is in namespaces that were made for the process: it ends with the process, and nothing of it is seen
// outside.
func RunContainer() {
	text, ok := os.LookupEnv(envContainer)
	if !ok {
		return
	}
	var what isolation
	err := json.Unmarshal([]byte(text), &what)
	if err == nil {
		err = what.enter()
	}
	if err == nil {
		env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, envContainer+"=") })
		err = syscall.Exec(what.Program, os.Args, env) //nolint:gosec // what the lab's kubelet asks for
	}
	fmt.Fprintf(os.Stderr, "starting %s in a container: %v\n", what.Program, err) //nolint:forbidigo // it stands for main
	os.Exit(1)                                                                    //nolint:forbidigo // it stands for main
}

// enter makes the container's root and goes there.
func (i isolation) enter() error {
	if err := unix.Sethostname([]byte(i.Host)); err != nil {
		return fmt.Errorf("naming the host %q: %w", i.Host, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts from this machine: %w", err)
	}
	if err := unix.Mount("tmpfs", i.Dir, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting %q: %w", i.Dir, err)
	}
	upper, work, root := filepath.Join(i.Dir, "upper"), filepath.Join(i.Dir, "work"), filepath.Join(i.Dir, "root")
	for _, dir := range []string{upper, work, root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mounting overlay: %w", err)
	}
	// The sources are opened before the root is another one, and reached by their descriptors behind that.
	sources := map[string]int{}
	mounts := slices.Concat(
		[]isolatedMount{
			{"/proc", "/proc"},
			{"/sys", "/sys"},
			{"/dev", "/dev"},
			{filepath.Dir(i.Program), filepath.Dir(i.Program)},
		},
		i.Mounts,
	)
	for _, m := range mounts {
		fd, err := unix.Open(m.Outside, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening %q: %w", m.Outside, err)
		}
		sources[m.Outside] = fd
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for _, m := range mounts {
		if err := bind(sources[m.Outside], m); err != nil {
			return fmt.Errorf("mounting %q on %q: %w", m.Outside, m.Inside, err)
		}
	}
	return nil
}

// bind mounts what a descriptor stands for, with everything below it.
func bind(source int, m isolatedMount) error {
	var stat unix.Stat_t
	if err := unix.Fstat(source, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := os.MkdirAll(m.Inside, 0o755); err != nil {
			return err
		}
	} else if err := os.MkdirAll(filepath.Dir(m.Inside), 0o755); err != nil {
		return err
	} else if f, err := os.OpenFile(m.Inside, os.O_CREATE|os.O_EXCL, 0o644); err == nil {
		_ = f.Close() // nothing was written
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	tree, err := unix.OpenTree(
		source,
		"",
		unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC,
	)
	if err != nil {
		return fmt.Errorf("cloning the mount: %w", err)
	}
	defer func() { _ = unix.Close(tree) }()
	return unix.MoveMount(tree, "", unix.AT_FDCWD, m.Inside, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
}
