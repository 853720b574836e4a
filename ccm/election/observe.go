package election

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// How long to wait before watching again.
const (
	watchForbidden = 5 * time.Minute // upstream's manager has no leave to watch leases; polling does
	watchBroken    = 30 * time.Second
	watchFor       = 5 * time.Minute
)

// observation is a version of a lease, or that there is none.
type observation struct {
	lease   *coordinationv1.Lease // nil: there is none
	version string                // its resourceVersion, or that of its deletion; empty when unknown
	// how many versions had been seen when it was asked for; it is news for certain if none came since
	before uint64
	asked  bool
}

// answer is what a request has told.
func answer(lease *coordinationv1.Lease, before uint64) observation {
	o := observation{lease: lease, before: before, asked: true}
	if lease != nil {
		o.version = lease.ResourceVersion
	}
	return o
}

// observe takes in what was told by a request or the watch. Leadership ends here, and at once, when it tells of
// somebody else's.
func (c *candidate) observe(o observation) {
	c.mu.Lock()
	lost := c.take(o)
	c.mu.Unlock()
	if lost != "" {
		c.e.lose(c, lost)
	}
	c.wake()
}

// take is observe for a caller that has the lock. It returns why a held lease is lost.
func (c *candidate) take(o observation) (lost string) {
	c.heard = c.now()
	if o.asked {
		c.stale = false
	}
	if !c.isNews(o) {
		return ""
	}
	switch {
	case o.lease != nil && holder(o.lease) != "":
		c.freeAt = time.Time{}
	case c.seen != nil && holder(c.seen) != "":
		c.freeAt = time.Now()
	}
	if !c.known || (c.seen == nil) != (o.lease == nil) ||
		o.lease != nil && !equality.Semantic.DeepEqual(c.seen.Spec, o.lease.Spec) {
		c.seenAt = c.now()
	}
	c.known, c.seen, c.version = true, o.lease, o.version
	c.seenCount++
	if c.held {
		return c.lostBy(o.lease)
	}
	return ""
}

// lostBy is why a version of a held lease ends leadership; empty if it does not.
func (c *candidate) lostBy(lease *coordinationv1.Lease) string {
	switch {
	case lease == nil:
		return "it was deleted" // anybody may create it now
	case holder(lease) == "":
		return "somebody else released it"
	case holder(lease) != c.e.config.Identity:
		return "it is held by " + holder(lease)
	case !c.wroteIt(lease):
		return fmt.Sprintf("another process renews it as %s", c.e.config.Identity)
	}
	return ""
}

// isNews reports whether an observation is newer than what is known. Events of the watch and answers to requests
// overtake each other, and an event from before the lease was won must not look like another holder.
func (c *candidate) isNews(o observation) bool {
	if !c.known || o.asked && o.before == c.seenCount {
		return true
	}
	newer, comparable := compare(o.version, c.version)
	if !comparable && !o.asked && (o.lease == nil || !c.wroteIt(o.lease)) {
		c.stale, c.next = true, min(c.next, c.now()) // a request will tell
	}
	return comparable && newer
}

// compare reports whether a resource version is newer than another one. They are numbers in every API server; where
// they are not, reads decide.
func compare(a, b string) (newer, comparable bool) {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false, false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x > y, err == nil
}

// wroteIt reports whether a version is what this process wrote, or may have written where the answer was lost. The
// caller has the lock.
func (c *candidate) wroteIt(lease *coordinationv1.Lease) bool {
	if holder(lease) != c.e.config.Identity || lease.Spec.RenewTime == nil {
		return false
	}
	if lease.Spec.RenewTime.Equal(&c.written) {
		return true
	}
	for _, stamp := range c.sent {
		if lease.Spec.RenewTime.Equal(&stamp) {
			return true
		}
	}
	return false
}

func holder(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

func (c *candidate) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seenCount
}

// watch follows the lease until own ends, so that what happens to it is known within milliseconds. Without leave to
// watch, and while a watch cannot be had, the loop's polling is enough.
func (c *candidate) watch(own context.Context) {
	broken := c.e.config.RetryPeriod
	for own.Err() == nil {
		began := time.Now()
		err := c.follow(own)
		pause := jitter(c.e.config.RetryPeriod) // a watch ends every few minutes
		switch {
		case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			pause = watchForbidden
		case time.Since(began) < c.e.config.RetryPeriod:
			pause = broken + jitter(broken)
			broken = min(2*broken, watchBroken)
		default:
			broken = c.e.config.RetryPeriod
		}
		select {
		case <-own.Done():
		case <-time.After(pause):
		}
	}
}

// follow takes in the events of one watch until it ends.
func (c *candidate) follow(own context.Context) error {
	w, err := c.leases().Watch(own, metav1.ListOptions{
		FieldSelector:  fields.OneTermEqualSelector(metav1.ObjectNameField, c.Name).String(),
		TimeoutSeconds: ptr.To(int64(watchFor.Seconds() * (1 + rand.Float64()))),
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	c.watches(true)
	defer c.watches(false)
	for {
		select {
		case <-own.Done():
			return nil
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if err := c.event(event); err != nil {
				return err
			}
		}
	}
}

// watches notes that a watch began or ended. What happened before it began has to be read.
func (c *candidate) watches(on bool) {
	c.mu.Lock()
	c.watching, c.stale = on, true
	c.mu.Unlock()
	c.wake()
}

func (c *candidate) event(event watch.Event) error {
	lease, ok := event.Object.(*coordinationv1.Lease)
	switch {
	case event.Type == watch.Error:
		return apierrors.FromObject(event.Object)
	case !ok || lease.Name != c.Name:
	case event.Type == watch.Deleted:
		c.observe(observation{version: lease.ResourceVersion})
	case event.Type == watch.Added, event.Type == watch.Modified:
		c.observe(observation{lease: lease, version: lease.ResourceVersion})
	}
	return nil
}
