package bench

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// handoverPlanned measures how the work changes hands when the leader is told to end.
func handoverPlanned(ctx context.Context, w *world) ([]Result, error) {
	return w.measureHandover(ctx, syscall.SIGTERM)
}

// handoverCrash measures so when the leader is killed.
func handoverCrash(ctx context.Context, w *world) ([]Result, error) {
	return w.measureHandover(ctx, syscall.SIGKILL)
}

// handoverCrashMigration measures so when there is a second lease.
func handoverCrashMigration(ctx context.Context, w *world) ([]Result, error) {
	return w.measureHandover(ctx, syscall.SIGKILL, "--enable-leader-migration")
}

func (w *world) measureHandover(ctx context.Context, signal syscall.Signal, flags ...string) ([]Result, error) {
	w.flags = flags
	if _, err := w.addNodes(ctx, 0, w.nodes, settled); err != nil {
		return nil, err
	}
	leader, err := w.startQuick(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.slow(); err != nil {
		return nil, err
	}
	r := w.result(w.scenario.name)
	s := samples{of: w.options.Rounds}
	for round := range w.options.Rounds {
		standby, err := w.standby(ctx)
		if err != nil {
			return nil, err
		}
		begin, err := w.from(standby)
		if err != nil {
			return nil, err
		}
		begin.cpu = 0 // its start counts
		took, ok, err := w.handover(ctx, leader, standby, signal, round)
		if err != nil {
			return nil, err
		}
		if ok {
			s.times = append(s.times, took)
			s.total = max(s.total, took)
		}
		if err := begin.into(&r); err != nil {
			return nil, err
		}
		leader.Kill() // one that has not ended within the limit
		leader = standby
	}
	slices.Sort(s.times)
	s.into(&r, w.options.Limit)
	return []Result{r}, nil
}

// standby starts a manager and waits until it serves and has had the time to see who leads.
func (w *world) standby(ctx context.Context) (*manager, error) {
	m, err := w.start()
	if err != nil {
		return nil, err
	}
	if err := m.Serves(ctx, w.preparing()); err != nil {
		return nil, err
	}
	_, err = poll(ctx, m, 100*time.Millisecond, w.options.pauses.standby, func() (bool, error) { return false, nil })
	return m, err
}

// handover signals the leader while a node joins. It returns how long it took until another process held the leases and
// the node was initialised.
func (w *world) handover(
	ctx context.Context,
	leader, standby *manager,
	signal syscall.Signal,
	round int,
) (time.Duration, bool, error) {
	watch, err := w.watchNodes(ctx, untainted)
	if err != nil {
		return 0, false, err
	}
	defer watch.close()
	before, err := w.leases(ctx)
	if err != nil {
		return 0, false, err
	}
	start := time.Now()
	if err := leader.Signal(signal); err != nil {
		return 0, false, err
	}
	created, err := w.addNodes(ctx, w.nodes+round, 1, fresh)
	if err != nil {
		return 0, false, err
	}
	taken, err := poll(ctx, standby, 20*time.Millisecond, w.options.Limit, func() (bool, error) {
		now, err := w.leases(ctx)
		return takenOver(before, now), err
	})
	if err != nil || !taken {
		return 0, false, err
	}
	held := time.Since(start)
	s, err := watch.wait(ctx, created, standby, w.options.Limit)
	if err != nil || len(s.times) < s.of {
		return 0, false, err
	}
	return max(held, s.times[0]), true, nil
}
