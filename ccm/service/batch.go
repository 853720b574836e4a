package service

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// leaveDelay gathers nodes that leave together. They do not wait longer: connections are sent to them meanwhile.
	leaveDelay = 200 * time.Millisecond
	// leaveInterval is the least time between two updates for nodes that leave, so that a scale-down of many costs few.
	leaveInterval = 2 * time.Second
)

// batching decides when nodes that have joined or left are given to the load balancers. One node is given after the window. Several wait until none has
// joined for two windows, or for the interval: a group that scales up over ten seconds costs each load balancer one update.
type batching struct {
	window, interval time.Duration

	firstJoin, lastJoin time.Time // of those not given yet; zero without one
	firstLeave          time.Time
	joinsGiven          time.Time // when it was done last
	leavesGiven         time.Time
}

func (b *batching) note(what change, now time.Time) {
	switch what {
	case changeJoins:
		b.lastJoin = now
		if b.firstJoin.IsZero() {
			b.firstJoin = now
		}
	case changeLeaves:
		if b.firstLeave.IsZero() {
			b.firstLeave = now
		}
	case changeNone:
	}
}

// due is when the load balancers are to be given what has changed; zero when nothing has.
func (b *batching) due() time.Time {
	var due time.Time
	if !b.firstJoin.IsZero() {
		earliest := later(b.firstJoin, b.joinsGiven.Add(b.interval))
		quiet := b.window
		if b.lastJoin.After(b.firstJoin) {
			quiet = 2 * b.window
		}
		due = later(earliest, b.lastJoin.Add(quiet))
		if latest := later(earliest, b.firstJoin.Add(max(b.interval, 2*b.window))); due.After(latest) {
			due = latest
		}
	}
	if !b.firstLeave.IsZero() {
		if leave := later(b.firstLeave.Add(leaveDelay), b.leavesGiven.Add(leaveInterval)); due.IsZero() || leave.Before(due) {
			due = leave
		}
	}
	return due
}

// given notes that the load balancers are being given everything that has changed so far.
func (b *batching) given(now time.Time) {
	if !b.firstJoin.IsZero() {
		b.joinsGiven = now
	}
	if !b.firstLeave.IsZero() {
		b.leavesGiven = now
	}
	b.firstJoin, b.lastJoin, b.firstLeave = time.Time{}, time.Time{}, time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// batcher calls back when a batch is due.
type batcher struct {
	clock clock.WithTicker
	poke  chan struct{}

	mu    sync.Mutex
	state batching
}

func newBatcher(clock clock.WithTicker, window, interval time.Duration) *batcher {
	return &batcher{clock: clock, poke: make(chan struct{}, 1), state: batching{window: window, interval: interval}}
}

func (b *batcher) note(what change) {
	if what == changeNone {
		return
	}
	b.mu.Lock()
	b.state.note(what, b.clock.Now())
	b.mu.Unlock()
	select {
	case b.poke <- struct{}{}:
	default: // it has been told and has not looked yet
	}
}

// run calls give for each batch until ctx ends.
func (b *batcher) run(ctx context.Context, give func()) {
	for {
		var timer clock.Timer
		var due <-chan time.Time
		if wait, pending := b.wait(give); pending {
			timer = b.clock.NewTimer(wait)
			due = timer.C()
		}
		select {
		case <-ctx.Done():
		case <-b.poke:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// wait gives a batch that is due, or returns for how long the next is not.
func (b *batcher) wait(give func()) (time.Duration, bool) {
	b.mu.Lock()
	due := b.state.due()
	now := b.clock.Now()
	ready := !due.IsZero() && !due.After(now)
	if ready {
		b.state.given(now)
	}
	b.mu.Unlock()
	if ready {
		give()
	}
	return due.Sub(now), !due.IsZero() && !ready
}
