package seed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/edge"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/pki"
	"github.com/transplant-dev/transplant/lab/poll"
)

// ClusterOptions describe a user cluster.
type ClusterOptions struct {
	// Name of the Cluster object; the namespace is cluster-<name>.
	Name string
	// Managers and APIServers are the replicas of controller-manager and apiserver. Default: 1.
	Managers, APIServers int32
	// Wrapped has every component started by http-prober, as Kubermatic does it.
	Wrapped bool
	// NoMachines leaves machine-controller, its webhook and operating-system-manager out.
	NoMachines bool
	// NoRoutes has the pods' network make its own routes: no manager runs a route loop.
	NoRoutes bool
	// External makes the control plane without an in-tree provider, as new clusters are made: nobody runs a cloud loop.
	External bool
	// Kind is the cloud that is simulated. Default: AWS.
	Kind cluster.Kind
	// Version of Kubernetes. Default: that of the kind, or the seed's. Its programs have to be among the seed's Binaries.
	Version string
	// Programs are what the pods of the user cluster are run by, by repository without tag, next to the seed's Binaries:
	// its machines then run pods as processes, register the CSI drivers that run there, and mount volumes. Default: pods
	// run without processes. Needs root.
	Programs map[string]kubelet.Program
}

// Cluster is a user cluster whose control plane runs in the seed.
type Cluster struct {
	ClusterOptions
	Namespace string

	seed    *Seed
	pki     *pki.PKI
	account *account
	front   *edge.Edge
	behind  *forwarder
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
	cloud   string // address of the account
	stop    context.CancelFunc

	mu    sync.Mutex
	hosts map[string]userHost // by node
}

// AddCluster creates a user cluster's control plane, and returns when its API can be used and its controllers run. The
// caller creates the Cluster object.
func (s *Seed) AddCluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	o.Managers, o.APIServers = max(1, o.Managers), max(1, o.APIServers)
	if o.Kind != nil {
		o.Kind = cluster.OfVersion(o.Kind, o.Version)
		o.Version = o.Kind.Version()
	}
	o.Version = cmp.Or(o.Version, Version)
	c := &Cluster{ClusterOptions: o, Namespace: "cluster-" + o.Name, seed: s}
	s.mu.Lock()
	k := len(s.clusters)
	s.clusters = append(s.clusters, c)
	s.mu.Unlock()
	if k >= maxClusters {
		return nil, fmt.Errorf("adding cluster %q: the lab has addresses for %d", o.Name, maxClusters)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(ctx, k); err != nil { //nolint:contextcheck // what it starts lives until Stop
		return nil, fmt.Errorf("adding cluster %q: %w", o.Name, err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, k int) error {
	dir := filepath.Join(c.seed.opts.Dir, "clusters", c.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating directory: %w", err)
	}
	var err error
	if c.pki, err = pki.New(c.Name, time.Now()); err != nil {
		return err
	}
	c.cloud = c.seed.net.at(placeAccounts + k)
	machines, err := c.startCloud(dir)
	if err != nil {
		return err
	}
	if c.account, err = startAccount(machines, dir, c.cloud, c.Version, c.seed.opts.Profile, c.nodeClient); err != nil {
		return err
	}
	if c.Programs != nil {
		c.account.host = c.startHost
	}
	behind := net.JoinHostPort(c.seed.net.at(placeBackends+k), portAPI)
	c.behind, err = startForwarder(behind, func() (string, error) {
		pods := c.seed.readyPods(c.Namespace, labels.SelectorFromSet(appLabels(appAPIServer)))
		if len(pods) == 0 {
			return "", errors.New("no API server is ready")
		}
		return net.JoinHostPort(pods[0].Status.PodIP, portAPI), nil
	})
	if err != nil {
		return err
	}
	listen := net.JoinHostPort(c.seed.net.at(placeAPIs+k), portAPI)
	c.front, err = edge.Start(edge.Options{Name: c.Name, Listen: listen, Target: behind}) //nolint:contextcheck // an edge lives until Close
	if err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.install(ctx, dir); err != nil {
		return err
	}
	if err := c.awaitAPI(ctx); err != nil {
		return err
	}
	if c.Kind != nil {
		if err := cluster.GrantProvider(ctx, c.client, c.Kind); err != nil {
			return err
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.runPods(running)
	if c.NoMachines {
		return nil
	}
	return c.installMachines(ctx)
}

func (c *Cluster) startCloud(dir string) (machineCloud, error) {
	if c.Kind != nil {
		return newPlaces(c.Kind, dir)
	}
	return newAmazon(dir)
}

func (c *Cluster) connect() error {
	data, err := c.pki.Kubeconfig(c.Server(), pki.Admin)
	if err != nil {
		return err
	}
	if c.config, err = clientcmd.RESTConfigFromKubeConfig(data); err != nil {
		return fmt.Errorf("reading admin kubeconfig: %w", err)
	}
	c.config.QPS, c.config.UserAgent = -1, "lab"
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	return nil
}

// nodeClient is what a node's kubelet reaches the API with.
func (c *Cluster) nodeClient(nodeName string) (kubernetes.Interface, error) {
	data, err := c.pki.Kubeconfig(c.Server(), pki.Node(nodeName))
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig of node %q: %w", nodeName, err)
	}
	config.UserAgent, config.Timeout = "kubelet/"+c.Version, 10*time.Second
	return kubernetes.NewForConfig(config)
}

// awaitAPI waits until the API answers, and has what every cluster has.
func (c *Cluster) awaitAPI(ctx context.Context) error {
	return Await(ctx, "the API of "+c.Name, func(ctx context.Context) error {
		if err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return errors.Join(err, c.troubles())
		}
		for _, name := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} {
			// the controllers run
			if _, err := c.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return fmt.Errorf("default ServiceAccount: %w", err)
			}
		}
		return nil
	})
}

