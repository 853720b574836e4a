package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsuitable is a machine on which no hosts can be made; the error that wraps it names everything that is missing.
var ErrUnsuitable = errors.New("this machine cannot run hosts")

// needed are the programs that hosts are made with or use, and the Debian packages that have them.
var needed = map[string]string{
	"containerd": "containerd", "ctr": "containerd", "runc": "runc", "iptables": "iptables", "ip": "iproute2", "nsenter": "util-linux", "mount": "mount",
	"mkfs.ext4": "e2fsprogs", "truncate": "coreutils", "go": "Go itself",
}

// Probe tells whether clusters can be made on this machine with their files below dir: nil, or an error that wraps ErrUnsuitable.
func Probe(_ context.Context, dir string) error {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	} else if unix.Unshare(unix.CLONE_FS) != nil {
		missing = append(missing, "CAP_SYS_ADMIN")
	}
	for program, from := range needed {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, fmt.Sprintf("the program %s (%s)", program, from))
		}
	}
	if _, err := os.Stat("/usr/lib/cni/bridge"); err != nil {
		missing = append(missing, "the CNI plugins in /usr/lib/cni (containernetworking-plugins)")
	}
	if _, err := os.Stat(filepath.Join(cgroupRoot, "memory")); err != nil {
		missing = append(missing, "control groups of version 1 in "+cgroupRoot)
	}
	if data, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(data), "overlay") {
		missing = append(missing, "overlayfs")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		missing = append(missing, "loop devices")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w below %s: missing are %s", ErrUnsuitable, dir, strings.Join(missing, ", "))
}
