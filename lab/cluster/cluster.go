// Package cluster decides what a lab consists of and puts it together: three control-plane hosts with real API servers,
// controller managers and schedulers from static pod manifests, workers, one etcd, a load balancer, a simulated cloud,
// and an edge on every connection between them.
//
//	127.A.B.1   load balancer       :6443     everybody but the managers
//	127.A.B.2   simulated cloud     :4566
//	127.A.B.3   etcd                :2379
//	127.A.B.11  cp-1                :6443 kube-apiserver  :10257 kube-controller-manager  :10259 kube-scheduler
//	127.A.B.12  cp-2                (10258 is left for the cloud-controller-manager)
//	127.A.B.13  cp-3
//	127.A.B.21  worker-1 ...
//	127.A.B.100 edges ...           on the port of what is behind them
//
// Each lab has its own block 127.A.B.0/24, so that several can run side by side. It needs no root and listens nowhere
// else.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/edge"
	"github.com/transplant-dev/transplant/lab/loadbalancer"
	"github.com/transplant-dev/transplant/lab/pki"
	"github.com/transplant-dev/transplant/lab/poll"
)

// Cluster is a running lab.
type Cluster struct {
	opts  Options
	site  *site
	dir   *workDir
	cloud *cloud
	// internet is nil where the managers have a cloud config.
	internet *internet
	edges    map[string]*edge.Edge
	lb       *loadbalancer.Balancer
	etcd     *process.Process
	config   *rest.Config
	client   kubernetes.Interface
	http     io.Closer
	token    string
	volumes  *volumes // nil where hosts mount none

	mu       sync.Mutex // guards which machines are hosts of the cluster, too
	provided []build.Binaries
}

// startTimeout bounds a start: what takes longer, on however slow a machine, does not come up at all.
const startTimeout = 3 * time.Minute

// Start starts a lab and returns when its API can be used; WaitReady tells when everything else is up. The lab runs
// until Stop; ctx bounds the start only. On an error nothing is left running, and the error names what did not come up;
// the logs of its components are below Dir.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: o}
	limit := startTimeout
	if o.Shape == Deployments { // leases run out on the way
		limit *= 3
	}
	startCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := c.start(startCtx); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("starting lab in %q: %w", o.Dir, err), c.Stop(stopCtx))
	}
	return c, nil
}

