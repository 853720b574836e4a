package csi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Disks are the contents of an account's volumes: a sparse file each, behind a loop device that is there as long as the
// lab.
type Disks struct {
	// Dir holds the files.
	Dir string

	mu     sync.Mutex
	closed bool
	loops  map[string]*os.File // by volume
}

// MakeDevices gives a host a /dev of its own.
func MakeDevices(hostDir string) error {
	if err := os.MkdirAll(filepath.Join(hostDir, byID), 0o755); err != nil {
		return err
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := makeNode(filepath.Join(hostDir, "dev", name), unix.S_IFCHR|0o666, 1, minor); err != nil {
			return err
		}
	}
	return nil
}

// byID is where udev names devices after what they are.
const byID = "dev/disk/by-id"

// linkOf is the name that EC2's NVMe driver and udev give the device of a volume, on its host.
func linkOf(volume string) string {
	return filepath.Join(byID, "nvme-Amazon_Elastic_Block_Store_"+strings.ReplaceAll(volume, "-", ""))
}

// makeNode makes a device's node unless it is there.
func makeNode(path string, mode, major, minor uint32) error {
	err := unix.Mknod(path, mode, int(unix.Mkdev(major, minor))) //nolint:gosec // device numbers are small
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making device %q (the lab needs root for machines that run pods): %w", path, err)
	}
	return nil
}

// Show puts a volume of so many GiB into the /dev of a host.
func (d *Disks) Show(volume string, size int, hostDir string) error {
	loop, err := d.loop(volume, int64(size)<<30)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(loop.Fd()), &stat); err != nil {
		return fmt.Errorf("reading device of volume %q: %w", volume, err)
	}
	name := fmt.Sprintf("nvme%dn1", unix.Minor(stat.Rdev))
	if err := makeNode(
		filepath.Join(hostDir, "dev", name),
		unix.S_IFBLK|0o600,
		unix.Major(stat.Rdev),
		unix.Minor(stat.Rdev),
	); err != nil {
		return err
	}
	link := filepath.Join(hostDir, linkOf(volume))
	if err := os.Symlink("../../"+name, link); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("naming device of volume %q: %w", volume, err)
	}
	return nil
}

// loop is the device behind which a volume's file is.
func (d *Disks) loop(volume string, size int64) (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("the account is closed")
	}
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making directory of volumes: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(d.Dir, volume+".img"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making volume %q: %w", volume, err)
	}
	defer func() { _ = file.Close() }() // the loop device has its own
	if err := file.Truncate(size); err != nil {
		return nil, fmt.Errorf("making volume %q: %w", volume, err)
	}
	if have := d.loops[volume]; have != nil { // it may have grown since
		if err := unix.IoctlSetInt(int(have.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
			return nil, fmt.Errorf("enlarging device of volume %q: %w", volume, err)
		}
		return have, nil
	}
	loop, err := attachLoop(file)
	if err != nil {
		return nil, fmt.Errorf("making device of volume %q: %w", volume, err)
	}
	if d.loops == nil {
		d.loops = map[string]*os.File{}
	}
	d.loops[volume] = loop
	return loop, nil
}

// attachLoop puts a file behind a free loop device, which the kernel frees with its last user: also when the lab is
// killed.
func attachLoop(file *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }() // nothing was written
	for {
		free, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("finding a free loop device: %w", err)
		}
		loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", free), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{
			Fd:   uint32(file.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		} //nolint:gosec // a descriptor
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		if err == nil {
			return loop, nil
		}
		_ = loop.Close()
		if !errors.Is(err, unix.EBUSY) { // another process was faster
			return nil, fmt.Errorf("setting up loop device %d: %w", free, err)
		}
	}
}

// Close frees the devices. The files stay.
func (d *Disks) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	var errs []error
	for _, l := range d.loops {
		errs = append(errs, l.Close())
	}
	d.loops = nil
	return errors.Join(errs...)
}
