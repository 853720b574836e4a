package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// run is one life of the kubelet process.
type run struct {
	flags  Flags
	cancel context.CancelFunc
	wg     sync.WaitGroup
	idle   func() // closes connections to the API
	shown  *visible
}

// boot does what a kubelet does before it is up: it reads its flags and credentials. An error ends it.
func (k *Kubelet) boot() (*run, error) {
	flags, err := readFlags(k.opts.HostDir, k.opts.Version)
	if err != nil {
		return nil, err
	}
	if flags.inTree() && k.opts.Instance == nil {
		return nil, fmt.Errorf("could not init cloud provider %q: the cloud knows no instance of this host", flags.CloudProvider)
	}
	client, idle, err := k.client()
	if err != nil {
		return nil, err
	}
	nodeName := k.opts.NodeName
	if flags.HostnameOverride != "" && !flags.inTree() { // an in-tree cloud names the node itself
		nodeName = flags.HostnameOverride
	}
	shown, err := k.show(flags.Args)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // outlives the call that started it: it ends with the service's stop
	r := &run{flags: flags, cancel: cancel, idle: idle, shown: shown}
	k.log.Info("Kubelet starts", "version", k.opts.Version, "flags", flags.Args, "node", nodeName)
	r.runPods(ctx, k, client, nodeName)
	if client != nil {
		a := &agent{
			client: client, name: nodeName, opts: &k.opts, flags: flags, profile: k.opts.Profile, log: k.log,
			machine: newMachine(&k.opts),
		}
		h := &heartbeat{client: client, name: nodeName, log: k.log}
		if k.opts.Pods != nil {
			if a.claims = k.opts.Pods.Claims; a.claims != nil {
				a.announce = a.claims.Begin(flags) // before a volume is mounted
			}
			r.runAPIPods(ctx, k, client, nodeName)
		}
		r.wg.Go(func() { a.run(ctx) })
		r.wg.Go(func() { h.run(ctx, k.opts.Profile.LeaseRenew) })
	}
	return r, nil
}

// runPods has one worker per pod name, for what the manifests say and for what an earlier kubelet left running.
func (r *run) runPods(ctx context.Context, k *Kubelet, client kubernetes.Interface, nodeName string) {
	m := newMirrors(client, nodeName, k.opts.Profile, k.log)
	s := newSource(k.opts.HostDir, nodeName, k.opts.Profile, k.log)
	workers := map[string]*worker{}
	ensure := func(key string, want *staticPod) {
		w := workers[key]
		if w == nil {
			m.claim(key)
			w = &worker{
				key: key, engine: k.engine, mirrors: m, profile: k.opts.Profile, dice: k.dice, log: k.log,
				probing: map[*container]*process{}, wake: make(chan struct{}, 1), want: want,
			}
			workers[key] = w
			r.wg.Go(func() { w.run(ctx) })
			return
		}
		w.set(want)
	}
	var published sync.Once
	r.wg.Go(func() {
		s.run(ctx, func(pods map[string]*staticPod) {
			for key, want := range pods {
				ensure(key, want)
			}
			for _, key := range k.engine.keys() {
				if p := k.engine.pod(key); pods[key] == nil && p != nil && p.static.path != "" {
					ensure(key, nil)
				}
			}
			for key, w := range workers {
				if pods[key] == nil {
					w.set(nil)
				}
			}
			// Not before: without the manifests, every mirror pod would look like an orphan.
			published.Do(func() { r.wg.Go(func() { m.run(ctx) }) })
		})
	})
}

func (r *run) stop() {
	r.cancel()
	r.wg.Wait()
	r.shown.end()
	r.idle()
}

// client connects to the API as the options say; it is nil if they name none.
func (k *Kubelet) client() (kubernetes.Interface, func(), error) {
	nothing := func() {}
	if k.opts.Client != nil {
		return k.opts.Client, nothing, nil
	}
	var config *rest.Config
	switch {
	case k.opts.RESTConfig != nil:
		config = rest.CopyConfig(k.opts.RESTConfig)
	case k.opts.Kubeconfig != "":
		loaded, err := clientcmd.BuildConfigFromFlags("", k.opts.Kubeconfig)
		if err != nil {
			return nil, nil, fmt.Errorf("reading kubeconfig %q: %w", k.opts.Kubeconfig, err)
		}
		config = loaded
	default:
		return nil, nothing, nil
	}
	config.UserAgent = "kubelet/" + k.opts.Version
	config.QPS, config.Burst = 50, 100
	config.Timeout = 10 * time.Second // a frozen API server must not freeze the kubelet
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("building the kubelet's client: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("building the kubelet's client: %w", err)
	}
	return client, func() { closeIdle(httpClient) }, nil
}

func closeIdle(c *http.Client) {
	type closer interface{ CloseIdleConnections() }
	for t := c.Transport; t != nil; {
		if i, ok := t.(closer); ok {
			i.CloseIdleConnections()
		}
		w, ok := t.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			return
		}
		t = w.WrappedRoundTripper()
	}
}