// start is the procedure: what needs nothing first, then etcd, API servers, everything that needs an API.
func (c *Cluster) start(ctx context.Context) error {
	begin := time.Now()
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startNetwork(); err != nil { //nolint:contextcheck // edges and balancer live until Stop
		return err
	}
	if err := c.startVolumes(); err != nil { //nolint:contextcheck // until Stop
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	c.opts.Log.Info("API is up", "after", time.Since(begin).Round(time.Millisecond))
	if err := c.startRest(ctx); err != nil {
		return err
	}
	if c.opts.Shape == Deployments {
		if err := c.pivot(ctx); err != nil {
			return err
		}
	}
	c.opts.Log.Info("Lab is started", "after", time.Since(begin).Round(time.Millisecond))
	return nil
}

// prepare takes a directory and addresses, and writes what the hosts hold before they run.
func (c *Cluster) prepare() error {
	dir, err := takeDir(c.opts.Dir)
	if err != nil {
		return err
	}
	c.dir = dir
	b, err := reserveBlock(c.opts.LockDir)
	if err != nil {
		return err
	}
	c.site = &site{
		root:          c.opts.Dir,
		block:         b,
		kind:          c.opts.Kind,
		hosts:         newHosts(c.opts.Kind, c.opts.Dir, b, c.opts.ControlPlanes, c.opts.Workers),
		wires:         map[string]wire{},
		noCloudConfig: c.opts.NoCloudConfig,
		shape:         c.opts.Shape,
	}
	for i := range c.opts.Spares {
		c.site.apart = append(c.site.apart, newControlPlane(c.opts.Kind, c.opts.Dir, b, c.opts.ControlPlanes+i+1))
	}
	for _, w := range wires(b, c.site.machines()) {
		c.site.wires[w.name] = w
	}
	if c.site.pki, err = pki.New(Name, time.Now()); err != nil {
		return err
	}
	var g errgroup.Group
	for _, h := range c.site.hosts {
		g.Go(func() error {
			if err := mountDisk(h, c.opts.DiskSize); err != nil {
				return fmt.Errorf("preparing host %q: %w", h.Name, err)
			}
			if err := errors.Join(c.site.writeHost(h), c.writeAuditPolicy(h)); err != nil {
				return fmt.Errorf("preparing host %q: %w", h.Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.prepareAdmin()
}

// prepareAdmin writes the administrator's kubeconfig and makes the lab's own client of it.
func (c *Cluster) prepareAdmin() error {
	data, err := c.site.pki.Kubeconfig(c.site.adminServer(), pki.Admin)
	if err != nil {
		return err
	}
	if err := pki.WriteSecret(c.site.adminKubeconfig(), data); err != nil {
		return err
	}
	if c.config, err = clientcmd.RESTConfigFromKubeConfig(data); err != nil {
		return fmt.Errorf("reading admin kubeconfig: %w", err)
	}
	c.config.UserAgent = "transplant-lab"
	c.config.QPS, c.config.Burst = 100, 200
	httpClient, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return fmt.Errorf("building the lab's client: %w", err)
	}
	c.http = idleCloser{httpClient}
	c.client, err = kubernetes.NewForConfigAndClient(c.config, httpClient)
	if err != nil {
		return fmt.Errorf("building the lab's client: %w", err)
	}
	return nil
}

// startNetwork starts what connects the components, and the cloud.
func (c *Cluster) startNetwork() error {
	var err error
	if c.cloud, err = startCloud(c.site); err != nil {
		return err
	}
	if c.opts.NoCloudConfig {
		if err := c.startInternet(); err != nil {
			return err
		}
	}
	ws := make([]wire, 0, len(c.site.wires))
	for _, w := range c.site.wires {
		ws = append(ws, w)
	}
	if c.edges, err = startEdges(ws); err != nil {
		return err
	}
	c.lb, err = startLoadBalancer(c.site)
	return err
}

// startInternet starts the way to AWS's own names, and gives the control-plane hosts the authority of its certificates.
func (c *Cluster) startInternet() error {
	var err error
	if c.internet, err = startInternet(c.site.block, c.AWS()); err != nil {
		return err
	}
	for _, h := range c.ControlPlanes() {
		if err := writePublic(h.Path(AuthorityFile), string(c.internet.authority.Cert)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	program, err := c.opts.Binaries.Path("etcd", EtcdVersion)
	if err != nil {
		return err
	}
	var addresses []string
	for _, h := range c.site.machines() {
		if w, ok := c.site.wires[EdgeName(h.Name, APIServer, endEtcd)]; ok {
			addresses = append(addresses, w.address)
		}
	}
	if c.etcd, err = startEtcd(c.site.block, c.site.pki, program, c.site.root, addresses); err != nil {
		return err
	}
	return waitEtcd(ctx, c.site.block, c.site.pki, c.etcd)
}

// startControlPlane starts the control-plane hosts with their API servers alone, and waits until these are ready:
// managers that find no API server give up after ten seconds, and their back-off would be added to the start.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	var g errgroup.Group
	for _, h := range c.ControlPlanes() {
		g.Go(func() error {
			server := apiServer(c.site.kind, h, c.site.url("https", EdgeName(h.Name, APIServer, endEtcd)))
			server = c.audited(c.site.unconfigured(h, server))
			if c.opts.Shape != Units {
				if err := c.run(h, server); err != nil {
					return err
				}
				return c.startKubelet(ctx, h)
			}
			if err := c.installPrograms(h); err != nil {
				return err
			}
			if err := c.startKubelet(ctx, h); err != nil {
				return err
			}
			return c.run(h, server)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return poll.Until(ctx, 100*time.Millisecond, "the API servers to be ready", func(context.Context) error {
		select {
		case <-c.etcd.Done():
			return poll.Final(fmt.Errorf("etcd ended: %w", c.etcd.Err()))
		default:
		}
		return c.checkAPIServers(c.ControlPlanes()...)
	})
}

// checkAPIServers returns why the load balancer sends nobody to a host's API server.
func (c *Cluster) checkAPIServers(hosts ...*Host) error {
	for _, h := range hosts {
		for _, s := range c.lb.Backends() {
			if s.Address == c.site.wires[LoadBalancerEdge(h.Name)].listen && !s.Ready {
				return s.Err
			}
		}
	}
	return nil
}

// startRest starts the managers, the schedulers and the workers, and installs what kubeadm leaves in a cluster.
func (c *Cluster) startRest(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, h := range c.site.hosts {
		if !h.ControlPlane {
			g.Go(func() error { return c.startKubelet(ctx, h) })
			continue
		}
		g.Go(func() error {
			if err := c.run(h, c.site.unconfigured(h, controllerManager(c.site.kind, h, c.site.cloud()))); err != nil {
				return err
			}
			return c.run(h, scheduler(c.site.kind, h))
		})
		g.Go(func() error { return markControlPlane(ctx, c.client, h) })
	}
	if c.opts.Shape == StaticPods {
		g.Go(func() error { return installKubeadmConfig(ctx, c.client, c.site) })
	}
	g.Go(func() error {
		if err := installMetricsAccount(ctx, c.client); err != nil {
			return err
		}
		token, err := metricsToken(ctx, c.client)
		c.token = token
		return err
	})
	return g.Wait()
}

// resolve finds the program of an image: one that was built for exactly this reference, or one for its repository.
func (c *Cluster) resolve(image string) (string, error) {
	for _, b := range c.binaries() {
		if program, ok := b.Image(image); ok {
			return program, nil
		}
	}
	repository := image
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		repository = image[:i]
	}
	if program, ok := c.opts.Programs[repository]; ok {
		return program, nil
	}
	return "", fmt.Errorf("the lab has no program for image %q", image)
}
