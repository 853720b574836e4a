package kubelet

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// nameHost makes the command see another host name, in a UTS namespace of its own.
func nameHost(cmd *exec.Cmd, name string) {
	const script = `echo "$0" >/proc/sys/kernel/hostname && exec "$@"`
	cmd.Args = append([]string{"sh", "-c", script, name, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
}

// CanNameHosts says why processes cannot get a host name of their own here: that takes root, or user namespaces for
// everybody.
func CanNameHosts() error {
	cmd := exec.Command("true")
	nameHost(cmd, "probe")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("giving a process a host name of its own: %w: %s", err, out)
	}
	return nil
}
