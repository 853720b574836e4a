package service

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

// busy counts the calls that are in the cloud.
type busy struct {
	mu        sync.Mutex
	now, most int
}

func (b *busy) call(d time.Duration) {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	pass(d)
	b.mu.Lock()
	b.now--
	b.mu.Unlock()
}

func (b *busy) peak() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

// health is what the health check says within some time, asked every minute; nil if it never fails.
func (r *running) health(within time.Duration) error {
	for end := time.Now().Add(within); time.Now().Before(end); r.w.settle(time.Minute) {
		if err := r.controller.HealthChecker().Check(nil); err != nil {
			return err
		}
	}
	return nil
}

func TestServicesThatWaitForTheCallBudgetAreNotStuck(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guard = &cloud.Options{MaxQPS: 0.01} // the last of 30 waits for 50 minutes
		w.options.DriftPeriod, w.options.ResyncPeriod = 0, 0
		w.add(node("n1"))
		for i := range 30 {
			w.add(service(fmt.Sprintf("s%02d", i)))
		}
		r := w.start()
		if err := r.health(time.Hour); err != nil {
			t.Errorf("health says %v, while all wait for the budget", err)
		}
		if got := len(w.cloud.has()); got != 30 {
			t.Errorf("%d load balancers were made, want 30", got)
		}
	})
}

func TestCallsAreStuckEachByItself(t *testing.T) {
	for name, guard := range map[string]*cloud.Options{"without a guard": nil, "with one": {LoadBalancerTimeout: 15 * time.Minute, CallTimeout: 15 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.guard = guard
				w.options.DriftPeriod, w.options.ResyncPeriod = 0, 0
				w.cloud.slow(14 * time.Minute)
				w.add(node("n1"), service("web"))
				r := w.start()
				w.settle(15 * time.Minute)
				w.deleteService("web") // which is a look and a deletion, of 28 minutes together
				if err := r.health(29 * time.Minute); err != nil {
					t.Errorf("health says %v, though no call takes longer than it may", err)
				}
				if left := w.cloud.has(); len(left) > 0 || w.service("web") != nil {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

func TestACallIsNotStuckBeforeItsGuardGivesItUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guard, w.options.StuckAfter = &cloud.Options{LoadBalancerTimeout: time.Hour}, 5*time.Minute
		w.cloud.slow(50 * time.Minute)
		w.add(node("n1"), service("web"))
		r := w.start()
		if err := r.health(49 * time.Minute); err != nil {
			t.Errorf("health says %v, before the limit of calls that change load balancers", err)
		}
		w.settle(2 * time.Minute)
		if got := len(w.cloud.has()); got != 1 {
			t.Errorf("%d load balancers were made, want 1", got)
		}
	})
}

func TestACallThatHangsInItsProviderIsStuckThoughOthersWaitForTheBudget(t *testing.T) {
	inWorld(t, func(w *world) {
		w.options.StuckAfter = 5 * time.Minute
		w.cloud.on(func(ctx context.Context, _, _ string) error { <-ctx.Done(); return ctx.Err() })
		w.add(node("n1"), service("web"))
		r := w.start()
		if err := r.health(7 * time.Minute); err == nil || !strings.Contains(err.Error(), "service default/web has been going on for") {
			t.Errorf("health says %v, want the Service whose call hangs", err)
		}
		r.fence.Revoke("the test is over")
	})
}

func TestSlowServicesAreABoundedNumberOfCallsAtOnce(t *testing.T) {
	for name, c := range map[string]struct{ workers, want int }{"with few workers": {2, 2 + 50}, "with many": {8, 8 + 80}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var calls busy
				w.workers = c.workers
				w.cloud.on(func(context.Context, string, string) error { calls.call(time.Hour); return nil })
				w.add(node("n1"))
				for i := range 95 { // a watch of client-go's fake holds a hundred events
					w.add(service(fmt.Sprintf("slow%02d", i)))
				}
				w.start()
				w.settle(50 * time.Minute)
				if got := calls.peak(); got != c.want {
					t.Errorf("%d calls at once with %d workers, want %d", got, c.workers, c.want)
				}
				w.settle(3 * time.Hour)
				if got := len(w.cloud.has()); got != 95 {
					t.Errorf("%d load balancers were made, want 95", got)
				}
			})
		})
	}
}
