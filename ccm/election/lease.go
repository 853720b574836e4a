package election

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/election/testimony"
)

// pollJitter is by how much the period of polling varies: 1 to 1.2 retry periods.
const pollJitter = 1.2

// candidate is this process as a contender for one lease, or as its observer.
//
//	standby --free and won--> leading --ctx ends--> draining --workers ended--> released
//	                             |                      |
//	                             +---- lost: Run ends --+
type candidate struct {
	Lease
	e          *Elector
	fence      *Fence
	after      *candidate   // must be led before this one is contended for
	dependents []*candidate // are contended for after this one, and released before it
	changed    chan struct{}
	listener   *testimony.Listener // nil where no kubelet testifies
	finished   chan struct{}       // closed when run has returned
	errors     requestErrors

	mu     sync.Mutex
	record leaseRecord // what is known of the lease
	// What this process did about it.
	held    bool
	over    bool                    // it will not be held again: it was lost, or is about to be released
	end     context.CancelCauseFunc // ends the context of the workers
	renewed time.Duration           // before the last renewal that succeeded was sent
	tenure  Tenure
	next    time.Duration // when the next request is due
	tick    time.Duration // when the loop was last alive; 0 before and after
}

func newCandidate(e *Elector, l Lease) *candidate {
	c := &candidate{
		Lease:    l,
		e:        e,
		fence:    NewFence(l.Name, e.config.Clock),
		record:   leaseRecord{identity: e.config.Identity, settle: settleOf(e.config.RetryPeriod)},
		changed:  make(chan struct{}, 1),
		finished: make(chan struct{}),
	}
	if t := e.config.Testimony; t != nil && l.Contend {
		ended := func(of testimony.Claim) { noteEnd(c, of) }
		c.listener = testimony.NewListener(t.Pods.Pods(l.Namespace), e.config.RetryPeriod, ended)
	}
	return c
}

// settleOf is what passes between a testimony and taking the lease: longer than a holder that lives needs to renew it.
func settleOf(retryPeriod time.Duration) time.Duration { return max(time.Second, retryPeriod*5/4) }

// noteEnd takes in that a holder has ended, says its kubelet.
func noteEnd(c *candidate, of testimony.Claim) {
	c.mu.Lock()
	c.record.ended, c.record.endedAt = of.Holder, c.now()
	c.mu.Unlock()
	klog.Background().
		Info("The holder of the lease has ended, says its kubelet", "lease", c.Name, "holder", of.Holder, "pod", of.Pod, "node", of.Node)
	c.wake()
}

func (c *candidate) now() time.Duration { return c.e.config.Clock.Now() }

func (c *candidate) isLeading() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// run observes, contends and renews until ctx ends, and then until what was won is released. own outlives ctx, and ends
// when leadership is lost.
func (c *candidate) run(ctx, own context.Context) error {
	defer close(c.finished)
	defer c.alive(false)
	for ctx.Err() == nil && own.Err() == nil {
		c.alive(true)
		c.wait(own, c.step(ctx, own), ctx.Done())
	}
	if own.Err() != nil {
		return nil
	}
	return c.finish(own)
}

// wait returns when something changed, or after the time, or when a channel is closed.
func (c *candidate) wait(own context.Context, d time.Duration, until <-chan struct{}) {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-own.Done():
	case <-until:
	case <-c.changed:
	case <-timer.C:
	}
}

// step does what is due now, and returns after which time something is due again.
func (c *candidate) step(ctx, own context.Context) time.Duration {
	if c.isLeading() {
		return c.renewIfDue(own)
	}
	switch {
	case c.canAcquire():
		if c.tryAcquire(own) && ctx.Err() == nil {
			c.started(ctx)
		}
	case c.needsRead():
		c.read(own)
	}
	return c.left()
}

// renewIfDue renews a held lease when that is due.
func (c *candidate) renewIfDue(own context.Context) time.Duration {
	deadline, next := c.deadline(), c.nextRequest()
	if c.now() >= deadline {
		c.e.lose(c, tooLate)
		return 0
	}
	if c.now() >= next {
		c.renew(own)
	}
	return min(c.nextRequest(), c.deadline()) - c.now()
}

func (c *candidate) deadline() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewed + c.e.config.RenewDeadline
}

func (c *candidate) nextRequest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// later sets when the next request is due.
func (c *candidate) later(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = c.now() + d
}

// canAcquire reports whether the lease can be taken now.
func (c *candidate) canAcquire() bool {
	if !c.Contend || c.after != nil && !c.after.isLeading() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record.known && c.now() >= max(c.record.expires(), c.next)
}

// needsRead reports whether the lease has to be read. Without a watch, that is always; with one, when it has been
// silent for longer than any holder is. Watches break without a word.
func (c *candidate) needsRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now() >= max(c.record.readAt(c.e.config.RetryPeriod), c.next)
}

// left is how long a standby has to wait: until it has to read the lease, or can take it. Contenders do not all come at
// the same moment.
func (c *candidate) left() time.Duration {
	follows := c.after == nil || c.after.isLeading()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := max(c.record.readAt(c.e.config.RetryPeriod), c.next)
	at += jitter(at - c.now())
	if !c.Contend || !c.record.known || !follows {
		return at - c.now()
	}
	take := max(c.record.expires(), c.next)
	if c.record.isHeld() && !c.record.hasHolderEnded() { // what is given up is taken at once
		take += jitter(c.e.config.RetryPeriod / 2)
	}
	return min(at, take) - c.now()
}

// jitter is a random part of a time, up to as much as polling varies.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.Float64() * (pollJitter - 1) * float64(d))
}

// started begins the work under a lease that was won.
func (c *candidate) started(ctx context.Context) {
	c.mu.Lock()
	workers, end := context.WithCancelCause(NewContext(ctx, c.fence))
	if !c.held { // it was lost again
		c.mu.Unlock()
		end(nil)
		return
	}
	c.end = end
	tenure := c.tenure
	masterStatus(c.Name, true)
	c.mu.Unlock()
	klog.FromContext(ctx).
		Info("Lease won", "lease", c.Name, "identity", c.e.config.Identity, "epoch", tenure.Epoch, "adoptedAt", tenure.AdoptedAt)
	c.announce("became leader")
	for _, d := range c.dependents {
		d.wake()
	}
	if c.e.config.OnStarted != nil {
		go c.e.config.OnStarted(workers, c.Name)
	}
}

// stopLeading is what follows when a lease is no longer held: it was lost for a cause, or it is about to be released.
// It ends the workers' context.
func (c *candidate) stopLeading(cause error) {
	c.mu.Lock()
	held, end := c.held, c.end
	c.held, c.over = false, true
	if held {
		masterStatus(c.Name, false)
	}
	c.mu.Unlock()
	if end != nil {
		end(cause)
	}
	if held && cause == nil { // who has lost a lease writes nothing any more, not even an event
		c.announce("stopped leading")
	}
}

// wake makes the loop look at what is due.
func (c *candidate) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// announce records an event with the words of client-go's elector.
func (c *candidate) announce(what string) {
	if c.e.config.Recorder == nil {
		return
	}
	c.mu.Lock()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	if c.record.seen != nil {
		lease.ObjectMeta = *c.record.seen.ObjectMeta.DeepCopy()
	}
	lease.APIVersion, lease.Kind = coordinationv1.SchemeGroupVersion.String(), "Lease"
	c.mu.Unlock()
	c.e.config.Recorder.Eventf(
		lease,
		corev1.EventTypeNormal,
		"LeaderElection",
		"%s",
		fmt.Sprintf("%s %s", c.e.config.Identity, what),
	)
}
