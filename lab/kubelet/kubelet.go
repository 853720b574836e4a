// Package kubelet decides what a kubelet would do on one simulated host, and does it with processes: it starts what the
// host's static pod manifests say, keeps it running, publishes mirror pods under the node's own credential, and
// registers, reports and renews the node itself.
//
// It is a simulation with a purpose: tools that edit manifests are tried against it, so it has the habits of the real
// one that such tools stumble over (the figures were measured, see Measured):
//   - after an edit the mirror pod shows the old pod, Running and Ready, until the new one starts;
//   - every file in the manifest directory without a leading dot is a pod, also X.yaml.bak, which wins over X.yaml;
//   - an invalid manifest that is left in place costs the pod, one that is invalid for a moment does not;
//   - a comment changes nothing, and a revert brings the old config.hash back;
//   - a bad flag shows as running, then terminated, then CrashLoopBackOff, and the back-off is forgotten with the next
//     edit;
//   - a kubelet reads its flags when it starts, and taints a node only when it creates it.
//
// Three layers, each outliving the one above it:
//
//	Kubelet   the host: its service manager (usr/bin/systemctl) and its container runtime
//	engine    the container runtime: processes go on while the kubelet is stopped
//	kubelet   one run of the kubelet, from its start to its stop
//
// Next to its kubelet a host starts the systemd units of a control plane that nobody made with kubeadm (StartUnit,
// systemctl), from their files.
//
// With Options.Pods a kubelet also runs the pods that the API binds to its node, with what they mount and read from
// Secrets and ConfigMaps, each on an address of its own: that is how a seed cluster's Deployments become processes.
//
// A container is a process of this machine, and isolated only where Program says so. Its working directory is the
// host's directory, absolute paths under its mounts are rewritten to that directory, and it dies with the process that
// runs this package, however that ends.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options describe one host.
type Options struct {
	HostDir  string // the host's file system root on this machine
	HostName string // name of the host, as cp-1
	NodeName string // name of its Node, as ip-10-0-0-11.ec2.internal
	// loopback address of the host's network: status.podIP and hostIP, and where probes without a host go
	Address    string
	InternalIP string // address that the Node shows, as 10.0.0.11; default: Address

	// The API, at most one of the three; without any, the kubelet runs its static pods and talks to nobody. Kubeconfig is
	// a path on this machine, read at each start of the kubelet.
	Kubeconfig string
	RESTConfig *rest.Config
	Client     kubernetes.Interface

	// ResolveImage finds the program that stands for an image, as an absolute path.
	ResolveImage func(image string) (program string, err error)
	// UnitProgram finds the program that stands for a path of the host that a systemd unit starts. Default: there is none.
	UnitProgram func(path string) (program string, err error)
	// Env is the environment of every container and unit, before their own.
	Env []string

	// what the cloud says about the host; needed with --cloud-provider=aws, and not to be changed after Start
	Instance *Instance
	Labels   map[string]string
	Taints   []corev1.Taint // at registration only
	Version  string         // kubelet version; default v1.26.0
	Profile  Profile        // default Short()
	// Pods makes the kubelet run the pods too that the API binds to its node. Default: static pods only.
	Pods *PodOptions
	Seed uint64 // of the delays

	// OnExit is told each process that has ended, from a goroutine of its own and before the kubelet reacts. It must not
	// block.
	OnExit func(ExitRecord)
	// Log gets a copy of the host's var/log/kubelet.log.
	Log io.Writer
}

// Kubelet is a host with its kubelet.
type Kubelet struct {
	opts    Options
	log     *slog.Logger
	logFile *os.File
	engine  *engine
	service *service
	units   *units
	control *control
	dice    *dice
}