// troubles says why pods of the control plane do not run.
func (c *Cluster) troubles() error {
	pods, err := c.seed.pods.Pods(c.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil {
				errs = append(errs, fmt.Errorf("pod %s: %s: %s", p.Name, w.Reason, w.Message))
			} else if !s.Ready {
				errs = append(errs, fmt.Errorf("pod %s is not ready", p.Name))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) close() error {
	if c.stop != nil {
		c.stop()
	}
	var err error
	if c.account != nil {
		err = c.account.close()
	}
	if c.front != nil {
		c.front.Close()
	}
	if c.behind != nil {
		c.behind.close()
	}
	return err
}

// Server is the URL of the user cluster's API, which stays the same whatever pods serve it.
func (c *Cluster) Server() string { return "https://" + c.front.Addr() }

// Front is the way to the user cluster's API, for everybody.
func (c *Cluster) Front() *edge.Edge { return c.front }

// Config returns the user cluster's API for its administrator, without limits.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client is the administrator's.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Dynamic is the administrator's client for kinds without Go types.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Kubeconfig is a new kubeconfig of a user who may do everything, for a rotation of credentials.
func (c *Cluster) Kubeconfig(user string) ([]byte, error) {
	return c.pki.Kubeconfig(c.Server(), pki.Identity{User: user, Groups: pki.Admin.Groups})
}

// AWS is the cluster's account. There is none on another kind of cloud.
func (c *Cluster) AWS() *awssim.Server {
	if a, ok := c.account.cloud.(*amazon); ok {
		return a.sim
	}
	return nil
}

// Cloud is the cluster's cloud of another kind than AWS.
func (c *Cluster) Cloud() cluster.Cloud {
	if p, ok := c.account.cloud.(*places); ok {
		return p.Cloud
	}
	return nil
}

// Missing returns an error that names what a cloud of another kind has not been told of a node's range for pods.
func (c *Cluster) Missing(node, podCIDR string) error {
	p, ok := c.account.cloud.(*places)
	if !ok {
		return errors.New("this is asked of the AWS account")
	}
	for _, h := range p.hosts {
		if h.NodeName == node {
			return p.Cloud.Missing(h, podCIDR)
		}
	}
	return fmt.Errorf("%s has no machine of node %q", p.kind.Provider(), node)
}

// Kubelets are the flags of every machine's kubelet, by node.
func (c *Cluster) Kubelets() map[string][]string { return c.account.kubelets() }

// Pods lists the pods of an app of the control plane, deleted ones included as long as the API has them.
func (c *Cluster) Pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	list, err := c.seed.client.CoreV1().
		Pods(c.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(appLabels(app)).String()})
	if err != nil {
		return nil, fmt.Errorf("listing pods of %q: %w", app, err)
	}
	return list.Items, nil
}

// Await asks until the answer is nil, or ctx ends. The error then says what was still missing.
func Await(ctx context.Context, what string, ask func(context.Context) error) error {
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if !poll.Pause(ctx, pollInterval) {
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), last)
		}
	}
}

func existing(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
