package trial

import (
	"context"
	"net"
	"os"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// MigrationLease is the lease of a migration with default options.
const MigrationLease = "cloud-provider-extraction-migration"

// Watch is a recorder of the lab's own, which a migration under test cannot influence: its own token, its own looks.
type Watch struct {
	trial  *Trial
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	events []v1.OwnershipEvent
}

// Watch starts to record who owns the loops.
func (t *Trial) Watch(ctx context.Context) (*Watch, error) {
	if _, err := local.Open(t.HostAccess()); err != nil {
		return nil, err
	}
	client := recorder.NewClient(nil)
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{trial: t, cancel: cancel, done: make(chan struct{})}
	r := recorder.NewRecorder(recorder.RecorderOptions{
		Client:    t.Client(),
		Namespace: "kube-system",
		Leases:    []string{cluster.ControllerManager, cluster.CloudControllerManager, MigrationLease},
		Targets: func() []recorder.Target {
			hosts, err := local.Open(t.HostAccess()) // again: hosts come and go
			if err != nil {
				return nil
			}
			found, err := t.targets(ctx, hosts)
			if err != nil {
				return nil
			}
			out := make([]recorder.Target, 0, len(found))
			for _, f := range found {
				out = append(out, recorder.Target{Component: f.Component, Host: f.Host, Address: f.Address})
			}
			return out
		},
		Scrape: func(ctx context.Context, target recorder.Target) (v1.Manager, error) {
			return recorder.Scrape(ctx, client, target.Address, t.MetricsToken())
		},
		Processes: func(ctx context.Context, host, component string) ([]v1.Process, error) {
			hosts, err := local.Open(t.HostAccess())
			if err != nil {
				return nil, err
			}
			for _, h := range hosts {
				if h.Name() == host {
					return h.Processes(ctx, component)
				}
			}
			return nil, nil // its machine was switched off before it was taken away
		},
		Sink: func(e v1.OwnershipEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	})
	go func() {
		defer close(w.done)
		defer client.CloseIdleConnections()
		r.Run(ctx)
	}()
	return w, nil
}

// targets are the managers that should run: those of manifests and units, or the processes that run where neither is.
func (t *Trial) targets(ctx context.Context, hosts []hostaccess.Host) ([]manager.Target, error) {
	components := []string{cluster.ControllerManager, cluster.CloudControllerManager}
	if t.shape != cluster.Deployments {
		return manager.Targets(ctx, hosts, components...)
	}
	ports := map[string]string{cluster.ControllerManager: "10257", cluster.CloudControllerManager: "10258"}
	var out []manager.Target
	for _, h := range hosts {
		known, err := t.Host(h.Name())
		if err != nil {
			return nil, err
		}
		for _, component := range components {
			procs, err := h.Processes(ctx, component)
			if err != nil {
				return nil, err
			}
			if len(procs) > 0 {
				out = append(
					out,
					manager.Target{Component: component, Host: h.Name(), Address: net.JoinHostPort(known.Address, ports[component])},
				)
			}
		}
	}
	return out, nil
}

// Judge ends the recording and judges it together with the cloud's audit log.
func (w *Watch) Judge() (ownership.Judgement, error) {
	w.cancel()
	<-w.done
	file, err := os.Open(w.trial.AuditFile())
	if err != nil {
		return ownership.Judgement{}, err
	}
	defer file.Close()
	calls, err := ownership.ReadCalls(file)
	if err != nil {
		return ownership.Judgement{}, err
	}
	return ownership.Judge(w.events, calls, w.trial.Keys(), ownership.Options{}), nil
}
