package hosts

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/hosts/supervise"
	"github.com/transplant-dev/transplant/lab/poll"
)

const readyTimeout = 4 * time.Minute

// Up makes the cluster and waits until every node and every static pod is ready. What an earlier cluster of the same
// name left is removed first. On an error the hosts stay, to be looked at, until Down.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := Probe(c.Dir); err != nil {
		return nil, err
	}
	if few := fewInotify(len(c.hosts)); few != "" {
		c.say("%s", few)
	}
	begin := time.Now()
	stage := func(what string) { c.say("[%5.1fs] %s", time.Since(begin).Seconds(), what) }
	if err := c.Down(ctx); err != nil {
		return nil, fmt.Errorf("removing an earlier cluster: %w", err)
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making directory of cluster: %w", err)
	}
	if err := c.save(); err != nil {
		return nil, err
	}
	if err := c.buildPrograms(ctx); err != nil {
		return nil, err
	}
	stage("programs built")
	product := make(chan error, 1) // compiled next to the start of the hosts, which mostly wait
	go func() { product <- c.productWanted(ctx) }()
	err = c.assemble(ctx, stage)
	if built := <-product; err != nil || built != nil {
		return nil, errors.Join(err, built)
	}
	if !c.NoProduct {
		if err := c.Import(ctx, c.productImages()...); err != nil {
			return nil, err
		}
		stage("product built, images imported")
	}
	if err := c.WaitReady(ctx); err != nil { // again: the compiler may have kept kubelets from saying that they live
		return nil, err
	}
	return c, nil
}

func (c *Cluster) productWanted(ctx context.Context) error {
	if c.NoProduct {
		return nil
	}
	return c.buildProduct(ctx)
}

// assemble makes the cluster of programs that are there.
func (c *Cluster) assemble(ctx context.Context, stage func(string)) error {
	if err := c.makeUsr(); err != nil {
		return err
	}
	if err := c.makeBridge(ctx); err != nil {
		return err
	}
	if err := c.startSupervisor(ctx); err != nil {
		return err
	}
	if err := c.startHosts(ctx); err != nil {
		return err
	}
	stage("hosts started, images imported")
	s, err := newSecrets()
	if err != nil {
		return err
	}
	for i, h := range c.hosts {
		do := h.join
		if i == 0 {
			do = h.initialise
		}
		if err := do(ctx, s); err != nil {
			return fmt.Errorf("%w (the kubelet's log: %s)", err, h.logOf("kubelet.log"))
		}
		if i == 0 {
			if err := c.takeKubeconfig(ctx); err != nil {
				return err
			}
		}
		stage(h.Name + " is part of the cluster")
	}
	if err := c.WaitReady(ctx); err != nil {
		return err
	}
	stage("every node and static pod is ready")
	return nil
}

// startHosts gives every host power, its files and its images. Containerd unpacks on two hosts at a time: more would
// only wait for the disk.
func (c *Cluster) startHosts(ctx context.Context) error {
	var files []string
	for _, i := range c.systemImages() {
		file := filepath.Join(c.imageDir(), imageFile(i.Ref))
		if err := i.Write(ctx, file); err != nil {
			return err
		}
		files = append(files, file)
	}
	defer removeAll(files)
	var g errgroup.Group
	g.SetLimit(2)
	for _, h := range c.hosts {
		g.Go(func() error {
			if err := h.Up(ctx); err != nil {
				return err
			}
			for _, f := range h.files() {
				if err := h.WriteFile(ctx, f.path, f.text, f.mode); err != nil {
					return err
				}
			}
			// The services started before their configuration was there.
			for _, argv := range [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "restart", "containerd"}} {
				if _, err := h.Output(ctx, argv...); err != nil {
					return err
				}
			}
			if err := h.awaitContainerd(ctx); err != nil {
				return err
			}
			return h.importFiles(ctx, files)
		})
	}
	return g.Wait()
}

func (h *Host) awaitContainerd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return poll.Until(ctx, 100*time.Millisecond, "containerd of host "+h.Name, func(ctx context.Context) error {
		_, err := h.Output(ctx, "ctr", "version")
		return err
	})
}

