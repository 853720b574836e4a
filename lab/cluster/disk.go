package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// diskDirs are where a migration writes to a host.
var diskDirs = []string{"etc/kubernetes", "var/lib/kubelet"}

// filler is the file that fills a disk.
const filler = ".filled"

// mountDisk gives a host file systems of their own; nothing for no size.
func mountDisk(h *Host, size int64) error {
	if size == 0 {
		return nil
	}
	for _, dir := range diskDirs {
		at := filepath.Join(h.Dir, dir)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return fmt.Errorf("making %q: %w", at, err)
		}
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, "mode=0755,size="+strconv.FormatInt(size, 10)); err != nil {
			return fmt.Errorf("mounting a file system of %d bytes on %q: %w", size, at, err)
		}
	}
	return nil
}

func unmountDisk(h *Host) error {
	var errs []error
	for _, dir := range diskDirs {
		err := unix.Unmount(filepath.Join(h.Dir, dir), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // not mounted, or never made
			errs = append(errs, fmt.Errorf("unmounting /%s of host %q: %w", dir, h.Name, err))
		}
	}
	return errors.Join(errs...)
}

// leaveDisks unmounts what a lab that was killed has left below its directory of hosts.
func leaveDisks(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || filepath.Base(dir) != "hosts" {
		return
	}
	for _, e := range entries {
		_ = unmountDisk(&Host{Name: e.Name(), Dir: filepath.Join(dir, e.Name())}) // RemoveAll says what is still in the way
	}
}

// HasDisks reports whether the hosts have file systems of their own, which FillDisk can fill.
func (c *Cluster) HasDisks() bool { return c.opts.DiskSize > 0 }

// FillDisk leaves no byte free on a host's file systems; the returned function frees them again. Whatever writes there
// meanwhile gets ENOSPC.
func (c *Cluster) FillDisk(h *Host) (free func() error, err error) {
	if !c.HasDisks() {
		return nil, fmt.Errorf("host %q has no file system of its own: start the lab with the option DiskSize", h.Name)
	}
	free = func() error {
		var errs []error
		for _, dir := range diskDirs {
			errs = append(errs, os.Remove(filepath.Join(h.Dir, dir, filler)))
		}
		return errors.Join(errs...)
	}
	for _, dir := range diskDirs {
		f, err := os.OpenFile(filepath.Join(h.Dir, dir, filler), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return free, fmt.Errorf("filling the disk of host %q: %w", h.Name, err)
		}
		_, err = io.Copy(f, endless{})
		closing := f.Close()
		if !errors.Is(err, unix.ENOSPC) {
			return free, fmt.Errorf(
				"filling the disk of host %q: it takes any number of bytes (%w)",
				h.Name,
				errors.Join(err, closing),
			)
		}
	}
	return free, nil
}

// endless is as many bytes as anybody wants.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
