package kubelet

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"k8s.io/client-go/kubernetes"
)

// RunNode registers a node as a kubelet with these flags would, and keeps its status and lease until ctx ends; it runs
// no pods and needs no host. Of the options it reads HostName, NodeName, InternalIP, Instance, Labels, Taints, Version
// and Profile; args are the kubelet's command line. An error is one of the flags; troubles with the API are tried
// again.
func RunNode(ctx context.Context, client kubernetes.Interface, o Options, args []string, log io.Writer) error {
	if o.Version == "" {
		o.Version = "v1.26.0"
	}
	if o.Profile == (Profile{}) {
		o.Profile = Short()
	}
	flags, err := parseFlags(args, o.Version)
	if err != nil {
		return err
	}
	if flags.inTree() && o.Instance == nil {
		return fmt.Errorf("could not init cloud provider %q: the cloud knows no instance of this host", flags.CloudProvider)
	}
	if log == nil {
		log = io.Discard
	}
	logger := slog.New(slog.NewTextHandler(log, nil)).With("host", o.HostName)
	a := &agent{
		client: client, name: o.NodeName, opts: &o, flags: flags, profile: o.Profile, log: logger,
		machine: newMachine(&o),
	}
	h := &heartbeat{client: client, name: o.NodeName, log: logger}
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		h.run(ctx, o.Profile.LeaseRenew)
	}()
	a.run(ctx)
	<-beating
	return nil
}