// New checks the options. Nothing runs before Start.
func New(opts Options) (*Kubelet, error) {
	for _, required := range []struct{ name, value string }{
		{"HostDir", opts.HostDir}, {"HostName", opts.HostName}, {"NodeName", opts.NodeName}, {"Address", opts.Address},
	} {
		if required.value == "" {
			return nil, fmt.Errorf("host %q: option %s is empty", opts.HostName, required.name)
		}
	}
	if opts.ResolveImage == nil {
		return nil, fmt.Errorf("host %q: option ResolveImage is missing", opts.HostName)
	}
	if o := opts.Pods; o != nil && (o.Address == nil || o.Program == nil) {
		return nil, fmt.Errorf("host %q: options Pods.Address and Pods.Program are needed", opts.HostName)
	}
	given := 0
	for _, is := range []bool{opts.Kubeconfig != "", opts.RESTConfig != nil, opts.Client != nil} {
		if is {
			given++
		}
	}
	if given > 1 {
		return nil, fmt.Errorf("host %q: options Kubeconfig, RESTConfig and Client exclude each other", opts.HostName)
	}
	dir, err := filepath.Abs(opts.HostDir)
	if err != nil {
		return nil, fmt.Errorf("host %q: finding directory %q: %w", opts.HostName, opts.HostDir, err)
	}
	opts.HostDir = dir
	if opts.InternalIP == "" {
		opts.InternalIP = opts.Address
	}
	if opts.Version == "" {
		opts.Version = "v1.26.0"
	}
	if opts.UnitProgram == nil {
		opts.UnitProgram = func(path string) (string, error) { return "", fmt.Errorf("the host has no program %s", path) }
	}
	if opts.Profile == (Profile{}) {
		opts.Profile = Short()
	}
	k := &Kubelet{opts: opts, dice: newDice(opts.Seed, opts.HostName)}
	k.engine = &engine{
		host: opts.HostName, hostDir: opts.HostDir, address: opts.Address, env: slices.Clone(opts.Env),
		resolve: opts.ResolveImage, onExit: opts.OnExit,
		pods: map[string]*pod{}, procs: map[*process]bool{},
	}
	k.service = newService(k.boot, opts.Profile.ServiceRestart)
	k.units = &units{
		engine:  k.engine,
		program: opts.UnitProgram,
		delay:   opts.Profile.ServiceRestart,
		loaded:  map[string]*unitService{},
	}
	return k, nil
}

// Start boots the host: its service manager, and then its kubelet. If the kubelet cannot start, for a wrong flag or
// kubeconfig, nothing is left running. The host runs until Stop; ctx bounds the start only.
func (k *Kubelet) Start(ctx context.Context) error {
	if k.log != nil {
		return fmt.Errorf("starting host %q: it was started before", k.opts.HostName)
	}
	if err := k.prepare(); err != nil {
		return fmt.Errorf("starting host %q: %w", k.opts.HostName, err)
	}
	k.engine.log, k.service.log = k.log, k.log
	k.engine.spawner = newSpawner()
	k.service.power(true)
	k.units.power(true)
	control, err := newControl(k.opts.HostDir, k.service, k.units, k.log) //nolint:contextcheck // it serves until close, not until the start has ended
	if err == nil {
		k.control = control
		err = k.service.start()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("starting host %q: %w", k.opts.HostName, err), k.Stop(ctx))
	}
	return nil
}

func (k *Kubelet) prepare() error {
	for _, dir := range []string{manifestDir, "var/lib/kubelet", "var/log/pods", "etc/default", "run", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(k.opts.HostDir, dir), 0o755); err != nil {
			return fmt.Errorf("making the host's directories: %w", err)
		}
	}
	logFile, err := os.OpenFile(
		filepath.Join(k.opts.HostDir, "var/log/kubelet.log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o640,
	)
	if err != nil {
		return fmt.Errorf("opening the kubelet's log: %w", err)
	}
	k.logFile = logFile
	var out io.Writer = logFile
	if k.opts.Log != nil {
		out = io.MultiWriter(logFile, k.opts.Log)
	}
	k.log = slog.New(slog.NewTextHandler(out, nil)).With("host", k.opts.HostName)
	return nil
}

