// Package lock decides who may change a cluster: a Lease that one run holds, and what it says of that run.
package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/boottime"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/holder"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/retry"
)

// HeldError says that another process is changing this cluster.
type HeldError struct {
	Holder string
	// Hosted reports whether the lock is in a seed, where transplant unlock does not look.
	Hosted bool
}

func (e *HeldError) Error() string {
	dead := "if it has ended: transplant unlock"
	if e.Hosted {
		dead = "if it has certainly ended, run again with --steal-lock"
	}
	return fmt.Sprintf(
		"the cluster is locked by %s, which is at work: wait for it, or stop it where it runs; %s",
		holder.Words(e.Holder),
		dead,
	)
}

func describeLease(h journal.ObjectLocation) string { return h.NamespaceOrDefault() + "/" + LeaseName }

// LeaseName is the Lease in kube-system that keeps two people from changing one cluster at once.
const LeaseName = "transplant-lock"

const (
	// lockDuration is longer than the only kube-apiserver of a cluster needs to restart, which was measured to take over a
	// minute on a busy host. No process can renew or take the lock meanwhile. A step that may take the API server away for
	// longer asks for more before, see Extend.
	lockDuration = 3 * time.Minute
	lockRenewal  = 5 * time.Second
	// longestDuration is more than any step asks for. A Lease that claims more was planted, and would keep one of the
	// operator's places for as long.
	longestDuration = 15 * time.Minute
	// lockMargin is what the lock lasts longer than the API server may be away.
	lockMargin = time.Minute
	// publishInterval is how often the lock is written at most, for the sake of onlookers.
	publishInterval = time.Second
)

// ErrLockLost is the cause of the context's end when another process took the lock, or it could not be renewed for its
// whole duration.
var ErrLockLost = hostaccess.ErrLockLost

// Lock is held while a cluster is changed.
type Lock struct {
	home  journal.ObjectLocation
	clock clock.Clock
	// boot goes on while this machine is suspended, and others count.
	boot   func() time.Duration
	holder string
	cancel context.CancelCauseFunc
	done   chan struct{}
	// wake is told when progress has changed.
	wake chan struct{}

	mu       sync.Mutex
	progress string
	// duration is for how long the lock is to be held without a renewal from the next one on.
	duration time.Duration
	// renewed is when the last write of the lock was begun, by boot, and lasts for how long it is held since then.
	renewed time.Duration
	lasts   time.Duration
	// again is closed when the lock was written once more.
	again chan struct{}
}

// Holder describes this process as the holder of a lock: who, where, which process, since when. It differs each time.
// So a process that has lost its lock to another run of its own does not take that one's lock for its own.
func Holder(user string) string {
	return holder.This(user).String() + " since=" + time.Now().UTC().Format(time.RFC3339Nano)
}

// Taking says who takes a lock, and from whom.
type Taking struct {
	Holder string
	// Steal takes the lock from its holder.
	Steal bool
	// From reports whether a holder can change nothing any longer, so that its lock is taken at once; nil if none can.
	From func(holder string) bool
	// Boot is the clock by which the lock runs out; nil for package boottime's.
	Boot func() time.Duration
	// Tell receives for how long another holder's lock is observed; nil without a receiver.
	Tell func(string)
}

// Acquire takes the lock and renews it until Release; the returned context ends with ErrLockLost when it is lost. A
// lock whose holder was a process of this machine that has certainly ended is taken over at once. Another one is taken
// only if it is not renewed while it is observed.
func Acquire(ctx context.Context, kube kubernetes.Interface, c clock.Clock, t Taking) (context.Context, *Lock, error) {
	return AcquireAt(ctx, journal.InCluster(kube), c, t)
}

// AcquireAt takes the lock of this home, as the function of that name does.
func AcquireAt(ctx context.Context, h journal.ObjectLocation, c clock.Clock, t Taking) (context.Context, *Lock, error) {
	l := &Lock{
		home:     h,
		clock:    c,
		boot:     t.Boot,
		holder:   t.Holder,
		duration: lockDuration,
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
		again:    make(chan struct{}),
	}
	if l.boot == nil {
		l.boot = boottime.Now
	}
	if err := l.acquireLease(ctx, t); err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	l.cancel = cancel
	held = hostaccess.WithLock(held, l.heldUntil)
	go l.renew(held)
	return held, l, nil
}

