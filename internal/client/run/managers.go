package run

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
)

// managerHosts are the hosts on which managers may run, and those that were found there last.
type managerHosts struct {
	Hosts []hostaccess.Host
	known map[string][]manager.Target
	// deployed finds the managers that no host names, and lastDeployed are those that it found last; nil where there are
	// none.
	deployed     func(context.Context) ([]manager.Target, error)
	lastDeployed []manager.Target
}

// NewManagerHosts leaves out the hosts that were workers before the migration: to ask each of many every second would
// take longer than that. Without a snapshot any host may run a manager.
func NewManagerHosts(hosts []hostaccess.Host, before *v1.Snapshot) *managerHosts {
	m := &managerHosts{known: map[string][]manager.Target{}}
	for _, h := range hosts {
		worker := before != nil &&
			slices.ContainsFunc(
				before.Hosts,
				func(b v1.Host) bool { return b.Name == h.Name() && !b.ControlPlane && !b.APIOnly },
			)
		if !worker {
			m.Hosts = append(m.Hosts, h)
		}
	}
	return m
}

// targetsTimeout is for how long hosts are asked which managers they run.
const targetsTimeout = 5 * time.Second

// Targets are the managers that the hosts' manifests name now. Of a host that cannot be read they are the previous
// ones, since they may still run. To stop reading them and all others would leave a gap in the proof of who owned what.
func (m *managerHosts) Targets(ctx context.Context) []recorder.Target {
	ctx, cancel := context.WithTimeout(ctx, targetsTimeout)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, h := range m.Hosts {
		asking.Go(func() {
			found, err := manager.Targets(ctx, []hostaccess.Host{h}, component.KCM, component.CCM)
			if err != nil {
				return // the engine names it when it needs it
			}
			mu.Lock()
			defer mu.Unlock()
			m.known[h.Name()] = found
		})
	}
	if m.deployed != nil {
		asking.Go(func() {
			if found, err := m.deployed(ctx); err == nil {
				m.lastDeployed = found
			}
		})
	}
	asking.Wait()
	var out []manager.Target
	for _, h := range m.Hosts {
		out = append(out, m.known[h.Name()]...)
	}
	return recorded(manager.AddTargets(out, m.lastDeployed...))
}

func recorded(found []manager.Target) []recorder.Target {
	out := make([]recorder.Target, 0, len(found))
	for _, t := range found {
		out = append(out, recorder.Target{Component: t.Component, Host: t.Host, Address: t.Address})
	}
	return out
}
