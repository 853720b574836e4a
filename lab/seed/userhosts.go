package seed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/csi"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// startHost runs the kubelet of a machine that runs pods, with the CSI drivers among them, until ctx ends.
func (c *Cluster) startHost(ctx context.Context, client kubernetes.Interface, o kubelet.Options, args []string) error {
	address, err := c.seed.net.pod()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(c.front.Addr())
	if err != nil {
		return err
	}
	o.HostDir, o.Address, o.Client = c.HostDir(o.NodeName), address, client
	o.ResolveImage = func(image string) (string, error) {
		return "", fmt.Errorf("image %q: no static pods on a machine", image)
	}
	node := &csi.Node{
		Client: client, Name: o.NodeName, HostDir: o.HostDir, Log: slog.New(c.seed.opts.Log.Handler()),
		Device: func(volume string) error { return c.account.disks.device(c.AWS(), volume, o.HostDir) },
	}
	o.Pods = &kubelet.PodOptions{
		Address: c.seed.net.pod, Program: c.program, Server: c.Server(), Variable: accessKey, Claims: node,
		Env: []corev1.EnvVar{
			{Name: "KUBERNETES_SERVICE_HOST", Value: host},
			{Name: "KUBERNETES_SERVICE_PORT", Value: port},
			{
				Name:  "AWS_ENDPOINT_URL",
				Value: "http://" + net.JoinHostPort(c.cloud, portAccount),
			},
			{Name: "AWS_EC2_METADATA_DISABLED", Value: "true"},
		},
	}
	if err := prepareHost(o.HostDir, args); err != nil {
		return fmt.Errorf("preparing machine %q: %w", o.NodeName, err)
	}
	if err := node.Prepare(); err != nil {
		return fmt.Errorf("preparing machine %q: %w", o.NodeName, err)
	}
	k, err := kubelet.New(o)
	if err != nil {
		return err
	}
	if err := k.Start(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	if c.hosts == nil {
		c.hosts = map[string]userHost{}
	}
	c.hosts[o.NodeName] = userHost{k, node}
	c.mu.Unlock()
	node.Run(ctx)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return k.Stop(stopping)
}

// userHost is a machine that runs pods.
type userHost struct {
	kubelet *kubelet.Kubelet
	csi     *csi.Node
}

// Volume is where on this machine the files of a running pod's only volume are. They are mounted in the CSI driver's
// own mount namespace, and are seen by way of its process.
func (c *Cluster) Volume(pod *corev1.Pod, driver string) (string, error) {
	c.mu.Lock()
	host, ok := c.hosts[pod.Spec.NodeName]
	c.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("there is no machine %q", pod.Spec.NodeName)
	}
	target := host.csi.Target(pod.UID)
	if target == "" {
		return "", fmt.Errorf("pod %q has no volume", pod.Name)
	}
	for _, p := range host.kubelet.Pods() {
		for _, container := range p.Containers {
			if container.Component == driver && container.PID > 0 && strings.Contains(p.Name, "node") {
				return fmt.Sprintf("/proc/%d/root%s", container.PID, target), nil
			}
		}
	}
	return "", fmt.Errorf("machine %q runs no %s", pod.Spec.NodeName, driver)
}

// HostDir is the root of a machine's file system on this one.
func (c *Cluster) HostDir(nodeName string) string {
	return filepath.Join(c.seed.opts.Dir, "clusters", c.Name, "machines", nodeName)
}

// program finds what a container of the user cluster is run by.
func (c *Cluster) program(container *corev1.Container) (kubelet.Program, error) {
	if file, ok := c.seed.opts.Binaries.Image(container.Image); ok {
		return kubelet.Program{Path: file, Isolated: true}, nil
	}
	repository, _, _ := strings.Cut(container.Image, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	if p, ok := c.Programs[repository]; ok {
		return p, nil
	}
	return kubelet.Program{}, fmt.Errorf("the lab has no program for image %q", container.Image)
}

// prepareHost gives a machine its kubelet's flags and a /dev of its own.
func prepareHost(dir string, args []string) error {
	for _, sub := range []string{"etc/default", "dev/disk/by-id"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	flags := `KUBELET_EXTRA_ARGS="` + strings.Join(args, " ") + `"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "etc/default/kubelet"), []byte(flags), 0o600); err != nil {
		return err
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := node(filepath.Join(dir, "dev", name), unix.S_IFCHR|0o666, 1, minor); err != nil {
			return err
		}
	}
	return nil
}

// node makes a device's node unless it is there.
func node(path string, mode, major, minor uint32) error {
	err := unix.Mknod(path, mode, int(unix.Mkdev(major, minor))) //nolint:gosec // device numbers are small
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making device %q (the lab needs root for machines that run pods): %w", path, err)
	}
	return nil
}

// disks are the contents of an account's volumes: a sparse file each, behind a loop device that is there as long as the
// lab.
type disks struct {
	dir string

	mu     sync.Mutex
	closed bool
	loops  map[string]*os.File // by volume
}

// device shows a volume that is attached to an instance in the /dev of the host, under the name that EC2's NVMe driver
// and udev give it.
func (d *disks) device(sim *awssim.Server, volume, hostDir string) error {
	v := sim.State().EC2.Volumes[volume]
	if v == nil || v.Attachment == nil {
		return fmt.Errorf("the account has not attached volume %q", volume)
	}
	loop, err := d.loop(volume, int64(v.Size)<<30)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(loop.Fd()), &stat); err != nil {
		return fmt.Errorf("reading device of volume %q: %w", volume, err)
	}
	name := fmt.Sprintf("nvme%dn1", unix.Minor(stat.Rdev))
	if err := node(
		filepath.Join(hostDir, "dev", name),
		unix.S_IFBLK|0o600,
		unix.Major(stat.Rdev),
		unix.Minor(stat.Rdev),
	); err != nil {
		return err
	}
	link := filepath.Join(
		hostDir,
		"dev/disk/by-id",
		"nvme-Amazon_Elastic_Block_Store_"+strings.ReplaceAll(volume, "-", ""),
	)
	if err := os.Symlink("../../"+name, link); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("naming device of volume %q: %w", volume, err)
	}
	return nil
}

// loop is the device behind which a volume's file is.
func (d *disks) loop(volume string, size int64) (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("the account is closed")
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making directory of volumes: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(d.dir, volume+".img"), os.O_CREATE|os.O_RDWR, 0o600)
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

func (d *disks) close() error {
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
