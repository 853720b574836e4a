package handover

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Silence is what was seen of a lease that is not renewed. It goes by how long one looked, and not by the times in the lease: the clock of whoever wrote
// them may be wrong. The zero value has seen nothing.
type Silence struct {
	seen  Binding
	renew time.Time
	since time.Time
}

// Expired looks at the lease once more, and tells whether it has been held by the same holder, without a renewal, for longer than it lasts.
func (l Leases) Expired(ctx context.Context, lease string, s *Silence) (bool, error) {
	live, err := l.Client.Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading lease %s: %w", lease, err)
	}
	now, renewed := l.Now(), time.Time{}
	if live.Spec.RenewTime != nil {
		renewed = live.Spec.RenewTime.UTC()
	}
	if seen := binding(live); s.since.IsZero() || seen != s.seen || !renewed.Equal(s.renew) {
		*s = Silence{seen: seen, renew: renewed, since: now}
	}
	return now.Sub(s.since) > time.Duration(ptr.Deref(live.Spec.LeaseDurationSeconds, 0))*time.Second+startTolerance, nil
}
