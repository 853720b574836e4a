package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
	"github.com/transplant-dev/transplant/internal/snapshot/syncfailure"
)

// record watches who owns the loops, next to a run, into the run's ownership log. It gives what managers show of their
// objectives to the watch, and returns what stops it.
func record(
	ctx context.Context,
	c *client.Client,
	p *v1.Plan,
	run string,
	watch *objectives.Watch,
) (func(), error) {
	path, err := c.LogPath(p.Cluster.UID, run)
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
	config := rest.CopyConfig(c.Config)
	config.Timeout = 0
	watching, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("using the kubeconfig: %w", err)
	}
	before, err := journal.Before(ctx, c.Kube)
	if err != nil {
		before = nil // it is of use only to leave the workers out
	}
	managers := NewManagerHosts(c.Hosts, before)
	managers.deployed = func(ctx context.Context) ([]manager.Target, error) {
		return manager.DeployedTargets(ctx, c.Kube, p, client.HostsOfNodes(c.Hosts, before), component.KCM, component.CCM)
	}
	var once sync.Once
	r := recorder.NewRecorder(recorder.RecorderOptions{
		Client:    watching,
		Namespace: component.Namespace,
		Leases:    []string{component.KCM, component.CCM, p.Options.LeaseName},
		Targets:   func() []recorder.Target { return managers.Targets(ctx) },
		Scrape: func(ctx context.Context, t recorder.Target) (v1.Manager, error) {
			m, err := c.Scrape(ctx, t.Component, t.Host, t.Address)
			if err == nil && len(m.Series) > 0 {
				who := t.Component + "@" + t.Host
				watch.Add(objectives.Reading{
					At:      time.Now(),
					Manager: who,
					Started: m.ProcessStarted,
					Series:  m.Series,
				})
				publish(c.Progress, watch)
			}
			return m, err
		},
		Processes: c.Processes,
		Sink: func(e v1.OwnershipEvent) {
			if err := file.Append(e); err != nil {
				once.Do(func() { c.Narrate("the report will not prove who owned what: %v", err) })
			}
		},
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var looking sync.WaitGroup
		looking.Go(func() {
			events := watching.CoreV1().Events(corev1.NamespaceAll).List
			syncfailure.Follow(ctx, events, func(now time.Time, failing map[string]v1.SyncFailure) {
				watch.AddFailing(now, failing)
				publish(c.Progress, watch)
			})
		})
		r.Run(ctx)
		looking.Wait()
	}()
	return func() {
		cancel()
		<-done
		if err := file.Close(); err != nil {
			c.Narrate("closing the ownership log %s: %v", path, err)
		}
	}, nil
}

// publish tells onlookers how the objectives stand.
func publish(progress *lock.Progress, watch *objectives.Watch) {
	if progress != nil {
		progress.Judged(watch.Words())
	}
}
