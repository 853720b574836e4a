package cloud

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// stopwatch measures what is started and done.
type stopwatch struct {
	took time.Duration
	runs int
}

func (s *stopwatch) start() (done func()) {
	s.runs++
	at := time.Now()
	return func() { s.took += time.Since(at) }
}

func TestWaitingForTheBudgetIsNoTimeOfTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := balancers{update: func(ctx context.Context) error { term.SleepUnlessDone(ctx, time.Minute); return nil }}
		balancer, _ := New(&provider{balancer: slow}, Options{MaxQPS: 0.01}).For(election.Unfenced(time.Now())).LoadBalancer()
		var first, second stopwatch
		for _, watch := range []*stopwatch{&first, &second} {
			ctx, end := Track(t.Context(), watch.start)
			if err := balancer.UpdateLoadBalancer(ctx, "c", service("web"), nil); err != nil {
				t.Error(err)
			}
			end()
			end() // as a defer may do it again
		}
		if first.took != time.Minute || second.took != time.Minute {
			t.Errorf("the calls took %s and %s, want a minute each, without the waiting", first.took, second.took)
		}
	})
}

func TestACallThatIsNotMadeOrWasGivenUpIsNotFollowedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		balancer, _ := New(&provider{balancer: balancers{
			update: func(context.Context) error { return nil },
			ensure: func(context.Context) (*corev1.LoadBalancerStatus, error) { <-hang; return nil, nil },
		}}, Options{MaxQPS: 0.001, LoadBalancerTimeout: time.Minute}).For(election.Unfenced(time.Now())).LoadBalancer()
		var given, waiting stopwatch
		ctx, end := Track(t.Context(), given.start)
		_, _ = balancer.EnsureLoadBalancer(ctx, "c", service("a"), nil)
		end()
		ended, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ctx, end = Track(ended, waiting.start)
		if err := balancer.UpdateLoadBalancer(ctx, "c", service("b"), nil); err == nil {
			t.Error("the call was made")
		}
		end()
		if given.took != time.Minute+grace || waiting.took != 0 {
			t.Errorf("the call that hung took %s, the one that waited %s", given.took, waiting.took)
		}
		close(hang)
	})
}

func TestACallWithoutAGuardTakesAsLongAsItIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watch stopwatch
		_, end := Track(t.Context(), watch.start)
		term.SleepUnlessDone(t.Context(), time.Hour)
		end()
		if watch.took != time.Hour || watch.runs != 1 {
			t.Errorf("it took %s in %d runs", watch.took, watch.runs)
		}
	})
}

func TestTheLimitOfCallsForLoadBalancersIsKnownOfAGuardAlone(t *testing.T) {
	guarded := New(&provider{}, Options{LoadBalancerTimeout: time.Hour}).For(election.Unfenced(time.Now()))
	if got := LoadBalancerTimeout(guarded); got != time.Hour {
		t.Errorf("behind a guard it is %s", got)
	}
	if got := LoadBalancerTimeout(&provider{}); got != 0 {
		t.Errorf("without one it is %s", got)
	}
}
