package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/holder"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// Renewal is how often the holder of a lock renews it.
const Renewal = lockRenewal

// ErrNoLock says that the lock is free.
var ErrNoLock = errors.New("the lock is free: there is nothing to unlock")

// State is what the lock's Lease shows.
type State struct {
	Holder string
	// User, Host and PID are those parts of Holder; empty and 0 where it is no holder of ours.
	User, Host string
	PID        int
	// Renewed is when its holder renewed it, by the holder's own clock.
	Renewed time.Time
	// Touched is when the API server wrote it last, by the API server's clock, to the second; zero where the server does
	// not say.
	Touched time.Time
	// Lasts is for how long it counts as held without being renewed.
	Lasts time.Duration
	// Progress is what the holder says about its run; nil where it says nothing.
	Progress *v1.Progress
	// UID and Version name this state of the object.
	UID, Version string
}

// StateOf reads a Lease as a lock; nil when it is free.
func StateOf(l *coordinationv1.Lease) *State {
	if l == nil || ptr.Deref(l.Spec.HolderIdentity, "") == "" {
		return nil
	}
	s := &State{
		Holder:   *l.Spec.HolderIdentity,
		Progress: ReadProgress(l.Annotations[ProgressAnnotation]),
		UID:      string(l.UID),
		Version:  l.ResourceVersion,
		Lasts:    durationOf(l),
	}
	if l.Spec.RenewTime != nil {
		s.Renewed = l.Spec.RenewTime.Time
	}
	for _, m := range l.ManagedFields {
		if m.Time != nil && m.Time.After(s.Touched) {
			s.Touched = m.Time.Time
		}
	}
	if p, ok := holder.Parse(s.Holder); ok {
		s.User, s.Host, s.PID = p.User, p.Host, p.PID
	}
	return s
}

// Read reads the lock; ErrNoLock when it is free.
func Read(ctx context.Context, kube kubernetes.Interface) (*State, error) {
	return ReadAt(ctx, journal.InCluster(kube))
}

// ReadAt reads the lock; ErrNoLock when it is free.
func ReadAt(ctx context.Context, h journal.ObjectLocation) (*State, error) {
	live, err := h.Leases().Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ErrNoLock
	} else if err != nil {
		return nil, fmt.Errorf("reading the lock Lease %s: %w", describeLease(h), err)
	}
	if s := StateOf(live); s != nil {
		return s, nil
	}
	return nil, ErrNoLock
}

// Who says in words who holds the lock.
func (s *State) Who() string { return holder.Words(s.Holder) }

// EndedHere reports whether the holder was a process of this machine which has certainly ended.
func (s *State) EndedHere() bool { return hasEndedHere(s.Holder) }

// Observe watches for two renewals' time whether the holder still renews its lock, which no comparison of clocks can
// prove. It returns a *HeldError when it does.
func Observe(ctx context.Context, h journal.ObjectLocation, c clock.Clock, s *State) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.After(2 * lockRenewal):
	}
	now, err := ReadAt(ctx, h)
	if err != nil {
		return err
	}
	if now.Version != s.Version {
		return &HeldError{Holder: now.Holder}
	}
	return nil
}

// Unlock deletes the lock as it was seen. One that was renewed or taken over since is left alone, which is a
// *HeldError.
func Unlock(ctx context.Context, h journal.ObjectLocation, s *State) error {
	err := h.Leases().Delete(ctx, LeaseName, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{ResourceVersion: &s.Version},
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return &HeldError{Holder: s.Holder}
	case err != nil:
		return fmt.Errorf("deleting the lock Lease %s: %w", describeLease(h), err)
	}
	return nil
}

// ForceUnlock takes the lock away, however it is renewed. Its holder notices at its next renewal and stops in the
// middle of its step.
func ForceUnlock(ctx context.Context, h journal.ObjectLocation, s *State) error {
	for range 5 { // a renewal in between moves the version on
		now, err := ReadAt(ctx, h)
		if errors.Is(err, ErrNoLock) {
			return nil
		} else if err != nil {
			return err
		}
		if now.Holder != s.Holder {
			return &HeldError{Holder: now.Holder}
		}
		var locked *HeldError
		if err := Unlock(ctx, h, now); !errors.As(err, &locked) {
			return err
		}
	}
	return &HeldError{Holder: s.Holder}
}
