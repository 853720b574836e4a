package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// links are the directories that are links into /usr, as Debian has them.
var links = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// copied are the machine's files that a host starts with; everything else below /etc is its own.
var copied = []string{
	"alternatives",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"ssl",
	"passwd",
	"group",
	"nsswitch.conf",
	"protocols",
	"services",
	"ca-certificates",
	"debian_version",
}

// enterRoot makes the host's root and moves this process into it. It must run in a mount namespace of its own.
func enterRoot(ctx context.Context, c Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := run(ctx, "mount", "-o", "loop", c.Disk, c.Root); err != nil {
		return err
	}
	if err := populate(ctx, c.Root); err != nil {
		return err
	}
	at := func(path string) string { return filepath.Join(c.Root, path) }
	overlay := fmt.Sprintf("lowerdir=%s:/usr,upperdir=%s,workdir=%s", c.Usr, c.Upper, c.Work)
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"overlay", at("/usr"), "overlay", 0, overlay},
		{"proc", at("/proc"), "proc", 0, ""},
		{"sysfs", at("/sys"), "sysfs", 0, ""},
		{"/sys/fs/cgroup", at("/sys/fs/cgroup"), "", unix.MS_BIND | unix.MS_REC, ""},
		{"/dev", at("/dev"), "", unix.MS_BIND | unix.MS_REC, ""},
		{"tmpfs", at("/run"), "tmpfs", 0, "mode=755,size=64m"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", m.source, m.target, err)
		}
	}
	for path, source := range c.Data {
		if err := os.MkdirAll(at(path), 0o755); err != nil {
			return fmt.Errorf("making directory for data: %w", err)
		}
		if err := unix.Mount(source, at(path), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", source, at(path), err)
		}
	}
	return pivot(c.Root)
}

// pivot makes root the root directory of this mount namespace, shared so that the mounts of the host reach its pods.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("entering root: %w", err)
	}
	if err := os.MkdirAll(".old", 0o700); err != nil {
		return fmt.Errorf("making room for the old root: %w", err)
	}
	if err := unix.PivotRoot(".", ".old"); err != nil {
		return fmt.Errorf("changing root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("entering root: %w", err)
	}
	if err := unix.Unmount("/.old", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving old root: %w", err)
	}
	if err := os.Remove("/.old"); err != nil {
		return fmt.Errorf("removing old root's place: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts: %w", err)
	}
	return nil
}

// populate fills an empty disk at the host's first boot.
func populate(ctx context.Context, root string) error {
	done := filepath.Join(root, "etc", "machine-id")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	for _, dir := range []string{
		"etc", "usr", "proc", "sys", "dev", "run", "tmp", "var/lib/kubelet", "var/log", "var/tmp", "root", "opt",
		"mnt", "srv",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("filling disk: %w", err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o1777|os.ModeSticky); err != nil {
		return fmt.Errorf("filling disk: %w", err)
	}
	for _, name := range links {
		target, err := os.Readlink("/" + name)
		if err != nil {
			continue // this machine has no such directory
		}
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil && !os.IsExist(err) {
			return fmt.Errorf("filling disk: %w", err)
		}
	}
	for _, name := range copied {
		if _, err := os.Lstat("/etc/" + name); err != nil {
			continue
		}
		if err := run(ctx, "cp", "-a", "/etc/"+name, filepath.Join(root, "etc")+"/"); err != nil {
			return err
		}
	}
	id := make([]byte, 16)
	if _, err := unix.Getrandom(id, 0); err != nil {
		return fmt.Errorf("making machine id: %w", err)
	}
	return os.WriteFile(done, fmt.Appendf(nil, "%x\n", id), 0o444)
}

// run runs a program of the machine and returns what it says when it fails.
func run(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w: %s", strings.Join(slices.Clip(argv), " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
