package csi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inTreePlugin is the in-tree plugin that the lab's kubelets have.
const inTreePlugin = "kubernetes.io/aws-ebs"

// mountInTree mounts a volume by the in-tree plugin. The kubelet says first that the volume is in use, and waits until
// the attach-detach controller says that it is attached: so it is not detached while it is mounted.
func (n *Node) mountInTree(ctx context.Context, pod *corev1.Pod, pv *corev1.PersistentVolume) (mounted, error) {
	in := pv.Spec.AWSElasticBlockStore
	name := corev1.UniqueVolumeName(inTreePlugin + "/" + in.VolumeID)
	n.use(pod.UID, name)
	node, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return mounted{}, err
	}
	if !slices.Contains(node.Status.VolumesInUse, name) {
		return mounted{}, fmt.Errorf("volume %s is not in the list of VolumesInUse of the node's status yet", name)
	}
	if !slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == name }) {
		return mounted{}, fmt.Errorf("volume %s is not attached yet according to the node's status", name)
	}
	volume := path.Base(in.VolumeID)
	if err := n.Device(volume); err != nil {
		return mounted{}, fmt.Errorf("device of %s: %w", volume, err)
	}
	m := mounted{
		handle: volume,
		target: path.Join(podsDir, string(pod.UID), "volumes/kubernetes.io~aws-ebs", pv.Name),
	}
	if n.has(pod.UID, m) {
		return m, nil
	}
	device, err := filepath.EvalSymlinks(filepath.Join(n.HostDir, linkOf(volume)))
	if err != nil {
		return mounted{}, fmt.Errorf("finding the device of %s: %w", volume, err)
	}
	dir := filepath.Join(n.HostDir, m.target)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return mounted{}, err
	}
	k, err := startKeeper(device, dir, in.FSType)
	if err != nil {
		return mounted{}, fmt.Errorf("mounting volume %s: %w", volume, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keepers[m.target] = k
	return m, nil
}

// unmountInTree ends a mount of the in-tree plugin.
func (n *Node) unmountInTree(m mounted) error {
	n.mu.Lock()
	k := n.keepers[m.target]
	delete(n.keepers, m.target)
	n.mu.Unlock()
	if k == nil {
		return nil
	}
	if err := k.end(); err != nil {
		return fmt.Errorf("unmounting volume %s: %w", m.handle, err)
	}
	return nil
}

// keeper is a process that has a volume mounted, in a mount namespace of its own: nothing of it is left on this machine
// when the lab ends, however that ends.
type keeper struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  strings.Builder
}

// startKeeper returns when the volume is mounted.
func startKeeper(device, dir, fsType string) (*keeper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the lab's own program: %w", err)
	}
	k := &keeper{cmd: exec.Command(self, device, dir, fsType)}
	k.cmd.Env = append(os.Environ(), envStandIn+"=keeper")
	k.cmd.Stderr = &k.said
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setpgid: true}
	if k.stdin, err = k.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := k.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != keeperReady {
		return nil, errors.Join(fmt.Errorf("it is not mounted: %q", line), k.end())
	}
	return k, nil
}

// end unmounts the volume.
func (k *keeper) end() error {
	_ = k.stdin.Close() // the process may be gone
	if err := k.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(k.said.String()))
	}
	return nil
}

// keeperReady is what a keeper says when the volume is mounted.
const keeperReady = "mounted\n"

// keep formats a device that has no file system, mounts it, and unmounts it when standard input ends.
func keep(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("arguments %q are not a device, a directory and the type of a file system", args)
	}
	device, dir, fsType := args[0], args[1], args[2]
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts from this machine: %w", err)
	}
	if err := unix.Mount(device, dir, fsType, 0, ""); err != nil {
		// As a kubelet does: what cannot be mounted is formatted, where it has no file system.
		if _, err := exec.CommandContext(ctx, "blkid", "-p", device).Output(); err == nil {
			return fmt.Errorf("device %s has something else than %s", device, fsType)
		}
		if out, err := exec.CommandContext(ctx, "mkfs."+fsType, "-F", "-m0", device).CombinedOutput(); err != nil {
			return fmt.Errorf("formatting %s: %w: %s", device, err, out)
		}
		if err := unix.Mount(device, dir, fsType, 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", device, err)
		}
	}
	if _, err := os.Stdout.WriteString(keeperReady); err != nil { //nolint:forbidigo // it stands for main
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until it ends, however
	return unix.Unmount(dir, 0)
}
