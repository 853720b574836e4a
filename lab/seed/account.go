package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/csi"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

// account is the simulated cloud of one user cluster, with the machines in it: each instance that machine-controller
// asks for boots a kubelet that registers a node with the flags that came with it. Machines outlive the controller that
// made them.
type account struct {
	cloud   machineCloud
	server  *http.Server // of the machines
	served  sync.WaitGroup
	version string // of kubelets
	profile kubelet.Profile
	client  func(nodeName string) (kubernetes.Interface, error)
	// host runs a machine's kubelet with its pods until ctx ends; nil: machines run no pods.
	host  func(ctx context.Context, client kubernetes.Interface, o kubelet.Options, args []string) error
	disks csi.Disks

	mu       sync.Mutex
	launched int
	closed   bool
	machines map[string]*booted // by the Machine's UID
}

type booted struct {
	component.Instance
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// startAccount starts an account in a cloud.
func startAccount(
	cloud machineCloud,
	dir, address, version string,
	profile kubelet.Profile,
	client func(nodeName string) (kubernetes.Interface, error),
) (*account, error) {
	a := &account{
		cloud:    cloud,
		version:  version,
		profile:  profile,
		client:   client,
		disks:    csi.Disks{Dir: filepath.Join(dir, "volumes")},
		machines: map[string]*booted{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", a.list)
	mux.HandleFunc("POST /machines", a.launch)
	mux.HandleFunc("DELETE /machines/{uid}", a.terminate)
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	for port, serve := range map[string]func(net.Listener) error{portAccount: cloud.Serve, portMachines: a.server.Serve} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("starting the simulated cloud: %w", err), a.close())
		}
		a.served.Go(func() { _ = serve(l) }) // it ends with close
	}
	return a, nil
}

func (a *account) close() error {
	a.mu.Lock()
	a.closed = true
	machines := a.machines
	a.machines = map[string]*booted{}
	a.mu.Unlock()
	for _, m := range machines {
		m.stop()
	}
	for _, m := range machines {
		<-m.done
	}
	err := errors.Join(a.disks.Close(), a.cloud.Close(), a.server.Close())
	a.served.Wait()
	return err
}

func (a *account) list(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := []component.Instance{}
	for _, m := range a.machines {
		out = append(out, m.Instance)
	}
	slices.SortFunc(out, func(x, y component.Instance) int { return strings.Compare(x.ID, y.ID) })
	_ = json.NewEncoder(w).Encode(out) // the caller may be gone
}

func (a *account) launch(w http.ResponseWriter, r *http.Request) {
	var want component.Instance
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := a.boot(want); err != nil { //nolint:contextcheck // the machine outlives the request
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// boot launches an instance for a Machine that has none, and starts its kubelet.
func (a *account) boot(want component.Instance) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.machines[want.Machine] != nil {
		return nil
	}
	a.launched++
	made, instance, err := a.cloud.boot(a.launched)
	if err != nil {
		return err
	}
	made.Machine, made.KubeletFlags = want.Machine, want.KubeletFlags
	client, err := a.client(made.NodeName)
	if err != nil {
		return err
	}
	options := kubelet.Options{
		HostName: made.NodeName, NodeName: made.NodeName, InternalIP: made.PrivateIP, Version: a.version, Profile: a.profile,
		Labels: map[string]string{"machine-controller/owned-by": want.Machine}, Instance: instance,
	}
	args := append([]string{"--hostname-override=" + made.NodeName}, want.KubeletFlags...)
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the machine runs until it is terminated
	m := &booted{Instance: made, stop: cancel, done: make(chan struct{})}
	a.machines[want.Machine] = m
	go func() {
		defer close(m.done)
		if a.host != nil {
			m.err = a.host(ctx, client, options, args)
			return
		}
		m.err = kubelet.RunNode(ctx, client, options, args, nil)
	}()
	return nil
}

func (a *account) terminate(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	m := a.machines[r.PathValue("uid")]
	delete(a.machines, r.PathValue("uid"))
	a.mu.Unlock()
	if m == nil {
		return
	}
	m.stop()
	<-m.done
	if err := a.cloud.terminate(m.ID); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// kubelets are the flags of every machine's kubelet, by node.
func (a *account) kubelets() map[string][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string][]string{}
	for _, m := range a.machines {
		out[m.NodeName] = m.KubeletFlags
	}
	return out
}
