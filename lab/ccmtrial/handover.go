package ccmtrial

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/lab/ccmlab"
)

// handover is how the work passed when a leader was told to end.
type handover struct {
	takeover
	signalled time.Time
	code      int // that the old leader ended with
}

// sinceSignal is from the signal to the successor's first act; the old leader goes on for a part of it.
func (h handover) sinceSignal() time.Duration { return h.first.at.Sub(h.signalled) }

// handOver ends a leader that is at work, and waits until the standby is. Only the cloud's log counts: both sides of a
// handover write events.
func (w *world) handOver(ctx context.Context, leader, standby *ccmlab.Manager) (handover, error) {
	var h handover
	if err := w.busy(ctx, leader, time.Now(), ensureRequests, patience); err != nil {
		return h, err
	}
	h.signalled = time.Now()
	if err := leader.Signal(syscall.SIGTERM); err != nil {
		return h, err
	}
	if err := w.busy(ctx, standby, h.signalled, 1, patience); err != nil {
		return h, err
	}
	select {
	case <-leader.Done():
	case <-time.After(patience):
		return h, fmt.Errorf("%s does not end", leader.Name())
	}
	h.code = leader.ExitCode()
	// What it had sent arrives before this does.
	if err := w.busy(ctx, standby, time.Now(), ensureRequests, patience); err != nil {
		return h, err
	}
	all, err := w.acts(time.Time{})
	if err != nil {
		return h, err
	}
	var found bool
	if h.takeover, found = takeOver(onlyCloud(all), leader.Name(), standby.Name()); !found {
		return h, fmt.Errorf("%s has not acted", standby.Name())
	}
	return h, nil
}

// crash is how the work passed when a leader of both leases was killed: how long each loop had nobody.
type crash struct {
	main, migration time.Duration // until the lease had another holder
	nodes           time.Duration // until a node that joined at that moment was initialised, by a loop of the main lease
	services        time.Duration // until a load balancer was changed, by a loop of the migration lease
}

func (c crash) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf(
		"main lease %s, migration lease %s, nodes %s, load balancers %s",
		round(c.main),
		round(c.migration),
		round(c.nodes),
		round(c.services),
	)
}

// crash kills a leader that is at work.
func (w *world) crash(ctx context.Context, leader, standby *ccmlab.Manager, limit time.Duration) (crash, error) {
	var c crash
	terms := map[string]term{}
	for _, lease := range []string{mainLease, migrationLease} {
		t, err := w.term(ctx, lease)
		if err != nil {
			return c, err
		}
		terms[lease] = t
	}
	if err := w.busy(ctx, leader, time.Now(), ensureRequests, patience); err != nil {
		return c, err
	}
	leader.Kill()
	began := time.Now()
	if w.inPods {
		if err := w.testify(ctx, leader.Name()); err != nil {
			return c, err
		}
	}
	if err := w.join(ctx, "node-of-the-crash"); err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, step := range []struct {
		took *time.Duration
		wait func() error
	}{
		{&c.main, func() error { return w.passes(ctx, mainLease, terms[mainLease], limit) }},
		{&c.migration, func() error { return w.passes(ctx, migrationLease, terms[migrationLease], limit) }},
		{&c.services, func() error { return w.busy(ctx, standby, began, 1, limit) }},
		{&c.nodes, func() error {
			return eventually(ctx, "a node to be initialised", limit, func(ctx context.Context) error { return w.initialised(ctx, "node-of-the-crash") })
		}},
	} {
		if err := step.wait(); err != nil {
			return c, err
		}
		*step.took = time.Since(began)
	}
	return c, nil
}
