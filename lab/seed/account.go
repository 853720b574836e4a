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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

const region = "us-east-1"

// account is the simulated AWS account of one user cluster, with the machines in it: each instance that
// machine-controller asks for boots a kubelet that registers a node with the flags that came with it. Machines outlive
// the controller that made them.
type account struct {
	sim     *awssim.Server
	servers []*http.Server
	served  sync.WaitGroup
	version string // of kubelets
	profile kubelet.Profile
	client  func(nodeName string) (kubernetes.Interface, error)
	// host runs a machine's kubelet with its pods until ctx ends; nil: machines run no pods.
	host  func(ctx context.Context, client kubernetes.Interface, o kubelet.Options, args []string) error
	disks disks

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

// startAccount starts an account. Any access key may call: a manager's is the name of its pod, so that the audit log
// tells the pods of one Deployment apart.
func startAccount(
	dir, address, version string,
	profile kubelet.Profile,
	client func(nodeName string) (kubernetes.Interface, error),
) (*account, error) {
	sim, err := awssim.New(awssim.Options{Region: region, AuditFile: filepath.Join(dir, "audit.jsonl")})
	if err != nil {
		return nil, err
	}
	a := &account{
		sim:      sim,
		version:  version,
		profile:  profile,
		client:   client,
		disks:    disks{dir: filepath.Join(dir, "volumes")},
		machines: map[string]*booted{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", a.list)
	mux.HandleFunc("POST /machines", a.launch)
	mux.HandleFunc("DELETE /machines/{uid}", a.terminate)
	for port, handler := range map[string]http.Handler{portAccount: sim, portMachines: mux} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("starting simulated AWS: %w", err), a.close())
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		a.servers = append(a.servers, server)
		a.served.Go(func() { _ = server.Serve(l) }) // it ends with close
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
	err := errors.Join(a.disks.close(), a.sim.Close())
	for _, s := range a.servers {
		err = errors.Join(err, s.Close())
	}
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
	i, err := a.sim.AddInstance(awssim.Instance{PrivateIP: fmt.Sprintf("10.0.%d.%d", 1+a.launched/200, 10+a.launched%200)})
	if err != nil {
		return err
	}
	want.ID, want.PrivateIP, want.NodeName = i.ID, i.PrivateIP, i.PrivateDNS
	want.ProviderID = "aws:///" + i.Zone + "/" + i.ID
	client, err := a.client(i.PrivateDNS)
	if err != nil {
		return err
	}
	options := kubelet.Options{
		HostName: i.PrivateDNS, NodeName: i.PrivateDNS, InternalIP: i.PrivateIP, Version: a.version, Profile: a.profile,
		Labels: map[string]string{"machine-controller/owned-by": want.Machine},
		Instance: &kubelet.Instance{
			ProviderID: want.ProviderID, Zone: i.Zone, Region: region, InstanceType: i.Type,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: i.PrivateIP}, {Type: corev1.NodeInternalDNS, Address: i.PrivateDNS},
				{Type: corev1.NodeHostName, Address: i.PrivateDNS},
			},
		},
	}
	args := append([]string{"--hostname-override=" + i.PrivateDNS}, want.KubeletFlags...)
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the machine runs until it is terminated
	m := &booted{Instance: want, stop: cancel, done: make(chan struct{})}
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
	if err := a.sim.SetInstanceState(m.ID, "terminated"); err != nil {
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