// Stop shuts the host down: kubelet, pods and service manager. When it returns, none of its processes is left; if ctx
// ends before, they are killed without being asked. A stopped host is not started again: make a new one.
func (k *Kubelet) Stop(ctx context.Context) error {
	if k.logFile == nil { // not started, or stopped already
		return nil
	}
	if k.control != nil {
		k.control.close()
	}
	k.service.power(false)
	k.units.power(false)
	k.engine.stopAll(ctx)
	k.engine.spawner.stop()
	err := k.logFile.Close()
	k.logFile = nil
	return err
}

// Restart restarts the kubelet as systemctl does: it reads its flags again, and takes over the pods that run. It
// returns an error if the kubelet does not come up; the service manager goes on to try.
func (k *Kubelet) Restart() error { return k.service.restart() }

// StopKubelet stops the kubelet only. Its pods go on; nothing restarts, reports or renews them.
func (k *Kubelet) StopKubelet() { k.service.stop() }

// StartKubelet starts a kubelet that was stopped; one that runs goes on.
func (k *Kubelet) StartKubelet() error { return k.service.start() }

// Flags returns what the running kubelet was started with, and whether one is running.
func (k *Kubelet) Flags() (Flags, bool) {
	if r := k.service.current(); r != nil {
		return r.flags, true
	}
	return Flags{}, false
}

// PodInfo is one static pod as it is now, whatever the API shows.
type PodInfo struct {
	Namespace  string
	Name       string // with the node's name
	UID        string
	Hash       string // kubernetes.io/config.hash
	Manifest   string // path on the host
	Created    time.Time
	Ready      bool
	Containers []ContainerInfo
}

// ContainerInfo is one container of a static pod.
type ContainerInfo struct {
	Name       string
	Component  string // base name of argv[0]; empty before the first start
	PID        int    // zero if none runs
	StartTicks uint64
	Started    time.Time
	State      string // running, waiting or terminated
	Reason     string // why it does not run
	Message    string
	Restarts   int
	Ready      bool
}

// Pods lists the static pods that were started and not yet wholly stopped, by name.
func (k *Kubelet) Pods() []PodInfo {
	var out []PodInfo
	for _, key := range k.engine.keys() {
		if p := k.engine.pod(key); p != nil {
			out = append(out, p.info())
		}
	}
	return out
}

// Exits lists the processes that have ended so far, in the order in which they did.
func (k *Kubelet) Exits() []ExitRecord {
	k.engine.mu.Lock()
	defer k.engine.mu.Unlock()
	return slices.Clone(k.engine.exits)
}

func (p *pod) info() PodInfo {
	status := p.status()
	info := PodInfo{
		Namespace: p.static.pod.Namespace, Name: p.static.pod.Name, UID: p.static.hash(), Hash: p.static.hash(),
		Manifest: p.static.path, Created: p.created.Time, Ready: true,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.containers {
		s := status.ContainerStatuses[i]
		ci := ContainerInfo{Name: c.spec.Name, Restarts: int(c.restarts), Ready: s.Ready}
		info.Ready = info.Ready && s.Ready
		if c.proc != nil {
			ci.Component, ci.Started = c.proc.component, c.proc.started
		}
		switch {
		case s.State.Running != nil:
			ci.State, ci.PID, ci.StartTicks = "running", c.proc.pid, c.proc.startTicks
		case s.State.Waiting != nil:
			ci.State, ci.Reason, ci.Message = "waiting", s.State.Waiting.Reason, s.State.Waiting.Message
		case s.State.Terminated != nil:
			ci.State, ci.Reason, ci.Message = "terminated", s.State.Terminated.Reason, s.State.Terminated.Message
		}
		info.Containers = append(info.Containers, ci)
	}
	return info
}
