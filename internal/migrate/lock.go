package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// LockName is the Lease in kube-system that keeps two people from changing one cluster at once.
const LockName = "transplant-lock"

const (
	// lockDuration is longer than the only kube-apiserver of a cluster needs to restart, which was measured to take over a minute on a busy host: nobody can
	// renew the lock meanwhile, and nobody take it.
	lockDuration = 3 * time.Minute
	lockRenewal  = 5 * time.Second
	// publishInterval is how often the lock is written at most, for the sake of onlookers.
	publishInterval = time.Second
)

// ErrLockLost is the cause of the context's end when somebody took the lock, or it could not be renewed for its whole duration.
var ErrLockLost = errors.New("the lock on the cluster was lost: somebody else may be changing it")

// Lock is held while a cluster is changed.
type Lock struct {
	home   Home
	clock  clock.Clock
	holder string
	cancel context.CancelCauseFunc
	done   chan struct{}
	// wake is told when progress has changed.
	wake chan struct{}

	mu       sync.Mutex
	progress string
}

// Holder describes this process as the holder of a lock: who, where, which process.
func Holder(user string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s@%s pid %d start %d", user, host, os.Getpid(), time.Now().UnixNano())
}

// Acquire takes the lock and renews it until Release; the returned context ends with ErrLockLost when it is lost. A lock whose holder was a
// process of this machine that is gone is taken over at once; another one only when it was not renewed for its duration, which is observed
// and not computed from clocks that may differ; or with steal.
func Acquire(ctx context.Context, kube kubernetes.Interface, c clock.Clock, holder string, steal bool) (context.Context, *Lock, error) {
	return InCluster(kube).Acquire(ctx, c, holder, steal)
}

// Acquire takes the lock of this home, as the function of that name does.
func (h Home) Acquire(ctx context.Context, c clock.Clock, holder string, steal bool) (context.Context, *Lock, error) {
	l := &Lock{home: h, clock: c, holder: holder, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	if err := l.take(ctx, steal); err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	l.cancel = cancel
	go l.renew(held)
	return held, l, nil
}

func (l *Lock) take(ctx context.Context, steal bool) error {
	leases := l.home.leases()
	now := metav1.NewMicroTime(l.clock.Now())
	spec := coordinationv1.LeaseSpec{HolderIdentity: &l.holder, LeaseDurationSeconds: ptr.To(int32(lockDuration / time.Second)), AcquireTime: &now, RenewTime: &now}
	live, err := leases.Get(ctx, LockName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LockName, Namespace: l.home.namespace()}, Spec: spec}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return l.take(ctx, steal)
		}
		if err != nil {
			return fmt.Errorf("creating the lock Lease %s: %w", l.home.lock(), err)
		}
		return nil
	} else if err != nil {
		return fmt.Errorf("reading the lock Lease %s: %w", l.home.lock(), err)
	}
	holder := ptr.Deref(live.Spec.HolderIdentity, "")
	if holder != "" && !steal && !endedHere(holder) {
		age := time.Duration(0)
		if live.Spec.RenewTime != nil {
			age = l.clock.Since(live.Spec.RenewTime.Time)
		}
		// Clocks may differ, so an old renewal is only believed when it does not move for two renewals' time.
		if age < lockDuration || !l.still(ctx, live.ResourceVersion) {
			return &LockedError{Holder: holder, Age: age}
		}
	}
	live.Spec = spec
	delete(live.Annotations, ProgressAnnotation) // of a holder before
	if _, err := leases.Update(ctx, live, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
		return &LockedError{Holder: "another transplant that started at the same moment"}
	} else if err != nil {
		return fmt.Errorf("taking the lock Lease %s: %w", l.home.lock(), err)
	}
	return nil
}

// still tells that nobody has written the lock for two renewals.
func (l *Lock) still(ctx context.Context, rv string) bool {
	select {
	case <-ctx.Done():
		return false
	case <-l.clock.After(2 * lockRenewal):
	}
	live, err := l.home.leases().Get(ctx, LockName, metav1.GetOptions{})
	return err == nil && live.ResourceVersion == rv
}

// endedHere tells that the holder was a process of this machine which is certainly gone.
func endedHere(holder string) bool {
	host, err := os.Hostname()
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(holder, "@"+host+" pid ")
	if !ok {
		return false
	}
	var pid int
	if _, err := fmt.Sscanf(rest, "%d", &pid); err != nil || pid <= 0 {
		return false
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

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

func (l *Lock) renew(ctx context.Context) {
	defer close(l.done)
	renewed, tried := l.clock.Now(), l.clock.Now()
	shown := ""
	for {
		due := lockRenewal
		if l.published() != shown {
			due = publishInterval
		}
		if !l.until(ctx, tried.Add(due)) {
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
			renewed, shown = l.clock.Now(), progress
		case err == nil, l.clock.Since(renewed) > lockDuration-2*lockRenewal:
			l.cancel(ErrLockLost)
			return
		}
	}
}

// until waits for a moment; false when there is something new to show, or ctx ended, before it.
func (l *Lock) until(ctx context.Context, at time.Time) bool {
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

// renewOnce is false when somebody else holds the lock, or took it away.
func (l *Lock) renewOnce(ctx context.Context, progress string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lockRenewal)
	defer cancel()
	leases := l.home.leases()
	live, err := leases.Get(ctx, LockName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if ptr.Deref(live.Spec.HolderIdentity, "") != l.holder {
		return false, nil
	}
	now := metav1.NewMicroTime(l.clock.Now())
	live.Spec.RenewTime = &now
	if progress != "" {
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, ProgressAnnotation, progress)
	}
	_, err = leases.Update(ctx, live, metav1.UpdateOptions{})
	return true, err
}

// Release gives the lock up.
func (l *Lock) Release(ctx context.Context) error {
	l.cancel(context.Canceled)
	<-l.done
	return Retry(ctx, lockRenewal, func(ctx context.Context) error {
		leases := l.home.leases()
		live, err := leases.Get(ctx, LockName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("releasing the lock Lease %s: %w", l.home.lock(), err)
		}
		if ptr.Deref(live.Spec.HolderIdentity, "") != l.holder {
			return nil
		}
		// Deleted with its resourceVersion, so that one who just took it over keeps it.
		err = leases.Delete(ctx, LockName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &live.ResourceVersion}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// LockHolder says who holds the lock; empty for nobody.
func LockHolder(ctx context.Context, kube kubernetes.Interface) (string, error) {
	return InCluster(kube).LockHolder(ctx)
}

// LockHolder says who holds the lock; empty for nobody.
func (h Home) LockHolder(ctx context.Context) (string, error) {
	live, err := h.leases().Get(ctx, LockName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("reading the lock Lease %s: %w", h.lock(), err)
	}
	return ptr.Deref(live.Spec.HolderIdentity, ""), nil
}
