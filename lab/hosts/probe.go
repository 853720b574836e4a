package hosts

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsuitable is a machine on which no hosts can be made; the error that wraps it names everything that is missing.
var ErrUnsuitable = errors.New("no real hosts can be made here")

// needed are the programs that hosts are made of or with, and the Debian packages that have them.
var needed = map[string]string{
	"containerd": "containerd",
	"ctr":        "containerd",
	"runc":       "runc",
	"iptables":   "iptables",
	"ip":         "iproute2",
	"nsenter":    "util-linux",
	"mount":      "mount",
	"mkfs.ext4":  "e2fsprogs",
	"truncate":   "coreutils",
	"go":         "Go itself",
}

// capSysAdmin and capNetAdmin are the capabilities that namespaces, mounts and links need; see capabilities(7).
const (
	capNetAdmin = 12
	capSysAdmin = 21
)

// Probe reports whether a cluster can be made on this machine with its files in dir: nil, or an error that wraps
// ErrUnsuitable and names everything that is missing.
func Probe(dir string) error {
	missing := append(missingRights(), missingKernel(dir)...)
	for _, program := range slices.Sorted(maps.Keys(needed)) {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, fmt.Sprintf("the program %s (%s)", program, needed[program]))
		}
	}
	if _, err := os.Stat("/usr/lib/cni/bridge"); err != nil {
		missing = append(missing, "the CNI plugins in /usr/lib/cni (containernetworking-plugins)")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: missing are %s", ErrUnsuitable, strings.Join(missing, ", "))
}

// inotifyPerHost is how many inotify instances a host's kubelet, containerd and what they start hold at most; as many
// again are left to everybody else.
const inotifyPerHost = 16

// fewInotify says that the machine's inotify instances may not do for so many hosts, of which each complains in words
// of its own when they are used up ("too many open files"); empty when they do.
func fewInotify(hosts int) string {
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return ""
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if want := 64 + 2*inotifyPerHost*hosts; err == nil && limit < want {
		return fmt.Sprintf(
			"this machine allows %d inotify instances, and %d hosts next to other programs may need %d: sysctl -w fs.inotify.max_user_instances=512",
			limit,
			hosts,
			want,
		)
	}
	return ""
}

func missingRights() []string {
	if os.Geteuid() != 0 {
		return []string{"root"}
	}
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return []string{"/proc"}
	}
	var missing []string
	for line := range strings.Lines(string(data)) {
		value, found := strings.CutPrefix(line, "CapEff:")
		if !found {
			continue
		}
		effective, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil || effective&(1<<capSysAdmin) == 0 {
			missing = append(missing, "CAP_SYS_ADMIN")
		}
		if err != nil || effective&(1<<capNetAdmin) == 0 {
			missing = append(missing, "CAP_NET_ADMIN")
		}
	}
	return missing
}

func missingKernel(dir string) []string {
	var missing []string
	if _, err := os.Stat(filepath.Join(cgroupRoot, "memory", "memory.limit_in_bytes")); err != nil {
		missing = append(missing, "control groups of version 1 below "+cgroupRoot)
	}
	if data, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(data), "\toverlay\n") {
		missing = append(missing, "overlayfs")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		missing = append(missing, "loop devices")
	}
	if kind := fileSystem(dir); kind == unix.OVERLAYFS_SUPER_MAGIC || kind == unix.TMPFS_MAGIC {
		missing = append(
			missing,
			fmt.Sprintf("a real file system under %q (an overlay cannot lie on an overlay; choose another directory)", dir),
		)
	}
	return missing
}

// fileSystem is the kind of file system that a directory lies on, or will when it is made.
func fileSystem(dir string) int64 {
	for {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			return st.Type
		}
		if dir == filepath.Dir(dir) {
			return 0
		}
		dir = filepath.Dir(dir)
	}
}
