package hosts

import (
	"context"
	"fmt"
	"strings"
)

// filler is the file that takes up the rest of a host's disk. It lies outside of everything that programs look at.
const filler = "/opt/.lab-filler"

// FillDisk takes up what is left of the host's own file system, on which /etc and /var/lib/kubelet lie: writes there
// fail with ENOSPC, until FreeDisk. A reboot does not help. Images, logs and etcd's data lie elsewhere and go on.
func (h *Host) FillDisk(ctx context.Context) error {
	// Once in large and once in small pieces: a last block that is too small for the first is still one to write to.
	const script = `dd if=/dev/zero of="$1" bs=1M 2>/dev/null; dd if=/dev/zero of="$1.rest" bs=512 2>/dev/null; sync -f "$1"
if dd if=/dev/zero of="$1.test" bs=4096 count=1 2>/dev/null; then echo "the disk still takes data" >&2; exit 1; fi; rm -f "$1.test"`
	if _, err := h.Output(ctx, "sh", "-c", script, "sh", filler); err != nil {
		return fmt.Errorf("filling disk: %w", err)
	}
	return nil
}

// FreeDisk undoes FillDisk.
func (h *Host) FreeDisk(ctx context.Context) error {
	if _, err := h.Output(ctx, "rm", "-f", filler, filler+".rest", filler+".test"); err != nil {
		return fmt.Errorf("freeing disk: %w", err)
	}
	return nil
}

// ReadOnly makes a directory of the host read-only, or writable again. It is a mount of its own from the first call on,
// which lasts until the next boot; a container that had the directory mounted before keeps what it had.
func (h *Host) ReadOnly(ctx context.Context, dir string, on bool) error {
	script := `set -e; mountpoint -q "$1" || mount --bind "$1" "$1"; mount -o remount,bind,$2 "$1"`
	mode := "rw"
	if on {
		mode = "ro"
	}
	if _, err := h.Output(ctx, "sh", "-c", script, "sh", dir, mode); err != nil {
		return fmt.Errorf("making %s %s: %w", dir, mode, err)
	}
	return nil
}

// Partition cuts the host off from everything, or connects it again. What runs on it goes on.
func (h *Host) Partition(ctx context.Context, on bool) error {
	state := "up"
	if on {
		state = "down"
	}
	if err := run(ctx, "ip", "link", "set", h.veth(), state); err != nil {
		return fmt.Errorf("partitioning host %s: %w", h.Name, err)
	}
	return nil
}

// StopKubelet stops the host's kubelet as an administrator would; it stays stopped until StartKubelet or a boot.
// Containers go on.
func (h *Host) StopKubelet(ctx context.Context) error {
	_, err := h.Output(ctx, "systemctl", "stop", "kubelet")
	return err
}

// StartKubelet undoes StopKubelet.
func (h *Host) StartKubelet(ctx context.Context) error {
	_, err := h.Output(ctx, "systemctl", "start", "kubelet")
	return err
}

// KubeletArgs are the arguments with which the host's kubelet runs, from its process.
func (h *Host) KubeletArgs(ctx context.Context) ([]string, error) {
	text, err := h.Output(ctx, "sh", "-c", `exec cat /proc/"$(systemctl show --property=MainPID --value kubelet)"/cmdline`)
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's arguments: %w", err)
	}
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00"), nil
}