func (l *Lock) acquireLease(ctx context.Context, t Taking) error {
	leases := l.home.Leases()
	begun, now := l.boot(), metav1.NewMicroTime(l.clock.Now())
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       &l.holder,
		LeaseDurationSeconds: ptr.To(int32(lockDuration / time.Second)),
		AcquireTime:          &now,
		RenewTime:            &now,
	}
	live, err := leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(
			ctx,
			&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: l.home.NamespaceOrDefault()},
				Spec:       spec,
			},
			metav1.CreateOptions{},
		)
		if apierrors.IsAlreadyExists(err) {
			return l.acquireLease(ctx, t)
		}
		if err != nil {
			return fmt.Errorf("creating the lock Lease %s: %w", describeLease(l.home), err)
		}
		l.written(begun, lockDuration)
		return nil
	} else if err != nil {
		return fmt.Errorf("reading the lock Lease %s: %w", describeLease(l.home), err)
	}
	if who := ptr.Deref(
		live.Spec.HolderIdentity,
		"",
	); who != "" && !t.Steal && !hasEndedHere(who) &&
		(t.From == nil || !t.From(who)) {
		ended, err := l.observe(ctx, live, t.Tell)
		if err != nil {
			return err
		}
		if ended {
			return l.acquireLease(ctx, t)
		}
	}
	begun = l.boot() // looking may have taken minutes
	live.Spec = spec
	delete(live.Annotations, ProgressAnnotation) // of a holder before
	if _, err := leases.Update(ctx, live, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
		return heldError(l.home, "another transplant that took the lock at the same moment")
	} else if err != nil {
		return fmt.Errorf("taking the lock Lease %s: %w", describeLease(l.home), err)
	}
	l.written(begun, lockDuration)
	return nil
}

// observe watches whether the lock is written, which no comparison of clocks can prove. It returns a *LockedError when
// it is, and true when its holder gave it up. A holder that cannot reach the API server goes on for almost as long as
// its lock lasts without renewing it. So that is how long it takes. Only a lock that is old already, as far as the two
// clocks agree, counts as free after two renewals' time.
func (l *Lock) observe(ctx context.Context, seen *coordinationv1.Lease, tell func(string)) (ended bool, err error) {
	look := durationOf(seen)
	if seen.Spec.RenewTime != nil {
		look = min(look, max(2*lockRenewal, look-l.clock.Since(seen.Spec.RenewTime.Time)))
	}
	who := holder.Words(ptr.Deref(seen.Spec.HolderIdentity, ""))
	if tell != nil {
		tell(
			fmt.Sprintf("%s holds the lock on the cluster: looking for up to %s whether it is renewed", who, look.Round(time.Second)),
		)
	}
	for end := l.clock.Now().Add(look); l.clock.Now().Before(end); {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-l.clock.After(min(lockRenewal, end.Sub(l.clock.Now()))):
		}
		var live *coordinationv1.Lease
		err := retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) (err error) {
			live, err = l.home.Leases().Get(ctx, LeaseName, metav1.GetOptions{})
			return err
		})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("reading the lock Lease %s: %w", describeLease(l.home), err)
		case live.ResourceVersion != seen.ResourceVersion:
			return false, heldError(l.home, ptr.Deref(live.Spec.HolderIdentity, ""))
		}
	}
	return false, nil
}

// durationOf is for how long a lock that is not renewed counts as held.
func durationOf(l *coordinationv1.Lease) time.Duration {
	claimed := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
	return min(max(lockDuration, claimed), longestDuration)
}

// heldError says that another process holds the lock of this location.
func heldError(h journal.ObjectLocation, who string) error {
	return &HeldError{Holder: who, Hosted: h.NamespaceOrDefault() != component.Namespace}
}

// hasEndedHere reports whether the holder was a process of this machine which has certainly ended.
func hasEndedHere(who string) bool { return holder.This("").Dead(who) }

// Publish shows a text (see Progress) on the lock, soon, and at most once in a publishInterval.
func (l *Lock) Publish(progress string) {
	l.mu.Lock()
	l.progress = progress
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

func (l *Lock) published() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress
}

// Extend makes the lock last longer than usual, and returns when the API server confirms it. It is for a stop of the
// only API server: meanwhile its holder must not give it up, and no other process take it. It lasts as usual again from
// a renewal behind the returned function on.
func (l *Lock) Extend(ctx context.Context, away time.Duration) (restore func(), err error) {
	lasts := max(lockDuration, away+lockMargin)
	l.last(lasts)
	restore = func() { l.last(lockDuration) }
	err = retry.Do(ctx, retry.WriteTimeout, func(ctx context.Context) error {
		ok, err := l.renewOnce(ctx, l.published())
		if apierrors.IsConflict(err) {
			ok, err = l.renewOnce(ctx, l.published()) // with the renewal that goes on next to
		}
		if err == nil && !ok {
			return ErrLockLost
		}
		return err
	})
	if err != nil {
		restore()
		return nil, fmt.Errorf("having the lock last for %s: %w", lasts, err)
	}
	return restore, nil
}

func (l *Lock) last(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.duration = d
}

// written notes that the lock was written by a request that was begun at a moment, to last so long from then on.
func (l *Lock) written(begun, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed, l.lasts = begun, lasts
	close(l.again)
	l.again = make(chan struct{})
}

// until is when the lock counts as lost for this process, which is some time before others may take it.
func (l *Lock) until() (at time.Duration, again <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed + l.lasts - 2*lockRenewal, l.again
}

