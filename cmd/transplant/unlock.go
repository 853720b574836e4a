package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/holder"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/status"
)

// lockClock waits while a lock is looked at, and while it is held; tests have their own.
var lockClock = testClock()

func newUnlock(c *connection) *cobra.Command {
	var yes, force bool
	cmd := &cobra.Command{
		Use: "unlock", Short: "Take the lock of a run away whose holder has ended", Args: cobra.NoArgs,
		Example: "  transplant unlock",
		Long: "Unlock shows who holds the lock on the cluster, looks for ten seconds whether it is still renewed, asks, and deletes it as it was seen. Of a lock whose\n" +
			"holder was a process of this machine, in the same container of it, that has ended it is known at once. A lock that is renewed is refused: its holder is at work.\n\n" +
			"With --force a lock that is renewed is deleted, too: its holder notices within seconds and stops in the middle of its step.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.connect(); err != nil {
				return err
			}
			return c.unlock(cmd.Context(), yes, force)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&force, "force", false, "also when the lock is renewed: its holder stops in the middle of its step")
	return cmd
}

func (c *connection) unlock(ctx context.Context, yes, force bool) error {
	ownLock, err := lock.Read(ctx, c.kube)
	if errors.Is(err, lock.ErrNoLock) {
		c.narrate("nobody holds the lock: nothing to do")
		return nil
	} else if err != nil {
		return err
	}
	shown := status.Judge(status.Facts{Now: c.serverTime(), Lock: ownLock}).Lock
	c.narrate("the lock is held by %s", holderWords(*shown))
	alive, err := c.observe(ctx, ownLock)
	switch {
	case errors.Is(err, lock.ErrNoLock):
		c.narrate("its holder gave it up while it was looked at: nothing to do")
		return nil
	case err != nil:
		return err
	case alive && !force:
		return withCode(exitLocked, "%s renews its lock, so it is at work: wait for it, stop it with Ctrl-C where it runs, or pause it with transplant pause; --force takes the lock from it in the middle of its step", ownLock.Who())
	case alive:
		c.narrate("it is renewed: its holder is at work, and will stop in the middle of its step")
	}
	if err := c.approve(yes, fmt.Sprintf("delete the lock of %s", ownLock.Who())); err != nil {
		return err
	}
	if force {
		err = lock.ForceUnlock(ctx, c.kube, ownLock)
	} else {
		err = lock.Unlock(ctx, c.kube, ownLock)
	}
	var locked *lock.HeldError
	if errors.As(err, &locked) {
		return withCode(exitLocked, "the lock was renewed or taken by %s in between: it was left alone", holder.Words(locked.Holder))
	} else if err != nil {
		return err
	}
	c.narrate("the lock is gone\nnext: %s", c.nextAfterUnlock(ctx))
	return nil
}

// observe tells whether the holder of a lock is at work.
func (c *connection) observe(ctx context.Context, ownLock *lock.State) (bool, error) {
	if ownLock.EndedHere() {
		c.narrate("its holder was a process of this machine, which is gone")
		return false, nil
	}
	c.narrate("looking for %s whether it is renewed", 2*lock.Renewal)
	err := lock.Observe(ctx, c.kube, lockClock, ownLock)
	var locked *lock.HeldError
	if errors.As(err, &locked) {
		return true, nil
	}
	return false, err
}

// nextAfterUnlock is the command that goes on with what the holder of the lock had begun.
func (c *connection) nextAfterUnlock(ctx context.Context) string {
	j, err := journal.Open(ctx, c.kube)
	if err != nil {
		return "transplant status"
	}
	switch j.Doc().Phase {
	case v1.RunApplying:
		return "transplant apply, or transplant rollback"
	case v1.RunRollingBack:
		return "transplant rollback"
	}
	return "transplant status"
}
