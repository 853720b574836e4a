package machines

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Looker looks at the machines of one cluster and restarts MachineDeployments where it may. One call is one pass that does not wait for anything but the
// answers of the two API servers, each bounded by its context.
type Looker struct {
	// Name of the cluster, for sentences.
	Name string
	// Store is where the record is kept, in the seed.
	Store Store
	// Kube and Dynamic reach the user cluster.
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// CCMReady: a cloud-controller-manager runs every loop. PartsReady: machine-controller, its webhook and operating-system-manager have rolled out with
	// their new flags (parts.Result.MachinesReady). The first look at which both hold is since when machines count as made external.
	CCMReady, PartsReady bool
	// Volumes are the CSI drivers that every node has to run (parts.Result.Volumes).
	Volumes []Volume
	// Clock is the real one when nil.
	Clock clock.PassiveClock
}

// Look gathers, remembers what was seen, and judges. An error means that nothing was found out. Who looks does not restart: a restart that has stopped may
// begin anew when it is wanted again (Policy.Wanted).
func (l Looker) Look(ctx context.Context) (Observation, error) {
	f, o, version, err := l.look(ctx)
	if err != nil {
		return o, err
	}
	after := f.Record.clone()
	after.Restart = Next(f, o, Policy{}).Record
	_, err = l.Store.Save(ctx, after, f.Record, version)
	return o, err
}

func (l Looker) look(ctx context.Context) (Facts, Observation, string, error) {
	record, version, err := l.Store.Load(ctx)
	if err != nil {
		return Facts{}, Observation{}, "", err
	}
	f, err := Gather(ctx, l.Kube, l.Dynamic, l.clock().Now())
	if err != nil {
		return Facts{}, Observation{}, "", fmt.Errorf("looking at the machines of cluster %s: %w", l.Name, err)
	}
	before := record.clone()
	if len(f.Unknown) == 0 {
		record.See(f.Nodes)
	}
	if l.CCMReady && l.PartsReady {
		record.External(f.Time)
	}
	if version, err = l.Store.Save(ctx, record, before, version); err != nil {
		return Facts{}, Observation{}, "", err
	}
	f.CCMReady, f.Volumes, f.Record = l.CCMReady, l.Volumes, record
	return f, Observe(f), version, nil
}

func (l Looker) clock() clock.PassiveClock {
	if l.Clock == nil {
		return clock.RealClock{}
	}
	return l.Clock
}
