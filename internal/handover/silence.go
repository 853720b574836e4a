package handover

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Silence is what was seen of a lease that is not renewed. It uses how long the lease was watched, and not the times in
// the lease: the clock of their writer may be wrong. The zero value has seen nothing.
type Silence struct {
	seen  Binding
	renew time.Time
	since time.Time
}

// Expired reads the lease once more, and reports whether the same holder has held it, without a renewal, for longer
// than it lasts.
func (l Leases) Expired(ctx context.Context, lease string, s *Silence) (bool, error) {
	live, silent, err := l.observe(ctx, lease, s)
	if err != nil {
		return false, err
	}
	return silent > time.Duration(ptr.Deref(live.Spec.LeaseDurationSeconds, 0))*time.Second+startTolerance, nil
}

// SilentFor reads the lease once more. It returns for how long it has been seen held by the same holder without a
// renewal, and how long it lasts.
func (l Leases) SilentFor(ctx context.Context, lease string, s *Silence) (silent, lasts time.Duration, err error) {
	live, silent, err := l.observe(ctx, lease, s)
	if err != nil {
		return 0, 0, err
	}
	return silent, time.Duration(ptr.Deref(live.Spec.LeaseDurationSeconds, 0)) * time.Second, nil
}

func (l Leases) observe(ctx context.Context, lease string, s *Silence) (*coordinationv1.Lease, time.Duration, error) {
	live, err := l.Client.Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("reading lease %s: %w", lease, err)
	}
	now, renewed := l.Now(), time.Time{}
	if live.Spec.RenewTime != nil {
		renewed = live.Spec.RenewTime.UTC()
	}
	if seen := binding(live); s.since.IsZero() || seen != s.seen || !renewed.Equal(s.renew) {
		*s = Silence{seen: seen, renew: renewed, since: now}
	}
	return live, now.Sub(s.since), nil
}