// account is the simulated AWS account: an instance for every host, a key for every caller.
func (c *Cluster) account() awssim.Options {
	o := awssim.Options{
		Region:    Region,
		Zones:     zones,
		ClusterID: ClusterName,
		AuditFile: c.AuditFile(),
		VPCCIDR:   vpcOf(c.Subnet),
		Keys: map[string]awssim.Policy{
			cluster.KeyKubelet: awssim.ReadOnly,
			cluster.KeyCLI:     awssim.ReadOnly,
			cluster.KeyLab:     awssim.Full,
		},
	}
	for _, h := range c.hosts {
		o.Instances = append(
			o.Instances,
			awssim.Instance{ID: h.InstanceID, Type: "m5.large", Zone: h.Zone, PrivateIP: h.Address},
		)
		if h.ControlPlane {
			for _, manager := range []string{cluster.ControllerManager, cluster.CloudControllerManager} {
				o.Keys[AccessKey(h.Name, manager)] = awssim.Full
			}
		}
	}
	maps.Copy(o.Keys, c.Keys)
	return o
}

func (c *Cluster) supervisorConfig() string { return filepath.Join(c.Dir, "supervisor.json") }

// startSupervisor starts the cloud and the load balancer in a process that outlives this one.
func (c *Cluster) startSupervisor(ctx context.Context) error {
	config := supervise.Config{
		API:     c.APIEndpoint(),
		Cloud:   c.endpoint(portCloud),
		Admin:   c.endpoint(portAdmin),
		Account: c.account(),
	}
	for _, h := range c.hosts[:c.ControlPlanes] {
		config.Backends = append(config.Backends, fmt.Sprintf("%s:%d", h.Address, portAPI))
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding configuration of supervisor: %w", err)
	}
	if err := os.WriteFile(c.supervisorConfig(), data, 0o600); err != nil {
		return fmt.Errorf("writing configuration of supervisor: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(c.Dir, "supervisor.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening log of supervisor: %w", err)
	}
	defer log.Close() //nolint:errcheck // the child has its own descriptor
	out, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting supervisor: %w", err)
	}
	defer out.Close() //nolint:errcheck // it was read
	// not of ctx: it goes on when this process ends
	cmd := exec.Command(filepath.Join(c.binDir(), "lab-supervisor"), c.supervisorConfig())
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", theirs, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = theirs.Close() // the child has its own
	if err != nil {
		return fmt.Errorf("starting supervisor: %w", err)
	}
	go cmd.Wait() //nolint:errcheck // so that it leaves no zombie while this process lives
	if err := out.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return fmt.Errorf("bounding start of supervisor: %w", err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("starting supervisor: it says %q, see %s: %w", line, log.Name(), err)
	}
	return ctx.Err()
}

// RestConfig is the administrator's configuration, through the load balancer.
func (c *Cluster) RestConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig of cluster: %w", err)
	}
	return config, nil
}

// Client is the administrator's client, through the load balancer.
func (c *Cluster) Client() (kubernetes.Interface, error) {
	config, err := c.RestConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making client of cluster: %w", err)
	}
	return client, nil
}

// WaitReady waits, at most four minutes, until every host that runs has a ready node and ready static pods.
func (c *Cluster) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client, err := c.Client()
	if err != nil {
		return err
	}
	return poll.Until(ctx, 500*time.Millisecond, "the cluster to be ready", func(ctx context.Context) error {
		return c.Ready(ctx, client)
	})
}

// Ready returns an error that says what is not ready of the hosts that run: a node, a static pod.
func (c *Cluster) Ready(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	var missing []error
	for _, h := range c.hosts {
		if h.Running() {
			missing = append(missing, h.ready(nodes.Items, pods.Items))
		}
	}
	return errors.Join(missing...)
}

// ready tells what is missing of the host's node and static pods.
func (h *Host) ready(nodes []corev1.Node, pods []corev1.Pod) error {
	found := false
	for i := range nodes {
		n := &nodes[i]
		if n.Name != h.NodeName {
			continue
		}
		found = n.Spec.ProviderID != ""
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s: %s", n.Name, c.Message)
			}
		}
	}
	if !found {
		return fmt.Errorf("node %s: %w", h.NodeName, errNotReady)
	}
	if !h.ControlPlane {
		return nil
	}
	for _, component := range []string{"etcd", cluster.APIServer, cluster.ControllerManager, cluster.Scheduler} {
		if !podReady(pods, component+"-"+h.NodeName) {
			return fmt.Errorf("pod %s-%s: %w", component, h.NodeName, errNotReady)
		}
	}
	return nil
}

func podReady(pods []corev1.Pod, name string) bool {
	for i := range pods {
		if pods[i].Name != name {
			continue
		}
		for _, c := range pods[i].Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue
			}
		}
	}
	return false
}
