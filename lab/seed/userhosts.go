package seed

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

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
		Client: client, Name: o.NodeName, HostDir: o.HostDir, Version: o.Version,
		Log:    slog.New(c.seed.opts.Log.Handler()),
		Device: func(volume string) error { return c.account.device(c.AWS(), volume, o.HostDir) },
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
	return host.csi.Files(host.kubelet, pod, driver)
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
	if err := os.MkdirAll(filepath.Join(dir, "etc/default"), 0o755); err != nil {
		return err
	}
	flags := `KUBELET_EXTRA_ARGS="` + strings.Join(args, " ") + `"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "etc/default/kubelet"), []byte(flags), 0o600); err != nil {
		return err
	}
	return csi.MakeDevices(dir)
}

// device shows a volume that is attached to an instance in the /dev of the host.
func (a *account) device(sim *awssim.Server, volume, hostDir string) error {
	v := sim.State().EC2.Volumes[volume]
	if v == nil || v.Attachment == nil {
		return fmt.Errorf("the account has not attached volume %q", volume)
	}
	return a.disks.Show(volume, v.Size, hostDir)
}
