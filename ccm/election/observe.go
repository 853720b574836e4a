package election

import (
	"context"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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

// observe takes in what was told by a request or the watch. Leadership ends here, and at once, when it shows another
// holder.
func (c *candidate) observe(o observation) {
	c.mu.Lock()
	lost := c.observeLocked(o)
	c.mu.Unlock()
	if lost != "" {
		c.e.lose(c, lost)
	}
	c.wake()
}

// observeLocked is observe for a caller that has the lock. It returns why a held lease is lost.
func (c *candidate) observeLocked(o observation) (lost string) {
	news, unsure := c.record.applyObservation(o, c.now())
	if unsure {
		c.next = min(c.next, c.now()) // a request will tell
	}
	if news && c.listener != nil {
		c.listener.Follow(c.record.otherHolder())
	}
	if !news || !c.held {
		return ""
	}
	return c.record.lostBy(o.lease)
}

func (c *candidate) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record.count
}

// watch follows the lease until own ends, so that what happens to it is known within milliseconds. Without leave to
// watch, and while a watch cannot be had, the loop's polling is enough.
func (c *candidate) watch(own context.Context) {
	broken := c.e.config.RetryPeriod
	for own.Err() == nil {
		began := time.Now()
		err := c.followWatch(own)
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

// followWatch takes in the events of one watch until it ends.
func (c *candidate) followWatch(own context.Context) error {
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
	c.record.watching, c.record.stale = on, true
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
