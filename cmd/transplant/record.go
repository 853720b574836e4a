package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/ownership"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
)

// logPath is where the ownership log of a run is kept on this machine.
func (c *connection) logPath(uid, run string) (string, error) {
	for _, name := range []string{uid, run} { // of the journal, which others may have written
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return "", fmt.Errorf("the journal names %q where a plain name belongs: no file of this machine is called by that; find out who wrote the journal", name)
		}
	}
	dir, err := c.stateHome()
	if err != nil {
		return "", fmt.Errorf("finding a place for the ownership log: %w; name one with --state-dir", err)
	}
	return filepath.Join(dir, uid, run+".ownership.jsonl"), nil
}

// stateHome is the directory of this machine that is ours.
func (c *connection) stateHome() (string, error) {
	if c.stateDir != "" {
		return c.stateDir, nil
	}
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "transplant"), nil
}

// record watches who owns the loops, beside a run, into the run's ownership log. It returns what stops it.
func (c *connection) record(ctx context.Context, p *v1.Plan, run string) (func(), error) {
	path, err := c.logPath(p.Cluster.UID, run)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making a place for the ownership log: %w; name another with --state-dir", err)
	}
	file, err := ownership.OpenLog(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name another place with --state-dir", err)
	}
	// A client's timeout ends its watches, too.
	config := rest.CopyConfig(c.config)
	config.Timeout = 0
	watching, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("using the kubeconfig: %w", err)
	}
	before, err := journal.Before(ctx, c.kube)
	if err != nil {
		before = nil // it is of use only to leave the workers out
	}
	managers := newManagerHosts(c.hosts, before)
	managers.deployed = func(ctx context.Context) ([]manager.Target, error) {
		return manager.DeployedTargets(ctx, c.kube, p, hostsOfNodes(c.hosts, before), component.KCM, component.CCM)
	}
	var once sync.Once
	r := ownership.NewRecorder(ownership.RecorderOptions{
		Client: watching, Namespace: planlayout.Namespace, Leases: []string{component.KCM, component.CCM, p.Options.LeaseName},
		Targets: func() []ownership.Target { return managers.targets(ctx) },
		Scrape: func(ctx context.Context, t ownership.Target) (v1.Manager, error) {
			return c.scrape(ctx, t.Component, t.Host, t.Address)
		},
		Processes: c.processes,
		Sink: func(e v1.OwnershipEvent) {
			if err := file.Append(e); err != nil {
				once.Do(func() { c.narrate("the report will not prove who owned what: %v", err) })
			}
		},
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
		if err := file.Close(); err != nil {
			c.narrate("closing the ownership log %s: %v", path, err)
		}
	}, nil
}

func (c *connection) processes(ctx context.Context, host, component string) ([]v1.Process, error) {
	for _, h := range c.hosts {
		if h.Name() == host {
			return h.Processes(ctx, component)
		}
	}
	return nil, fmt.Errorf("host %q is not in --host-access", host)
}
