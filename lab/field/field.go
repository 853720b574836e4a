// Package field decides what a cluster is like that nobody here has made: a real API server of a chosen version with
// the objects of a kubeadm cluster on a cloud, control-plane hosts with their files, a stand-in for each of their
// processes, and a simulated account that holds the instances.
//
// Nothing in it acts: no controller runs, so what is looked at stays as it is, and whoever writes is the program that
// is tested. Snapshots are captured here, and here it is counted what a look costs.
package field

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
)

// Options describe a field.
type Options struct {
	// Dir holds everything that is written. It must exist.
	Dir string
	// Version of kube-apiserver, of a set of package build, and of the components that the hosts' manifests name.
	Version string
	// Provider is the in-tree provider: aws or gce. Default: aws.
	Provider string
	// Workers are made next to the two that every field has, with a load balancer for every tenth.
	Workers int
	// Progress is told what has to be built first. Default: nobody.
	Progress io.Writer
}

// Field is a cluster to look at.
type Field struct {
	Server *apiserver.Server
	// Config is that of a user who may do everything.
	Config *rest.Config
	// Kubeconfig is the path of that user's.
	Kubeconfig string
	// Account is the simulated cloud; nil where the provider has none here.
	Account *Account

	options   Options
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	processes []*process.Process
}

// Host is a control-plane host: its name, its Node's, and its address.
type Host struct{ Name, Node, IP string }

// Hosts are the control-plane hosts.
func (f *Field) Hosts() []Host {
	node := "ip-10-0-0-1%d.ec2.internal"
	if f.options.Provider == "gce" {
		node = "prod-cp-%d"
	}
	var out []Host
	for i := 1; i <= 3; i++ {
		out = append(out, Host{Name: fmt.Sprintf("cp-%d", i), Node: fmt.Sprintf(node, i), IP: fmt.Sprintf("10.0.0.1%d", i)})
	}
	return out
}

// User is who looks; what it asks for stands in the audit log under this name.
const User = "operator"

// Start makes a field. On an error nothing is left running.
func Start(ctx context.Context, o Options) (*Field, error) {
	if o.Provider == "" {
		o.Provider = "aws"
	}
	server, err := apiserver.Start(
		ctx,
		apiserver.Options{Dir: o.Dir, Version: o.Version, Progress: o.Progress, AuditReads: true},
	)
	if err != nil {
		return nil, err
	}
	f := &Field{Server: server, options: o}
	if err := f.fill(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("filling the field in %q: %w", o.Dir, err), f.Stop())
	}
	return f, nil
}

func (f *Field) fill(ctx context.Context) error {
	maker, err := f.Server.Config("maker")
	if err != nil {
		return err
	}
	if f.kube, err = kubernetes.NewForConfig(maker); err != nil {
		return err
	}
	if f.dynamic, err = dynamic.NewForConfig(maker); err != nil {
		return err
	}
	if f.Config, err = f.Server.Config(User); err != nil {
		return err
	}
	if f.Kubeconfig, err = f.Server.Kubeconfig(User); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{f.seed, f.workers, f.account, f.balancers, f.hosts, f.leases} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// HostAccess is the value of --host-access.
func (f *Field) HostAccess() string { return "local:" + f.path("hosts") }

// Cloud is the value of --cloud; empty where there is no account.
func (f *Field) Cloud() string {
	if f.Account == nil {
		return ""
	}
	return "aws:routeTable=" + RouteTable
}

func (f *Field) path(parts ...string) string {
	return filepath.Join(append([]string{f.options.Dir}, parts...)...)
}

// Stop ends everything.
func (f *Field) Stop() error {
	var errs []error
	for _, p := range f.processes {
		p.Kill()
	}
	if f.Account != nil {
		errs = append(errs, f.Account.stop())
	}
	f.Server.Stop()
	return errors.Join(errs...)
}

// write writes a file that only its owner may read, and the directories above it.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
