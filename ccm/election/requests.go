package election

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

func (c *candidate) leases() coordinationv1client.LeaseInterface {
	return c.e.config.Client.Leases(c.Namespace)
}

// request bounds one request: by half the renew deadline, so that a connection that hangs leaves time for another one.
func (c *candidate) request(own context.Context) (context.Context, context.CancelFunc) {
	limit := c.e.config.RenewDeadline / 2
	if c.isLeading() {
		limit = min(limit, c.deadline()-c.now())
	}
	return context.WithTimeout(own, limit)
}

// read asks for the lease as it is now.
func (c *candidate) read(own context.Context) {
	ctx, cancel := c.request(own)
	defer cancel()
	before := c.count()
	lease, err := c.leases().Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		c.errors.log(ctx, c.Name, nil)
		c.observe(observeLease(lease, before))
	case apierrors.IsNotFound(err):
		c.errors.log(ctx, c.Name, nil)
		c.observe(observeLease(nil, before))
	default:
		c.errors.log(ctx, c.Name, fmt.Errorf("reading lease %q: %w", c.Name, err))
		c.later(c.e.config.RetryPeriod)
	}
}

// attempt is a write that says that this process holds the lease.
type attempt struct {
	lease  *coordinationv1.Lease
	tenure Tenure
	create bool
	before uint64           // how many versions had been seen
	at     time.Duration    // when it was sent: what it proves, it proves from then on
	stamp  metav1.MicroTime // the renewTime that it writes
	// free is that this process holds the lease, or that the version which the attempt is made of can be taken. A watch
	// may have brought a renewal since that was last looked at.
	free bool
}

// try prepares a write. One that renews keeps the term that the lease is in; so does one that follows an own write
// whose answer was lost.
func (c *candidate) try() attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := attempt{
		at:     c.now(),
		stamp:  c.record.nextStamp(c.e.config.wall()),
		before: c.record.count,
		create: c.record.seen == nil,
	}
	if a.create {
		a.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	} else {
		a.lease = c.record.seen.DeepCopy()
	}
	a.free = c.held || c.now() >= c.record.expires()
	spec := &a.lease.Spec
	switch {
	case a.create:
		spec.LeaseTransitions, spec.AcquireTime = ptr.To[int32](0), &a.stamp
	case !c.record.isOwnWrite(c.record.seen):
		spec.LeaseTransitions, spec.AcquireTime = ptr.To(ptr.Deref(spec.LeaseTransitions, 0)+1), &a.stamp
		spec.PreferredHolder, spec.Strategy = nil, nil // those of coordinated election, as client-go's elector does
	}
	spec.HolderIdentity, spec.RenewTime = ptr.To(c.e.config.Identity), &a.stamp
	spec.LeaseDurationSeconds = ptr.To(int32(math.Ceil(c.e.config.LeaseDuration.Seconds())))
	a.tenure = c.tenure
	if epoch := int64(*spec.LeaseTransitions); !c.held || epoch != c.tenure.Epoch {
		adopted, isInherited := adoptedAt(c.record.seen, a.stamp.Time)
		a.tenure = Tenure{Epoch: epoch, AdoptedAt: adopted, IsInherited: isInherited}
	}
	markAdopted(a.lease, a.tenure)
	c.e.config.self().Sign(a.lease, c.e.config.Identity)
	c.record.sent = append(c.record.sent, a.stamp)
	return a
}

// write sends an attempt. It reports whether the lease was written, and whether another client wrote it in between.
func (c *candidate) write(own context.Context, a attempt) (written, overtaken bool) {
	ctx, cancel := c.request(own)
	defer cancel()
	var lease *coordinationv1.Lease
	var err error
	if a.create {
		lease, err = c.leases().Create(ctx, a.lease, metav1.CreateOptions{})
	} else {
		lease, err = c.leases().Update(ctx, a.lease, metav1.UpdateOptions{})
	}
	switch {
	case err == nil:
		c.errors.log(ctx, c.Name, nil)
		return c.confirmIfCurrent(a, lease), false
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && !a.create:
		c.refused(a)
		c.read(own)
		return false, true
	default: // it may have been written all the same
		c.errors.log(ctx, c.Name, fmt.Errorf("writing lease %q: %w", c.Name, err))
		return false, false
	}
}

// confirmIfCurrent takes in the answer to an attempt, and opens the fence for what it proves. It is false when it is
// outdated: the lease was written since, or the attempt took so long that another process may have it.
func (c *candidate) confirmIfCurrent(a attempt, lease *coordinationv1.Lease) bool {
	c.mu.Lock()
	lost := c.observeLocked(observeLease(lease, a.before))
	ours := lost == "" && c.record.isOurs()
	good := a.at + c.e.config.RenewDeadline
	if ours {
		c.renewed, c.tenure = a.at, a.tenure
		c.record.written, c.record.sent = a.stamp, nil
		c.next = a.at + c.e.config.RetryPeriod
	}
	ours = ours && !c.over && c.now() < good
	if ours {
		c.held = true
		c.fence.Extend(good, a.tenure)
	}
	c.mu.Unlock()
	if lost != "" {
		c.e.lose(c, lost)
	}
	return ours
}

// refused forgets an attempt that was certainly not written.
func (c *candidate) refused(a attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.sent = slices.DeleteFunc(c.record.sent, func(stamp metav1.MicroTime) bool { return stamp.Equal(&a.stamp) })
}

// tryFree is try for a lease that is not held. It returns false where the lease is no longer free: a watch may have
// brought a renewal since it was looked at.
func tryFree(c *candidate) (a attempt, ok bool) {
	if a = c.try(); !a.free {
		c.refused(a)
	}
	return a, a.free
}

// tryAcquire tries to take a lease that is free.
func (c *candidate) tryAcquire(own context.Context) bool {
	free, testified := c.freeSince()
	a, ok := tryFree(c)
	if !ok {
		return false
	}
	written, overtaken := c.write(own, a)
	switch {
	case written:
		if !free.IsZero() {
			observeHandover(c.Name, time.Since(free))
		}
		if testified {
			testimonies.WithLabelValues(c.Name).Inc()
		}
	case overtaken:
		c.later(jitter(c.e.config.RetryPeriod / 10))
	default:
		c.later(c.e.config.RetryPeriod)
	}
	return written
}

// freeSince is since when the lease is given up; zero where it is not. testified is that its holder has ended.
func (c *candidate) freeSince() (at time.Time, testified bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record.freeAt, c.record.hasHolderEnded()
}

// renew renews a held lease. When another client wrote it, its change decides: a label costs another request, another
// holder leadership.
func (c *candidate) renew(own context.Context) {
	for range 2 {
		written, overtaken := c.write(own, c.try())
		if written || !c.isLeading() {
			return
		}
		if !overtaken {
			break
		}
		slowPath(c.Name)
	}
	c.later(c.e.config.RetryPeriod / 2)
}

// requestErrors logs the errors of requests for a lease, each that differs from the one before.
type requestErrors struct {
	mu   sync.Mutex
	last string
}

func (c *requestErrors) log(ctx context.Context, lease string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	repeated := text == c.last
	c.last = text
	c.mu.Unlock()
	if err != nil && !repeated {
		klog.FromContext(ctx).Error(err, "Lease request failed", "lease", lease)
	}
}

// stampOf is a wall clock's time, as precise as a lease can say it.
func stampOf(at time.Time) metav1.MicroTime {
	return metav1.NewMicroTime(at.Truncate(time.Microsecond))
}
