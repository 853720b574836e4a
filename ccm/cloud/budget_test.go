package cloud

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/ccm/internal/term"
)

// crowd makes calls of a class with many workers, and again when they are throttled, until the context ends or the calls are done. It returns how long
// each took, from when a worker wanted it, the shortest first.
func crowd(ctx context.Context, b *budget, class Class, workers, total int, call func(context.Context) error) (took []time.Duration) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range workers {
		wg.Go(func() {
			for {
				mu.Lock()
				total--
				done := total < 0
				mu.Unlock()
				begun := time.Now()
				if done || !insist(ctx, b, class, call) {
					return
				}
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

// insist makes a call until it succeeds; false if the context ends before.
func insist(ctx context.Context, b *budget, class Class, call func(context.Context) error) bool {
	for {
		t, err := b.acquire(ctx, class)
		if err != nil {
			return false
		}
		err = call(ctx)
		b.report(t, Classify(err))
		if err == nil {
			return true
		}
	}
}

func TestTheBudgetFindsTheRateThatTheCloudTakesWithoutAStormOfRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		workers     int
		rate, burst float64
		latency     time.Duration
		total       int
		refusals    float64 // at most this part of all calls
	}{
		"20 a second, quick":                          {50, 20, 100, 50 * time.Millisecond, 5000, 0.05},
		"20 a second, 200 workers":                    {200, 20, 100, 50 * time.Millisecond, 5000, 0.05},
		"20 a second, one worker, hardly too much":    {1, 20, 100, 50 * time.Millisecond, 1000, 0.01},
		"20 a second, answers after a second":         {50, 20, 100, time.Second, 2000, 0.1},
		"20 a second, no burst":                       {50, 20, 1, 50 * time.Millisecond, 2000, 0.05},
		"200 a second":                                {50, 200, 200, 50 * time.Millisecond, 20000, 0.02},
		"2 a second, answers after 5 seconds":         {50, 2, 10, 5 * time.Second, 500, 0.25},
		"unlimited as far as these workers can reach": {50, 2000, 2000, 50 * time.Millisecond, 20000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, cloud := newBudget(0), newBucket(c.rate, c.burst, c.latency)
				crowd(t.Context(), b, ClassNode, c.workers, c.total, cloud.call)
				took := time.Since(cloud.firstAt).Seconds()
				possible := min(c.rate, float64(c.workers)/c.latency.Seconds()) * took
				throughput := float64(cloud.served) / min(possible+c.burst, float64(c.workers)/c.latency.Seconds()*took)
				refused := float64(cloud.refused) / float64(cloud.served+cloud.refused)
				t.Logf("throughput %.2f of what is possible, %.1f%% of calls refused", throughput, 100*refused)
				if throughput < 0.8 || refused > c.refusals {
					t.Errorf("throughput is %.2f of what is possible, want at least 0.80; %.3f of calls are refused, want at most %.3f", throughput, refused, c.refusals)
				}
			})
		})
	}
}

func TestThrottledLoadBalancersDoNotStarveNodes(t *testing.T) {
	for name, c := range map[string]struct {
		shared  bool
		balance time.Duration // how long a call about a load balancer takes
		total   time.Duration // for 500 calls about nodes
		worst   time.Duration // for one of them
	}{
		"one limit for all, quick load balancers":      {true, 50 * time.Millisecond, 45 * time.Second, 3 * time.Second},
		"one limit for all, slow load balancers":       {true, 10 * time.Second, 45 * time.Second, 15 * time.Second},
		"a limit of their own, quick load balancers":   {false, 50 * time.Millisecond, 10 * time.Second, time.Second},
		"a limit of their own, slow load balancers":    {false, 10 * time.Second, 10 * time.Second, time.Second},
		"one limit for all, load balancers of minutes": {true, 2 * time.Minute, 45 * time.Second, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBudget(0)
				balancers := newBucket(20, 100, 50*time.Millisecond)
				instances := balancers
				if !c.shared {
					instances = newBucket(100, 100, 50*time.Millisecond)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() {
					crowd(ctx, b, ClassLoadBalancer, 200, math.MaxInt, func(ctx context.Context) error {
						err := balancers.call(ctx)
						term.SleepUnlessDone(ctx, c.balance)
						return err
					})
				})
				term.SleepUnlessDone(ctx, 30*time.Second) // the load balancers have the whole budget
				served := balancers.count()
				begun := time.Now()
				took := crowd(ctx, b, ClassNode, 10, 500, instances.call)
				total, worst := time.Since(begun), took[len(took)-1]
				t.Logf("500 nodes took %s, one at most %s, half of them at most %s", total, worst, took[250])
				if len(took) != 500 || total > c.total || worst > c.worst {
					t.Errorf("500 nodes took %s, want at most %s; one took %s, want at most %s", total, c.total, worst, c.worst)
				}
				if c.shared && c.balance < time.Second && balancers.count()-served-500 < 150 {
					t.Errorf("%d calls about load balancers were served meanwhile: they have a share, too", balancers.count()-served-500)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

func TestAClassGetsItsWeightOfAScarceRateAndWhatOthersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		served := func(classes ...Class) map[Class]int {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			var mu sync.Mutex
			got := map[Class]int{}
			for _, class := range classes {
				wg.Go(func() {
					crowd(ctx, b, class, 30, math.MaxInt, func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						got[class]++
						return nil
					})
				})
			}
			wg.Wait()
			for class, n := range got { // to 5%: what is in the bucket at first
				got[class] = (n + 25) / 50 * 50
			}
			return got
		}
		got := []map[Class]int{served(ClassNode, ClassLifecycle, ClassLoadBalancer, ClassRoute, "unknown"), served(ClassLoadBalancer, ClassOther), served(ClassOther)}
		want := []map[Class]int{
			{ClassNode: 400, ClassLifecycle: 200, ClassLoadBalancer: 200, ClassRoute: 100, "unknown": 100},
			{ClassLoadBalancer: 650, ClassOther: 350},
			{ClassOther: 1000},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls in 100 seconds at 10 a second (-want +got):\n%s", diff)
		}
	})
}

func TestACallerThatDoesNotWaitLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1)
		if _, err := b.acquire(t.Context(), ClassNode); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if _, err := b.acquire(ctx, ClassNode); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
		if _, err := b.acquire(t.Context(), ClassNode); err != nil || time.Since(begun) != time.Second {
			t.Errorf("got %v after %s: the call that was not made counts", err, time.Since(begun))
		}
		if _, err := b.acquire(ctx, ClassNode); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that has ended got leave: %v", err)
		}
	})
}

// The order of ten calls that wait: "h" of high priority, "l" of low.
func TestCallsOfLowPriorityWaitBehindTheOthersAndComeEachFifthTime(t *testing.T) {
	for name, c := range map[string]struct{ come, want string }{
		"the others first":         {"llhh", "hhll"},
		"each fifth is one of low": {"lllhhhhhhhhhh", "hhhhlhhhhlhhl"},
		"only low":                 {"llll", "llll"},
		"one gives up":             {"lxhl", "hll"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBudget(1)
				if _, err := b.acquire(t.Context(), ClassLoadBalancer); err != nil {
					t.Fatal(err)
				}
				var mu sync.Mutex
				got := ""
				for _, priority := range c.come {
					ctx := t.Context()
					if priority != 'h' {
						ctx = WithLowPriority(ctx)
					}
					if priority == 'x' {
						ending, cancel := context.WithTimeout(ctx, time.Millisecond)
						defer cancel()
						ctx = ending
					}
					go func() {
						if _, err := b.acquire(ctx, ClassLoadBalancer); err != nil {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						got += string(priority)
					}()
					synctest.Wait()
				}
				term.SleepUnlessDone(t.Context(), time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if got != c.want {
					t.Errorf("they come in the order %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestALimitIsForgottenWhenNothingIsThrottledForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(0)
		call := func(class Class, outcome Outcome) {
			ticket, err := b.acquire(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			b.report(ticket, outcome)
		}
		rates := func() []float64 {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.dispatch(time.Now())
			return []float64{b.queue(ClassNode).limiter.rate, b.queue(ClassRoute).limiter.rate, b.all.rate}
		}
		inf := math.Inf(1)
		call(ClassNode, OutcomeThrottled)
		got := [][]float64{rates()}
		term.SleepUnlessDone(t.Context(), forgetAfter+time.Second)
		got = append(got, rates())
		call(ClassNode, OutcomeThrottled)
		call(ClassRoute, OutcomeThrottled)
		got = append(got, rates())
		term.SleepUnlessDone(t.Context(), forgetAfter+time.Second)
		got = append(got, rates())
		want := [][]float64{{floor, inf, inf}, {inf, inf, inf}, {inf, inf, floor}, {inf, inf, inf}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rates of nodes, routes and all (-want +got):\n%s", diff)
		}
	})
}

func TestFailuresThatAreNoThrottlingLeaveTheRateAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(0)
		for _, outcome := range Outcomes {
			if outcome == OutcomeThrottled {
				continue
			}
			ticket, err := b.acquire(t.Context(), ClassNode)
			if err != nil {
				t.Fatal(err)
			}
			b.report(ticket, outcome)
		}
		if rate := b.queue(ClassNode).limiter.rate; !math.IsInf(rate, 1) {
			t.Errorf("the rate is %v", rate)
		}
	})
}
