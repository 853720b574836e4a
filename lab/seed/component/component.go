// Package component decides what the simulated parts of a hosted control plane do: machine-controller with its webhook,
// operating-system-manager, and http-prober. They are programs that a lab's Deployments start, so that the flags of
// those Deployments are what counts.
//
// The habits that a migration stumbles over are kept:
//   - operating-system-manager writes the kubelet's flags for a MachineDeployment, and writes them again only when its
//     template changes: after a flag of operating-system-manager was changed, a Machine that is merely deleted comes
//     back with the old kubelet flags;
//   - the webhook stamps each new Machine with what the webhook itself was started with, whatever the kubelet gets;
//   - machine-controller deletes a Machine's instance and node, and rolls MachineDeployments within maxSurge and
//     maxUnavailable.
//
// They are run by the program that imports this package: Run has to be called first in main.
package component

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Environment of a component.
const (
	EnvComponent = "LAB_SEED_COMPONENT" // set: the process is a component
	EnvProgram   = "LAB_SEED_PROGRAM"   // what http-prober starts
	EnvMachines  = "LAB_SEED_MACHINES"  // URL of the account's machines
)

// Prober is the base name of http-prober.
const Prober = "http-prober"

const period = 250 * time.Millisecond

// Run is the whole program when the process was started as a component, and does not return then.
func Run() {
	if os.Getenv(EnvComponent) == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) //nolint:forbidigo // it stands for main
	defer stop()
	name := filepath.Base(os.Args[0])
	var err error
	switch name {
	case Prober:
		err = prober(ctx, os.Args[1:])
	case "machine-controller":
		err = machineController(ctx, os.Args[1:])
	case "webhook":
		err = webhook(ctx, os.Args[1:])
	case "osm-controller":
		err = osm(ctx, os.Args[1:])
	default:
		err = fmt.Errorf("no component is called %q", name)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, name+":", err) //nolint:forbidigo // it stands for main
		os.Exit(1)                             //nolint:forbidigo,gocritic // it stands for main
	}
	os.Exit(0) //nolint:forbidigo // it stands for main
}

// settings are the flags that the components share.
type settings struct {
	kubeconfig  string
	health      string
	metrics     string
	external    bool
	featureGate string
	clusterDNS  string
	namespace   string
}

func (s *settings) parse(name, external string, args []string, more func(*flag.FlagSet)) error {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.StringVar(&s.kubeconfig, "kubeconfig", "", "of the user cluster")
	set.StringVar(&s.kubeconfig, "worker-cluster-kubeconfig", "", "of the user cluster")
	set.StringVar(&s.health, "health-probe-address", "", "where /readyz is served")
	set.StringVar(&s.metrics, "metrics-address", "", "where /metrics would be served")
	set.BoolVar(&s.external, external, false, "kubelets get --cloud-provider=external")
	set.StringVar(&s.featureGate, "node-kubelet-feature-gates", "", "of kubelets")
	set.StringVar(&s.clusterDNS, "cluster-dns", "", "of kubelets")
	set.StringVar(&s.namespace, "namespace", "", "of the control plane")
	if more != nil {
		more(set)
	}
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("parsing flags: %w", err)
	}
	return nil
}

type clients struct {
	kube kubernetes.Interface
	dyn  dynamic.Interface
}

func (s *settings) connect() (clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return clients{}, fmt.Errorf("reading kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.Timeout = 100, 200, 10*time.Second
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("creating client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("creating client: %w", err)
	}
	return clients{kube, dyn}, nil
}

// serveHealth says ready as soon as the process runs.
func serveHealth(address string) {
	if address == "" {
		return
	}
	server := &http.Server{
		Addr:              address,
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("ok")) // the probe may be gone
		}),
	}
	go func() { _ = server.ListenAndServe() }() // the probe shows it
}

// repeat calls f until ctx ends; what fails is tried again.
func repeat(ctx context.Context, f func(context.Context) error) {
	last := ""
	for {
		text := ""
		if err := f(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != last {
			fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.RFC3339Nano), text) //nolint:forbidigo // the component's log
			last = text
		}
		timer := time.NewTimer(period)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
