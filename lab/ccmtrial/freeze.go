package ccmtrial

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/lab/ccmlab"
)

// cutOff is what came of a leader that lost its connection to kube-apiserver.
type cutOff struct {
	takeover
	ended time.Duration // from the cut to the end of its process
	begun time.Duration // from the cut to the successor's first act
	code  int
}

// cut cuts a leader that is at work off kube-apiserver, but not off the cloud, and lets the standby take over.
func (w *world) cut(ctx context.Context, leader, standby *ccmlab.Manager, sever func() error) (cutOff, error) {
	var c cutOff
	if err := w.busy(ctx, leader, time.Now(), 2*ensureRequests, patience); err != nil {
		return c, err
	}
	began := time.Now()
	if err := sever(); err != nil {
		return c, err
	}
	select {
	case <-leader.Done():
	case <-time.After(patience):
		return c, fmt.Errorf("%s goes on without an API", leader.Name())
	}
	c.ended, c.code = time.Since(began), leader.ExitCode()
	if err := w.busy(ctx, standby, began, 2*ensureRequests, patience); err != nil {
		return c, err
	}
	all, err := w.acts(began)
	if err != nil {
		return c, err
	}
	var found bool
	if c.takeover, found = takeOver(all, leader.Name(), standby.Name()); !found {
		return c, fmt.Errorf("%s has not acted", standby.Name())
	}
	c.begun = c.first.at.Sub(began)
	return c, nil
}

// frozen is what came of a leader that was stopped for a while and continued.
type frozen struct {
	takeover
	resumed time.Time
	ended   time.Duration // from then to the end of its process
	code    int           // that it ended with
}

func (f frozen) String() string {
	return fmt.Sprintf(
		"after SIGCONT: %d acts (%d in the cloud), the last after %s; it ended with %d after %s",
		len(f.late),
		len(onlyCloud(f.late)),
		max(0, f.last.at.Sub(f.resumed)).Round(time.Millisecond),
		f.code,
		f.ended.Round(time.Millisecond),
	)
}

// freeze stops a leader that is at work with SIGSTOP, lets the standby take over, and continues the leader once it has
// been stopped for a time.
func (w *world) freeze(ctx context.Context, leader, standby *ccmlab.Manager, stopped time.Duration) (frozen, error) {
	var f frozen
	before, err := w.term(ctx, mainLease)
	if err != nil {
		return f, err
	}
	if err := w.busy(ctx, leader, time.Now(), 2*ensureRequests, patience); err != nil {
		return f, err
	}
	began := time.Now()
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		return f, err
	}
	thaw := time.After(stopped)
	if err := w.passes(ctx, mainLease, before, patience); err != nil {
		return f, err
	}
	if err := w.busy(ctx, standby, began, 2*ensureRequests, patience); err != nil {
		return f, err
	}
	select {
	case <-thaw:
	case <-ctx.Done():
		return f, ctx.Err()
	}
	f.resumed = time.Now()
	if err := leader.Signal(syscall.SIGCONT); err != nil {
		return f, err
	}
	select {
	case <-leader.Done():
	case <-time.After(patience):
		return f, fmt.Errorf("%s goes on after another one has taken over", leader.Name())
	}
	f.ended, f.code = time.Since(f.resumed), leader.ExitCode()
	// What it had sent arrives before this does.
	if err := w.busy(ctx, standby, time.Now(), ensureRequests, patience); err != nil {
		return f, err
	}
	all, err := w.acts(began)
	if err != nil {
		return f, err
	}
	var found bool
	if f.takeover, found = takeOver(all, leader.Name(), standby.Name()); !found {
		return f, fmt.Errorf("%s has not acted", standby.Name())
	}
	return f, nil
}
