package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/lab/csi"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// volumes are what a lab has whose hosts mount PersistentVolumes.
type volumes struct {
	disks    csi.Disks
	programs map[string]kubelet.Program // of images that stand-ins run
	nodes    map[string]*csi.Node       // by host
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu   sync.Mutex
	pods int // that have an address
}

// startVolumes makes what the hosts need before their kubelets start.
func (c *Cluster) startVolumes() error {
	if !c.opts.Volumes {
		return nil
	}
	programs, err := csi.Programs()
	if err != nil {
		return err
	}
	v := &volumes{programs: programs, nodes: map[string]*csi.Node{}}
	v.disks.Dir = c.site.root + "/volumes"
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // until Stop
	v.cancel = cancel
	c.volumes = v
	for _, h := range c.site.hosts {
		if err := c.startNode(ctx, h); err != nil {
			return fmt.Errorf("preparing host %q for volumes: %w", h.Name, err)
		}
	}
	return nil
}

// startNode has a host register the CSI drivers that run there.
func (c *Cluster) startNode(ctx context.Context, h *Host) error {
	config, err := clientcmd.BuildConfigFromFlags("", h.Path("/etc/kubernetes/kubelet.conf"))
	if err != nil {
		return err
	}
	config.UserAgent = "kubelet/" + h.version
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	n := &csi.Node{
		Client: client, Name: h.NodeName, HostDir: h.Dir, Version: h.version,
		Device: func(volume string) error { return c.showDisk(h, volume) },
		Log:    slog.New(c.opts.Log.Handler()),
	}
	if err := errors.Join(csi.MakeDevices(h.Dir), n.Prepare()); err != nil {
		return err
	}
	c.volumes.nodes[h.Name] = n
	c.volumes.running.Go(func() { n.Run(ctx) })
	return nil
}

// showDisk puts a volume that the account has attached to a host into its /dev.
func (c *Cluster) showDisk(h *Host, volume string) error {
	v := c.AWS().State().EC2.Volumes[volume]
	if v == nil || v.Attachment == nil || v.Attachment.Instance != h.InstanceID {
		return fmt.Errorf("the account has not attached volume %q to instance %s", volume, h.InstanceID)
	}
	return c.volumes.disks.Show(volume, v.Size, h.Dir)
}

// mountVolumes lets the pods of a host mount volumes, each pod in containers of its own with an address of its own.
func (c *Cluster) mountVolumes(h *Host, o *kubelet.PodOptions) {
	o.Claims, o.Address, o.Program = c.volumes.nodes[h.Name], c.podAddress, c.containerProgram
	o.Env = []corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: c.site.block.address(placeLoadBalancer)},
		{Name: "KUBERNETES_SERVICE_PORT", Value: fmt.Sprint(portAPIServer)},
		{Name: "AWS_ENDPOINT_URL", Value: c.CloudEndpoint()},
		{Name: "AWS_EC2_METADATA_DISABLED", Value: "true"},
	}
}

// podAddress is an address that no pod had before.
func (c *Cluster) podAddress() (string, error) {
	c.volumes.mu.Lock()
	defer c.volumes.mu.Unlock()
	if c.volumes.pods++; c.volumes.pods > 254 {
		return "", errors.New("the lab has run out of addresses for pods")
	}
	return c.site.block.podAddress(c.volumes.pods), nil
}

// containerProgram finds what an isolated container is run by.
func (c *Cluster) containerProgram(container *corev1.Container) (kubelet.Program, error) {
	file, err := c.resolve(container.Image)
	if err == nil {
		return kubelet.Program{Path: file, Isolated: true}, nil
	}
	repository, _, _ := strings.Cut(container.Image, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	if p, ok := c.volumes.programs[repository]; ok {
		return p, nil
	}
	return kubelet.Program{}, err
}

// Files is where on this machine the files of a running pod's only volume are; driver is the program of the CSI driver.
func (c *Cluster) Files(pod *corev1.Pod, driver string) (string, error) {
	for _, h := range c.Hosts() {
		if n := c.volumes.nodes[h.Name]; n != nil && h.NodeName == pod.Spec.NodeName {
			return n.Files(h.Kubelet, pod, driver)
		}
	}
	return "", fmt.Errorf("no host of the lab has node %q", pod.Spec.NodeName)
}

// stop ends what the hosts have mounted. Their kubelets have stopped.
func (v *volumes) stop() error {
	if v == nil {
		return nil
	}
	v.cancel()
	v.running.Wait()
	return v.disks.Close()
}
