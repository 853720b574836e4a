package service

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

const (
	// After a takeover, a load balancer that is believed to be in line is looked at within this time: what somebody changed while nobody led is found
	// soon, and not all at once.
	adoptedCheckFrom = 30 * time.Second
	adoptedCheckTo   = 3 * time.Minute
	// maxNotFound is how often a load balancer that a check does not find is ensured for it, when that changes nothing. A provider may not implement
	// GetLoadBalancer: it would be ensured 50 times a day.
	maxNotFound = 2
	// grantFor is for how long a load balancer that was sent to be looked at is not sent again, while it waits for a worker.
	grantFor = time.Minute
)

// schedule sets when the load balancer is looked at and ensured next, spread so that many that were made together are not due together.
func (c *Controller) schedule(page *balancer) {
	now := c.clock.Now()
	page.check, page.resync = after(now, c.config.Options.DriftPeriod), after(now, c.config.Options.ResyncPeriod)
}

func after(now time.Time, period time.Duration) time.Time {
	if period == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration((0.75 + rand.Float64()/2) * float64(period)))
}

// scheduleAdopted is schedule for a load balancer that the last leader had in line.
func (c *Controller) scheduleAdopted(page *balancer) {
	now := c.clock.Now()
	if period := c.config.Options.DriftPeriod; period > 0 {
		from, to := min(adoptedCheckFrom, period), min(adoptedCheckTo, period)
		page.check = now.Add(from + time.Duration(rand.Float64()*float64(to-from)))
	}
	if period := c.config.Options.ResyncPeriod; period > 0 {
		// Not in the first twelfth: a planned restart changes nothing in the cloud. When it was ensured last is not known.
		page.resync = now.Add(time.Duration((1 + 11*rand.Float64()) / 12 * float64(period)))
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
		keys, next := c.book.due(now, grants)
		for len(keys) > 0 && budget >= 1 {
			budget--
			grants[keys[0]] = now
			c.queue.Add(keys[0])
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

// due returns the keys of load balancers that are in line and due to be looked at or ensured, those first that have waited longest, and when the
// next will be.
func (k *book) due(now time.Time, except map[string]time.Time) (keys []string, next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next = now.Add(time.Hour)
	for key, b := range k.pages {
		if !b.inLine() || b.gone || b.elsewhere {
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
		return cmp.Or(k.pages[a].since(now).Compare(k.pages[b].since(now)), cmp.Compare(a, b))
	})
	return keys, next
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// since is since when a page has been due.
func (b balancer) since(now time.Time) time.Time {
	if isDue(b.check, now) && (!isDue(b.resync, now) || b.check.Before(b.resync)) {
		return b.check
	}
	return b.resync
}

// resync ensures a load balancer that ought to be in line. It says nothing when it was: a Service does not get events for nothing.
func (c *Controller) resync(ctx context.Context, key string, service *corev1.Service, page balancer) error {
	err := c.ensured(ctx, key, service, page, true)
	if after, ok := c.book.get(key); err != nil && ok && after.resync.Equal(page.resync) { // the provider failed, and may have done half of it
		after.spec = ""
		c.book.put(key, after)
		c.state.withdraw(ctx, key)
	}
	return err
}

// check looks whether a load balancer is still there and at its address. A look that fails says nothing of the load balancer: the next is at its time.
func (c *Controller) check(ctx context.Context, key string, service *corev1.Service, page balancer) error {
	status, exists, err := c.cloud.get(ctx, service)
	logger := klog.FromContext(ctx).WithValues("service", key)
	page.check = after(c.clock.Now(), c.config.Options.DriftPeriod)
	result := "in_line"
	switch {
	case isFinal(ctx, err):
		return err
	case isElsewhere(err):
	case err != nil:
		result = "error"
		logger.V(1).Info("Looking at the load balancer failed", "err", err)
	case !exists && page.notFound >= maxNotFound:
		result = "not_found"
		c.recorder.Eventf(service, corev1.EventTypeWarning, reasonNotFound, "The cloud provider does not find the load balancer. "+
			"Ensuring it %d times has changed nothing. It is ensured again when the Service changes, or after --%s", maxNotFound, flagResyncPeriod)
	case !exists:
		result, page.spec = "gone", ""
		page.notFound++
		logger.Info("The load balancer is gone from the cloud; it is made again")
	case len(status.Ingress) > 0 && !sameAddresses(status, page.stored) && (page.seen == nil || !sameAddresses(status, page.seen)):
		// A provider whose two answers never agree is believed once: what it said is remembered below, and ensuring is not repeated for it.
		result, page.spec = "moved", ""
		logger.Info("The load balancer is not at its address any more; it is ensured", "addresses", status.Ingress)
	}
	if err == nil && exists {
		page.seen, page.notFound = status, 0
	}
	driftChecks.WithLabelValues(result).Inc()
	c.book.put(key, page)
	if page.spec == "" {
		return c.sync(ctx, key)
	}
	return nil
}
