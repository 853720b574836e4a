package election

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// finish ends the contest for a lease: it waits for the workers while it goes on renewing, closes the fence, and
// releases the lease. Leases that follow this one are released before it, so that a successor never has this one alone.
func (c *candidate) finish(own context.Context) error {
	if !c.isLeading() {
		return c.releaseUnsure(own)
	}
	drained := c.drained()
	inTime := c.renewUntil(own, drained, c.e.config.DrainTimeout)
	if !inTime && own.Err() == nil {
		c.fence.Revoke(fmt.Sprintf("the workers were given %s to end", c.e.config.DrainTimeout)) // which ends their calls
		inTime = c.renewUntil(own, drained, c.e.config.RetryPeriod)
	}
	for _, d := range c.dependents {
		c.renewUntil(own, d.finished, c.e.config.DrainTimeout+c.e.config.RenewDeadline) // more than its own bounds add up to
	}
	if own.Err() != nil {
		return nil // lost meanwhile
	}
	c.fence.Revoke("the process is ending")
	c.stopLeading(nil)
	if !inTime {
		// A call may still be on its way to the cloud. A successor must not meet it.
		c.e.config.self().Retract()
		return fmt.Errorf("releasing lease %q: its workers or their calls have not ended, so it is left to expire", c.Name)
	}
	return c.release(own)
}

// drained is closed when the workers under the lease have ended, and the calls that they gave up.
func (c *candidate) drained() <-chan struct{} {
	c.mu.Lock()
	started := c.end != nil
	c.mu.Unlock()
	if started && c.e.config.Drained != nil {
		return c.e.config.Drained(c.Name)
	}
	none := make(chan struct{})
	close(none)
	return none
}

// renewUntil goes on renewing until a channel is closed, and reports whether that was in time.
func (c *candidate) renewUntil(own context.Context, until <-chan struct{}, limit time.Duration) bool {
	for began := time.Now(); ; {
		select {
		case <-until:
			return true
		case <-own.Done():
			return false
		default:
		}
		left := limit - time.Since(began)
		if left <= 0 {
			return false
		}
		c.alive(true)
		c.wait(own, min(left, c.renewIfDue(own)), until)
	}
}

// releaseUnsure gives back a lease that may have been won without an answer: it would have to expire, held by a process
// that has ended.
func (c *candidate) releaseUnsure(own context.Context) error {
	c.mu.Lock()
	unsure := len(c.record.sent) > 0
	c.mu.Unlock()
	if !unsure {
		return nil
	}
	c.read(own)
	return c.release(own)
}

// release clears the holder, as client-go's elector does, if it is still this process. It takes at most half the renew
// deadline.
func (c *candidate) release(own context.Context) error {
	c.alive(true)
	ctx, cancel := context.WithTimeout(own, c.e.config.RenewDeadline/2)
	defer cancel()
	for {
		c.mu.Lock()
		if !c.record.isOurs() {
			c.mu.Unlock()
			return nil
		}
		lease := c.record.seen.DeepCopy() // with its resourceVersion: what another client wrote stays
		before := c.record.count
		c.mu.Unlock()
		stamp := stampOf(c.e.config.wall())
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
		lease.Spec.AcquireTime, lease.Spec.RenewTime = &stamp, &stamp
		released, err := c.leases().Update(ctx, lease, metav1.UpdateOptions{})
		switch {
		case err == nil:
			c.observe(observeLease(released, before))
			klog.FromContext(own).Info("Lease released", "lease", c.Name)
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsConflict(err):
			c.read(ctx)
		case ctx.Err() != nil:
			return fmt.Errorf("releasing lease %q: %w", c.Name, err)
		}
		c.wait(ctx, c.e.config.RetryPeriod/10, nil)
	}
}
