package fleet

import (
	"context"
	"sync"
	"time"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/operator"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// simulated stands for the engine and for user clusters, for who measures the operator itself: a part of a migration takes a second, and each look at the
// machines finds one more that is external.
type simulated struct {
	mu      sync.Mutex
	planes  map[string]*simulatedPlane
	looks   int
	running int
	most    int // parts that were executed at once
}

type simulatedPlane struct {
	handover, finish state.Stage
	migrated         int
}

const simulatedMachines = 3

var (
	_ operator.Engine   = (*simulated)(nil)
	_ operator.Parts    = (*simulated)(nil)
	_ operator.Machines = simulatedPool{}
	_ operator.Rules    = (*simulated)(nil)
)

func (s *simulated) plane(t operator.Target) *simulatedPlane {
	if s.planes[t.Name] == nil {
		s.planes[t.Name] = &simulatedPlane{}
	}
	return s.planes[t.Name]
}

func (s *simulated) Run(ctx context.Context, t operator.Target, part state.Part, _ bool, _ func(step.Event), stop <-chan struct{}) error {
	s.mu.Lock()
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-stop:
		return step.ErrInterrupted
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if part == state.Handover {
		s.plane(t).handover = state.Done
	} else {
		s.plane(t).finish = state.Done
	}
	return nil
}

func (s *simulated) Journal(_ context.Context, t operator.Target) (state.Journal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	p := s.plane(t)
	return state.Journal{Known: true, At: time.Now(), Handover: p.handover, Finish: p.finish}, nil
}

func (s *simulated) Owners(_ context.Context, t operator.Target) (state.Owners, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	loops := []string{"service", "route", "cloud-node-lifecycle"}
	if s.plane(t).handover == state.Done {
		return state.Owners{External: loops}, nil
	}
	return state.Owners{InTree: loops}, nil
}

func (s *simulated) Reach(context.Context, operator.Target) error { return nil }

func (s *simulated) Close(operator.Target) {}

func (s *simulated) Ensure(context.Context, operator.Target) (operator.PartsSeen, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return operator.PartsSeen{Parts: state.Parts{Ready: true, CSIReady: true, CSI: "simulated"}}, nil
}

func (s *simulated) RenewToken(context.Context, operator.Target) error { return nil }

func (s *simulated) Refusals(context.Context, *kv1.Cluster, bool) []string { return nil }

func (s *simulated) Repair(context.Context, string, *kv1.Cluster) (bool, error) { return false, nil }

type simulatedPool struct{ *simulated }

func (p simulatedPool) Pass(_ context.Context, t operator.Target, _ operator.MachinesAsked) (state.Machines, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	plane := p.plane(t)
	plane.migrated = min(plane.migrated+1, simulatedMachines)
	return state.Machines{Total: simulatedMachines, Migrated: plane.migrated, Done: plane.migrated == simulatedMachines}, "", nil
}
