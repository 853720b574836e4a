package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// inject makes a fault while the command waits at its point; false kills the command.
func (c *Campaign) inject(ctx context.Context, f Fault) bool {
	o := &Outcome{Fault: f, Injected: time.Now()}
	heal, goOn, err := c.make(ctx, f)
	if errors.Is(err, ErrNotHere) {
		o.Missed = true
		c.mu.Lock()
		c.outcomes = append(c.outcomes, *o)
		c.mu.Unlock()
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// the one before, at an earlier point of the same step: that the command came here is all that can be said of it
	if c.open != nil {
		if c.open.Converged.IsZero() {
			c.open.Converged = o.Injected
		}
		c.over()
	}
	c.open = o
	if err != nil {
		o.Problem = fmt.Sprintf("the fault could not be made: %v", err)
	}
	c.Log("%s at %s:%s%s", f.Kind, f.Point, f.Step, lasting(f.For))
	if heal != nil {
		c.healed = make(chan struct{})
		go c.healLater(ctx, heal, f, c.healed, c.current)
	}
	return goOn
}

func lasting(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " for " + d.String()
}

// healLater takes a fault away after its time, or, where the time is open, when the command has ended of it.
func (c *Campaign) healLater(ctx context.Context, heal Heal, f Fault, healed chan struct{}, running *command) {
	defer close(healed)
	timer := time.NewTimer(f.For)
	defer timer.Stop()
	var over <-chan struct{}
	if f.Kind == DiskFull {
		over = running.done
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-over:
	}
	if err := heal(context.WithoutCancel(ctx)); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.healErr = errors.Join(c.healErr, fmt.Errorf("taking %s at %s:%s away: %w", f.Kind, f.Point, f.Step, err))
	}
}

// make makes a fault and says how it is taken away, and whether the command goes on.
func (c *Campaign) make(ctx context.Context, f Fault) (heal Heal, goOn bool, err error) {
	switch f.Kind {
	case APIGone:
		heal, err = c.Cluster.StopAPI(ctx)
	case AccessLost:
		heal, err = c.Cluster.LoseAccess(ctx, f.Host)
	case DiskFull:
		heal, err = c.Cluster.FillDisk(ctx, f.Host)
	case Rebooted:
		heal, err = c.Cluster.Reboot(ctx, f.Host)
	case ManagersFrozen, APIFrozen, CloudThrottled, CloudFailing, CloudGone, InstanceStopped:
		d, ok := c.Cluster.(Disturbable)
		if !ok {
			return nil, true, ErrNotHere
		}
		heal, err = d.Disturb(ctx, f.Kind, f.Host)
	default:
		goOn, err = c.makeHere(ctx, f)
		return nil, goOn, err
	}
	return heal, true, err
}

// makeHere makes the faults of the machine that the command runs on.
func (c *Campaign) makeHere(ctx context.Context, f Fault) (goOn bool, err error) {
	const first, gone = "the run stops after this step; a second Ctrl-C", "the terminal is gone"
	switch f.Kind {
	case Killed:
		return false, nil
	case LogDiskFull:
		if os.Geteuid() != 0 {
			return true, ErrNotHere
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.next.logFull = true
		return false, nil
	case ClockWrong:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.next.clock = f.For
		return false, nil
	case PipeBroken:
		return true, c.current.deafen()
	case Interrupted:
		return true, c.current.signal(ctx, syscall.SIGINT, first)
	case Terminated:
		return true, c.current.signal(ctx, syscall.SIGTERM, first)
	case HungUp:
		return true, c.current.signal(ctx, syscall.SIGHUP, gone)
	case InterruptedTwice:
		if err := c.current.signal(ctx, syscall.SIGINT, first); err != nil {
			return true, err
		}
		if err := c.current.signal(ctx, syscall.SIGINT, ""); err != nil {
			return true, err
		}
		heard := time.NewTimer(200 * time.Millisecond) // it says so when it has ended only
		defer heard.Stop()
		select {
		case <-ctx.Done():
		case <-heard.C:
		}
		return true, nil
	default:
		return true, fmt.Errorf("%s is no fault", f.Kind)
	}
}
