// Package seed decides what a management ("seed") cluster of a lab consists of and puts it together: a real API server
// and controller manager whose Deployments become processes, and user clusters whose control planes run in it, a
// namespace each, every one in front of a simulated AWS account of its own and with machines that a simulated
// machine-controller creates.
//
//	seed      etcd, kube-apiserver, kube-controller-manager        processes of the lab
//	          one node, whose kubelet runs every pod               lab/kubelet; there is no scheduler: the lab binds
//	cluster-a apiserver, controller-manager (in-tree AWS)          real programs, as Deployments
//	          machine-controller, its webhook, operating-system-   lab/seed/component, as Deployments: what they were started with is what
//	          manager                                              they do
//	          account, machines of the account                     of the lab; what the API calls nodes are kubelets without pods
//
// Addresses are those of a /16 of the loopback network that belongs to one lab:
//
//	127.N.0.2        proxy to Services by name, for webhooks: there is no DNS and no kube-proxy
//	127.N.0.20+k     account of cluster k       :4566, machines :4567
//	127.N.0.120+k    API of cluster k           :6443, an edge that can be cut
//	127.N.1.1 ...    pods, a new address each
//
// It needs no root and no container runtime. Everything ends with the process that started it.
package seed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/edge"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// Version of Kubernetes, in the seed and in the user clusters: the last one with an in-tree provider for AWS.
const Version = "v1.26.0"

// NodeName is the seed's only node.
const NodeName = "seed-1"

const (
	startTimeout = 5 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// Options describe a seed.
type Options struct {
	// Dir holds everything that is written. It must exist.
	Dir string
	// Binaries are the programs of etcd and Kubernetes, as build.Ensure returns them.
	Binaries build.Binaries
	// Programs are what other images are run by, by repository without tag: the operator, the cloud-controller-manager.
	Programs map[string]kubelet.Program
	// Profile are the delays of the kubelets. Default: kubelet.Short.
	Profile kubelet.Profile
	// AuditReads makes the seed's audit log hold reads too, for who counts requests.
	AuditReads bool
	// LockDir holds the locks of address blocks. Default: transplant-lab/blocks below the user's cache directory.
	LockDir string
	// Log is told what the lab does. Default: nothing is logged.
	Log *slog.Logger
}

// Seed is a running seed. Its methods may be called from several goroutines.
type Seed struct {
	opts    Options
	net     *addresses
	api     *apiserver.Server
	front   *edge.Edge // of the pods' way to the seed's API
	manager *process.Process
	kubelet *kubelet.Kubelet
	proxy   *proxy
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
	pods    corelisters.PodLister
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	clusters []*Cluster
	exits    []kubelet.ExitRecord
	held     map[string]bool // namespaces and apps (namespace/app) whose pods get no node
}

// Start starts a seed without user clusters and returns when a Deployment would run. On an error nothing is left
// running.
func Start(ctx context.Context, o Options) (*Seed, error) {
	if o.Dir == "" {
		return nil, errors.New("starting seed: option Dir is empty")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolving directory %q: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.Profile == (kubelet.Profile{}) {
		o.Profile = kubelet.Short()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Seed{opts: o}
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.start(startCtx); err != nil { //nolint:contextcheck // what it starts lives until Stop
		return nil, errors.Join(fmt.Errorf("starting seed in %q: %w", o.Dir, err), s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Seed) start(ctx context.Context) error {
	begin := time.Now()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	var err error
	if s.net, err = reserve(s.opts.LockDir); err != nil {
		return err
	}
	if s.proxy, err = startProxy(net.JoinHostPort(s.net.at(placeProxy), portProxy), s.backend); err != nil {
		return err
	}
	if err := s.startAPI(ctx); err != nil {
		return err
	}
	s.opts.Log.Info("API of the seed is up", "after", time.Since(begin).Round(time.Millisecond))
	factory := informers.NewSharedInformerFactory(s.client, 0)
	pods := factory.Core().V1().Pods()
	s.pods = pods.Lister()
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { s.bind(running, o) }, UpdateFunc: func(_, o any) { s.bind(running, o) },
	}); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	factory.Start(running.Done())
	s.running.Go(func() {
		<-running.Done()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		return fmt.Errorf("waiting for the seed's pods: %w", ctx.Err())
	}
	if err := s.startManager(); err != nil {
		return err
	}
	if err := s.startKubelet(ctx); err != nil {
		return err
	}
	s.opts.Log.Info("Seed is started", "after", time.Since(begin).Round(time.Millisecond))
	return nil
}

func (s *Seed) startAPI(ctx context.Context) error {
	dir := filepath.Join(s.opts.Dir, "seed")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating directory of the seed: %w", err)
	}
	var err error
	s.api, err = apiserver.Start(
		ctx,
		apiserver.Options{Dir: dir, Version: Version, Audit: true, AuditReads: s.opts.AuditReads, Env: s.proxyEnv()},
	)
	if err != nil {
		return err
	}
	if s.config, err = s.api.Config("lab"); err != nil {
		return err
	}
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return fmt.Errorf("creating the seed's client: %w", err)
	}
	if s.dynamic, err = dynamic.NewForConfig(s.config); err != nil {
		return fmt.Errorf("creating the seed's client: %w", err)
	}
	s.front, err = edge.Start(edge.Options{Name: "pods->seed", Listen: "127.0.0.1:0", Target: s.api.Address()}) //nolint:contextcheck // an edge lives until Close
	return err
}

// proxyEnv leads what is called by a Service's name through the proxy, and nothing else out of the lab.
func (s *Seed) proxyEnv() []string {
	return []string{
		"HTTPS_PROXY=http://" + net.JoinHostPort(s.net.at(placeProxy), portProxy),
		"NO_PROXY=127.0.0.0/8,10.0.0.0/8,localhost",
	}
}

// seedControllers are the controllers that Deployments need. Endpoints are left out: none may hold a loopback address.
const seedControllers = "deployment,replicaset,garbagecollector,namespace,serviceaccount,serviceaccount-token,root-ca-cert-publisher,disruption"

func (s *Seed) startManager() error {
	program, err := s.opts.Binaries.Path("kube-controller-manager", Version)
	if err != nil {
		return err
	}
	kubeconfig, err := s.api.Kubeconfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	pki := filepath.Join(s.opts.Dir, "seed", "pki")
	s.manager, err = process.Start(process.Options{
		Name:   "kube-controller-manager",
		Path:   program,
		Dir:    filepath.Join(s.opts.Dir, "seed"),
		Output: filepath.Join(s.opts.Dir, "seed", "kube-controller-manager.log"),
		Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--controllers=" + seedControllers,
			"--leader-elect=false",
			"--use-service-account-credentials=false",
			"--bind-address=" + s.net.at(placeManager),
			"--root-ca-file=" + filepath.Join(pki, "ca.crt"),
			"--service-account-private-key-file=" + filepath.Join(pki, "sa.key"),
			"--kube-api-qps=200",
			"--kube-api-burst=400",
			"--concurrent-gc-syncs=5",
			"--flex-volume-plugin-dir=" + filepath.Join(s.opts.Dir, "seed", "flex"),
		},
	})
	return err
}

func (s *Seed) startKubelet(ctx context.Context) error {
	config := rest.CopyConfig(s.config)
	k, err := kubelet.New(kubelet.Options{
		HostDir:      filepath.Join(s.opts.Dir, NodeName),
		HostName:     NodeName,
		NodeName:     NodeName,
		Address:      s.net.at(placeNode),
		RESTConfig:   config,
		Profile:      s.opts.Profile,
		Version:      Version,
		ResolveImage: func(image string) (string, error) { return "", fmt.Errorf("image %q: no static pods on a seed", image) },
		Env:          []string{"HOME=/nonexistent"},
		Pods: &kubelet.PodOptions{
			Address: s.net.pod, Program: s.program, Env: s.podEnv(), Server: "https://" + s.front.Addr(), Variable: accessKey,
		},
		OnExit: func(r kubelet.ExitRecord) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.exits = append(s.exits, r)
		},
	})
	if err != nil {
		return err
	}
	s.kubelet = k
	return k.Start(ctx)
}

