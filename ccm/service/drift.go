package service

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// After a takeover, a load balancer that is believed to be in line is read within this time. What was changed while
	// no manager led is found soon, and not all at once.
	adoptedCheckFrom = 30 * time.Second
	adoptedCheckTo   = 3 * time.Minute
	// maxNotFound is how often a load balancer that a check does not find is ensured for it, when that changes nothing.
	// A provider may not implement GetLoadBalancer: it would be ensured 50 times a day.
	maxNotFound = 2
	// notFoundLooks is after how many more looks its Service has the event again: with the default period, twice a day.
	notFoundLooks = 24
	// grantFor is for how long a load balancer that was sent to be looked at is not sent again, while it waits for a
	// worker.
	grantFor = time.Minute
)

// schedule sets when the load balancer is looked at and ensured next, spread so that many that were made together are
// not due together.
func (c *Controller) schedule(lb *lbState) {
	now := c.clock.Now()
	lb.check, lb.resync = after(now, c.config.Options.DriftPeriod), after(now, c.config.Options.ResyncPeriod)
}

func after(now time.Time, period time.Duration) time.Time {
	if period == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration((0.75 + rand.Float64()/2) * float64(period)))
}

// scheduleAdopted is schedule for a load balancer that the last leader had in line.
func (c *Controller) scheduleAdopted(lb *lbState) {
	now := c.clock.Now()
	if period := c.config.Options.DriftPeriod; period > 0 {
		from, to := min(adoptedCheckFrom, period), min(adoptedCheckTo, period)
		lb.check = now.Add(from + time.Duration(rand.Float64()*float64(to-from)))
	}
	if period := c.config.Options.ResyncPeriod; period > 0 {
		// Not in the first twelfth: a planned restart changes nothing in the cloud. When it was ensured last is not
		// known.
		lb.resync = now.Add(time.Duration((1 + 11*rand.Float64()) / 12 * float64(period)))
	}
}

// findDrift sends load balancers that are due to be looked at, no faster than allowed.
func (c *Controller) findDrift(ctx context.Context) {
	grants := map[string]time.Time{}
	budget, last := 0.0, c.clock.Now()
	for wait := time.Second; ; {
		timer := c.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		now := c.clock.Now()
		maps.DeleteFunc(grants, func(_ string, at time.Time) bool { return now.Sub(at) >= grantFor })
		budget = min(budget+c.config.Options.DriftQPS*now.Sub(last).Seconds(), max(1, c.config.Options.DriftQPS))
		last = now
		keys, next := c.store.dueKeys(now, grants)
		for len(keys) > 0 && budget >= 1 {
			budget--
			grants[keys[0]] = now
			c.queue.enqueueWaiting(keys[0])
			keys = keys[1:]
		}
		wait = max(time.Second, min(next.Sub(now), c.soonest()))
		if len(keys) > 0 {
			wait = time.Second
		}
	}
}

// soonest is after what time, at the least, a load balancer is due that has just been looked at or ensured.
func (c *Controller) soonest() time.Duration {
	wait := time.Minute
	for _, period := range []time.Duration{c.config.Options.DriftPeriod, c.config.Options.ResyncPeriod} {
		if period > 0 {
			wait = min(wait, period/2)
		}
	}
	return wait
}

// dueKeys returns the keys of load balancers that are in line and due to be read or ensured, and when the next will be.
// Those that have waited longest come first. One that is being deleted waits for its next try.
func (k *store) dueKeys(now time.Time, except map[string]time.Time) (keys []string, next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next = now.Add(time.Hour)
	for key, b := range k.states {
		if !b.isInSync() || b.gone || b.cleaning || b.implementedElsewhere {
			continue
		}
		if isDue(b.check, now) || isDue(b.resync, now) {
			if _, granted := except[key]; !granted {
				keys = append(keys, key)
			}
			continue
		}
		for _, at := range []time.Time{b.check, b.resync} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(k.states[a].since(now).Compare(k.states[b].since(now)), cmp.Compare(a, b))
	})
	return keys, next
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// since returns when a state became due.
func (b lbState) since(now time.Time) time.Time {
	if isDue(b.check, now) && (!isDue(b.resync, now) || b.check.Before(b.resync)) {
		return b.check
	}
	return b.resync
}

// resync ensures a load balancer that ought to be in line. It says nothing when it was: a Service does not get events
// for nothing.
func (c *Controller) resync(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	err := c.ensureAndWriteStatus(ctx, key, service, lb, true)
	// the provider failed, and may have done half of it
	if after, ok := c.store.get(key); err != nil && ok && after.resync.Equal(lb.resync) {
		after.spec = ""
		c.store.putLBState(key, after)
		c.state.withdraw(ctx, key)
	}
	return err
}

// check looks whether a load balancer is still there and at its address. A look that fails says nothing of the load
// balancer: the next is at its time.
func (c *Controller) check(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	status, exists, err := c.cloud.get(ctx, service)
	logger := klog.FromContext(ctx).WithValues("service", key)
	lb.check = after(c.clock.Now(), c.config.Options.DriftPeriod)
	result := "in_line"
	switch {
	case isFinal(ctx, err):
		return err
	case isElsewhere(err):
	case err != nil:
		result = "error"
		logger.V(1).Info("Looking at the load balancer failed", "err", err)
	case !exists && lb.notFound >= maxNotFound:
		result = "not_found"
		recordNotFound(c.recorder, service, lb.notFound)
		lb.notFound++
	case !exists:
		result, lb.spec = "gone", ""
		lb.notFound++
		logger.Info("The load balancer is gone from the cloud; it is made again")
	case len(status.Ingress) > 0 && !hasSameAddresses(status, lb.stored) &&
		(lb.seen == nil || !hasSameAddresses(status, lb.seen)):
		// A provider whose two answers never agree is believed once: what it said is remembered below, and ensuring is
		// not repeated for it.
		result, lb.spec = "moved", ""
		logger.Info("The load balancer is not at its address any more; it is ensured", "addresses", status.Ingress)
	}
	if err == nil && exists {
		lb.seen, lb.notFound = status, 0
	}
	driftChecks.WithLabelValues(result).Inc()
	c.store.putLBState(key, lb)
	if lb.spec == "" {
		return c.sync(ctx, key)
	}
	return nil
}

// recordNotFound makes an event now and then: a provider that finds no load balancer never finds any.
func recordNotFound(recorder record.EventRecorder, service *corev1.Service, looks int) {
	if (looks-maxNotFound)%notFoundLooks != 0 {
		return
	}
	recorder.Eventf(
		service,
		corev1.EventTypeWarning,
		reasonNotFound,
		"The cloud provider does not find the load balancer. "+
			"Ensuring it %d times has changed nothing. It is ensured again when the Service changes, or after --%s",
		maxNotFound,
		flagResyncPeriod,
	)
}
