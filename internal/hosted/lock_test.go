package hosted

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/boottime"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// TestTheLockInASeedRunsOutWhileTheMachineSleeps: the commands give the plane the real clock, and Go's stands still in
// suspend. A laptop that wakes up would go on with a lock that another run has by then.
func TestTheLockInASeedRunsOutWhileTheMachineSleeps(t *testing.T) {
	p := &Plane{Name: "x", Namespace: ns, Seed: Clients{Kube: fake.NewClientset()}, Clock: clock.RealClock{}}
	taken := boottime.Now()
	err := p.locked(t.Context(), func(ctx context.Context, _ func(string)) error {
		until, depends, err := hostaccess.LockedUntil(ctx)
		if now := boottime.Now(); !depends || until <= taken || until > now+3*time.Minute {
			t.Errorf("it is held until %s of the time since the boot, which was %s to %s", until, taken, now)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