func (s *Seed) podEnv() []corev1.EnvVar {
	host, port, _ := net.SplitHostPort(s.front.Addr()) // an edge's address has both
	return []corev1.EnvVar{
		{Name: "HTTPS_PROXY", Value: "http://" + net.JoinHostPort(s.net.at(placeProxy), portProxy)},
		{Name: "NO_PROXY", Value: "127.0.0.0/8,10.0.0.0/8,localhost"},
		{Name: "KUBERNETES_SERVICE_HOST", Value: host}, {Name: "KUBERNETES_SERVICE_PORT", Value: port},
	}
}

// Stop ends everything. When it returns, none of the lab's processes is left.
func (s *Seed) Stop(ctx context.Context) error {
	var errs []error
	if s.kubelet != nil {
		errs = append(errs, s.kubelet.Stop(ctx))
	}
	s.mu.Lock()
	clusters := slices.Clone(s.clusters)
	s.mu.Unlock()
	for _, c := range clusters {
		errs = append(errs, c.close())
	}
	if s.stop != nil {
		s.stop()
	}
	if s.manager != nil {
		s.manager.Kill()
	}
	if s.api != nil {
		s.api.Stop()
	}
	s.running.Wait()
	if s.front != nil {
		s.front.Close()
	}
	if s.proxy != nil {
		errs = append(errs, s.proxy.close())
	}
	if s.net != nil {
		s.net.release()
	}
	return errors.Join(errs...)
}

// Config returns the seed's API for its administrator, without limits.
func (s *Seed) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Client is the administrator's.
func (s *Seed) Client() kubernetes.Interface { return s.client }

// Dynamic is the administrator's client for kinds without Go types.
func (s *Seed) Dynamic() dynamic.Interface { return s.dynamic }

// API is the seed's API server, with its audit log.
func (s *Seed) API() *apiserver.Server { return s.api }

// Front is the way that every pod takes to the seed's API. When it is cut, the seed's API is down for the operator; the
// kubelet, the controllers and the lab go another way.
func (s *Seed) Front() *edge.Edge { return s.front }

// FrontConfig is the administrator's configuration by way of Front, for an operator that runs in the test's process.
func (s *Seed) FrontConfig() (*rest.Config, error) {
	u := url.URL{Scheme: "https", Host: s.front.Addr()}
	c := s.Config()
	c.Host = u.String()
	return c, nil
}

// Kubeconfig writes the administrator's kubeconfig and returns its path.
func (s *Seed) Kubeconfig() (string, error) { return s.api.Kubeconfig("lab") }

// Dir holds everything that the lab writes.
func (s *Seed) Dir() string { return s.opts.Dir }

// Exits lists the containers that have ended, in order.
func (s *Seed) Exits() []kubelet.ExitRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.exits)
}