// isExpired reports whether the lock could not be renewed for about as long as it lasts.
func (l *Lock) isExpired() bool {
	until, _ := l.until()
	return l.boot() > until
}

// heldUntil is a hostaccess.HeldUntil. A process that wakes up late waits here for the next renewal, which shows
// whether another process took the lock meanwhile.
func (l *Lock) heldUntil(ctx context.Context) (time.Duration, error) {
	for {
		select {
		case <-l.done: // another process may hold it already, long before the time is over
			return 0, ErrLockLost
		default:
		}
		until, again := l.until()
		if l.boot() < until {
			return until, nil
		}
		select {
		case <-again:
		case <-l.done:
			return 0, ErrLockLost
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (l *Lock) renew(ctx context.Context) {
	defer close(l.done)
	tried := l.clock.Now()
	shown := ""
	for {
		due := lockRenewal
		if l.published() != shown {
			due = publishInterval
		}
		if !l.waitUntil(ctx, tried.Add(due)) {
			if ctx.Err() != nil {
				return
			}
			continue // there is something new to show
		}
		progress := l.published()
		tried = l.clock.Now()
		ok, err := l.renewOnce(ctx, progress)
		switch {
		case err == nil && ok:
			shown = progress
		case err == nil, l.isExpired():
			l.cancel(ErrLockLost)
			return
		}
	}
}

// waitUntil waits for a moment; false when there is something new to show, or ctx ended, before it.
func (l *Lock) waitUntil(ctx context.Context, at time.Time) bool {
	timer := l.clock.NewTimer(at.Sub(l.clock.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.wake:
		return false
	case <-timer.C():
		return ctx.Err() == nil
	}
}

// renewOnce is false when another process holds the lock, or deleted it.
func (l *Lock) renewOnce(ctx context.Context, progress string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lockRenewal)
	defer cancel()
	leases := l.home.Leases()
	live, err := leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if ptr.Deref(live.Spec.HolderIdentity, "") != l.holder {
		return false, nil
	}
	begun, now := l.boot(), metav1.NewMicroTime(l.clock.Now())
	l.mu.Lock()
	lasts := l.duration
	l.mu.Unlock()
	live.Spec.RenewTime, live.Spec.LeaseDurationSeconds = &now, ptr.To(int32(lasts/time.Second))
	if progress != "" {
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, ProgressAnnotation, progress)
	}
	if _, err := leases.Update(ctx, live, metav1.UpdateOptions{}); err != nil {
		return true, err
	}
	l.written(begun, lasts)
	return true, nil
}

// Release gives the lock up. What was done under it stays, also where that fails: then the lock runs out by itself.
func (l *Lock) Release(ctx context.Context) error {
	l.cancel(context.Canceled)
	<-l.done
	// A renewal that was under way may still arrive. The next command would observe a lock that is left behind for it for
	// minutes.
	for range releaseTries {
		ended, err := l.giveUp(ctx)
		switch {
		case err != nil:
			return fmt.Errorf(
				"releasing the lock Lease %s: %w (what was done stays, and the lock runs out by itself in %s)",
				describeLease(l.home), err, lockDuration,
			)
		case ended:
			return nil
		}
	}
	return fmt.Errorf(
		"releasing the lock Lease %s: another client keeps writing it; run transplant unlock to see who",
		describeLease(l.home),
	)
}

// releaseTries is how often a lock that is written meanwhile is released; only one late renewal of this process has a
// reason to write it.
const releaseTries = 5

// releaseTimeout is for how long the release is tried. The API server of a busy host may not answer for some seconds,
// and a request that it has lost takes lockRenewal.
const releaseTimeout = 30 * time.Second

// giveUp deletes the lock while it is this process's; false when it was written meanwhile.
func (l *Lock) giveUp(ctx context.Context) (ended bool, err error) {
	err = retry.Do(ctx, releaseTimeout, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lockRenewal)
		defer cancel()
		ended = true
		leases := l.home.Leases()
		live, err := leases.Get(ctx, LeaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		if ptr.Deref(live.Spec.HolderIdentity, "") != l.holder {
			return nil
		}
		// Deleted with its resourceVersion, so that one who just took it over keeps it.
		err = leases.Delete(
			ctx,
			LeaseName,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &live.ResourceVersion}},
		)
		if apierrors.IsConflict(err) {
			ended = false
			return nil
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	return ended, err
}

// CurrentHolder says who holds the lock; empty when it is free.
func CurrentHolder(ctx context.Context, kube kubernetes.Interface) (string, error) {
	return HolderAt(ctx, journal.InCluster(kube))
}

// HolderAt says who holds the lock; empty when it is free.
func HolderAt(ctx context.Context, h journal.ObjectLocation) (string, error) {
	s, err := ReadAt(ctx, h)
	if errors.Is(err, ErrNoLock) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return s.Holder, nil
}
