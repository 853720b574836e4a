package lock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/holder"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// locked is a cluster whose lock somebody holds, who renewed it so long ago.
func locked(t *testing.T, holder string, age time.Duration) (*apitest.Server, kubernetes.Interface, *clocktesting.FakeClock) {
	t.Helper()
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	c := clocktesting.NewFakeClock(noon)
	renewed := metav1.NewMicroTime(noon.Add(-age))
	server.Put(
		t,
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: component.Namespace},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
		},
	)
	return server, kube, c
}

// looking is a clock on which looking at a lock takes no time; while is what happens meanwhile.
type looking struct {
	*clocktesting.FakeClock
	while func()
}

func (l looking) After(d time.Duration) <-chan time.Time {
	passed := l.FakeClock.After(d)
	if l.while != nil {
		l.while()
	}
	l.Step(d)
	return passed
}

// renew is what the holder of the lock does every few seconds, whatever its clock says.
func renew(t *testing.T, server *apitest.Server) {
	var l coordinationv1.Lease
	server.Get(t, leasePath(LeaseName), &l)
	server.Put(t, &l)
}

// waitedFor returns when somebody waits for the clock, or ctx has ended.
func waitedFor(ctx context.Context, c *clocktesting.FakeClock) {
	for ctx.Err() == nil && !c.HasWaiters() {
		runtime.Gosched()
	}
}

func TestALockIsTakenAndGivenBack(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	held, lock, err := Acquire(t.Context(), kube, clocktesting.NewFakeClock(noon), Taking{Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if who, err := CurrentHolder(t.Context(), kube); err != nil || who != "me" {
		t.Errorf("holder %q, %v", who, err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held.Err() == nil {
		t.Error("work goes on without the lock")
	}
	if who, err := CurrentHolder(t.Context(), kube); err != nil || who != "" {
		t.Errorf("holder %q, %v", who, err)
	}
}

// trip is what a request meets on its way.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A renewal that was sent before the lock is given up may be executed behind the last look at it.
func TestALockWithALateRenewalIsGivenUp(t *testing.T) {
	server := apitest.New(t)
	config := server.Config()
	var late sync.Once
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return trip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete {
				late.Do(func() { renew(t, server) })
			}
			return next.RoundTrip(r)
		})
	})
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lock, err := Acquire(t.Context(), kube, clocktesting.NewFakeClock(noon), Taking{Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if who, err := CurrentHolder(t.Context(), kube); err != nil || who != "" {
		t.Errorf("holder %q, %v", who, err)
	}
}

// The API server of a busy host loses a request: the lock is given up by the next one.
func TestALockIsGivenUpThoughAnAnswerNeverComes(t *testing.T) {
	t.Parallel()
	for name, always := range map[string]bool{"one": false, "each": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := apitest.New(t).Config()
			var first sync.Once
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return trip(func(r *http.Request) (*http.Response, error) {
					lost := always
					if r.Method == http.MethodDelete {
						first.Do(func() { lost = true })
					}
					if r.Method == http.MethodDelete && lost {
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					return next.RoundTrip(r)
				})
			})
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			_, lock, err := Acquire(t.Context(), kube, clocktesting.NewFakeClock(noon), Taking{Holder: "me"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*lockRenewal)
			defer cancel()
			err = lock.Release(ctx)
			if who, lookErr := CurrentHolder(t.Context(), kube); lookErr != nil || (who == "") == always {
				t.Errorf("holder %q, %v", who, lookErr)
			}
			if (err != nil) != always || always && !strings.Contains(err.Error(), "what was done stays, and the lock runs out by itself in 3m0s") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestTwoAtOnce(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	c := clocktesting.NewFakeClock(noon)
	_, lock, err := Acquire(t.Context(), kube, c, Taking{Holder: Holder("first")})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Acquire(t.Context(), kube, looking{c, func() { renew(t, server) }}, Taking{Holder: Holder("second")})
	var l *HeldError
	if !errors.As(err, &l) || !strings.HasPrefix(l.Holder, "first@") {
		t.Errorf("the second one: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, lock, err = Acquire(t.Context(), kube, c, Taking{Holder: Holder("second")}); err != nil {
		t.Fatalf("after the first one gave it back: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhoMayTakeALock(t *testing.T) {
	self := holder.This("ops")
	dead, reused, foreign, alive := self, self, self, self.String()
	dead.PID = 1<<22 + 1 // above the largest that there can be
	reused.Start += "1"
	foreign.PID, foreign.Space = dead.PID, "pid:[1]"
	old := fmt.Sprintf("ops@%s pid %d start 1795366800123456789", self.Host, dead.PID)
	for _, c := range []struct {
		name   string
		holder string
		age    time.Duration
		taking Taking
		works  bool          // the holder renews its lock
		looked time.Duration // 0 for not at all
		taken  bool
	}{
		{"a process of this machine that has ended", dead.String(), time.Second, Taking{}, false, 0, true},
		{"a process of this machine whose ID another one has by now", reused.String(), time.Second, Taking{}, false, 0, true},
		{"a process of this machine that lives", alive, time.Second, Taking{}, true, lockRenewal, false},
		{"a process of another container of this hostname", foreign.String(), time.Second, Taking{}, true, lockRenewal, false},
		{"a process of this hostname that an older version named", old, time.Second, Taking{}, true, lockRenewal, false},
		{"one that an older version named, and has ended", old, time.Second, Taking{}, false, lockDuration - time.Second, true},
		{"a process of another machine", "ops@elsewhere pid 1 start 1", time.Second, Taking{}, true, lockRenewal, false},
		{"a process of another machine, which may be cut off for a moment", "ops@elsewhere pid 1 start 1", time.Second, Taking{}, false, lockDuration - time.Second, true},
		{"one whose lock is old", "ops@elsewhere pid 1 start 1", time.Hour, Taking{}, false, 2 * lockRenewal, true},
		{"one whose clock is behind", "ops@elsewhere pid 1 start 1", time.Hour, Taking{}, true, lockRenewal, false},
		{"one whose clock is ahead", "ops@elsewhere pid 1 start 1", -2 * time.Hour, Taking{}, true, lockRenewal, false},
		{"one whose clock was ahead", "ops@elsewhere pid 1 start 1", -2 * time.Hour, Taking{}, false, lockDuration, true},
		{"one that is certainly dead", "ops@elsewhere pid 1 start 1", time.Second, Taking{Steal: true}, true, 0, true},
		{"one that has lost its election", "ops of old", time.Second, Taking{From: func(who string) bool { return who == "ops of old" }}, true, 0, true},
		{"one that has not", "ops of new", time.Second, Taking{From: func(who string) bool { return who == "ops of old" }}, true, lockRenewal, false},
		{"a holder that says nothing about a process", "ops", time.Second, Taking{}, true, lockRenewal, false},
		{"nobody", "", time.Second, Taking{}, false, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, kube, clock := locked(t, c.holder, c.age)
			var said []string
			c.taking.Holder, c.taking.Tell = "me", func(s string) { said = append(said, s) }
			_, lock, err := Acquire(t.Context(), kube, looking{clock, func() {
				if c.works {
					renew(t, server)
				}
			}}, c.taking)
			var l *HeldError
			if c.taken != (err == nil) || err != nil && (!errors.As(err, &l) || l.Holder != c.holder) {
				t.Fatalf("taken %v, want %v: %v", err == nil, c.taken, err)
			}
			if looked := clock.Now().Sub(noon); looked != c.looked {
				t.Errorf("it was looked at for %s, want %s", looked, c.looked)
			}
			if (len(said) == 1) != (c.looked > 0) ||
				len(said) > 0 && !strings.HasPrefix(said[0], holder.Words(c.holder)+" holds the lock on the cluster: looking for ") {
				t.Errorf("it said %q", said)
			}
			if err == nil {
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestALockThatIsGivenUpWhileItIsLookedAtIsTaken(t *testing.T) {
	server, kube, clock := locked(t, "ops@elsewhere pid 1 start 1", time.Second)
	_, lock, err := Acquire(t.Context(), kube, looking{clock, func() { server.Delete(leasePath(LeaseName)) }}, Taking{Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if looked := clock.Now().Sub(noon); looked != lockRenewal {
		t.Errorf("it was looked at for %s", looked)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhoStopsWaitingForALockIsNotToldThatItIsHeld(t *testing.T) {
	_, kube, clock := locked(t, "ops@elsewhere pid 1 start 1", time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := looking{clock, cancel}
	_, _, err := Acquire(ctx, kube, cancelled, Taking{Holder: "me"})
	var l *HeldError
	if !errors.Is(err, context.Canceled) || errors.As(err, &l) {
		t.Errorf("error: %v", err)
	}
}

func TestAHeldLockNamesUnlockBeforeItIsTakenBlindly(t *testing.T) {
	process := holder.Process{User: "ops", Host: "bastion", PID: 4412, Start: "812", Boot: "x", Space: "y"}.String()
	for _, c := range []struct {
		hosted bool
		want   string
	}{
		{false, "the cluster is locked by ops@bastion pid 4412, which is at work: wait for it, or stop it where it runs; " +
			"if it has ended: transplant unlock"},
		{true, "the cluster is locked by ops@bastion pid 4412, which is at work: wait for it, or stop it where it runs; if it has certainly ended, run again with --steal-lock"},
	} {
		if got := (&HeldError{Holder: process, Hosted: c.hosted}).Error(); got != c.want {
			t.Errorf("it says %q, want %q", got, c.want)
		}
	}
}

// leaving is an API server that answers nobody while down is true.
func leaving(t *testing.T) (server *apitest.Server, kube kubernetes.Interface, down *atomic.Bool) {
	t.Helper()
	server, down = apitest.New(t), &atomic.Bool{}
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		if down.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
		return down.Load()
	}
	kube, _ = server.Clients(t)
	return server, kube, down
}

func TestALostLockEndsTheWork(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*apitest.Server, *atomic.Bool)
	}{
		{"somebody stole it", func(s *apitest.Server, _ *atomic.Bool) {
			s.Put(t, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: component.Namespace},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("thief")},
			})
		}},
		{"it could not be renewed for its duration", func(_ *apitest.Server, down *atomic.Bool) { down.Store(true) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, kube, down := leaving(t)
			clock := clocktesting.NewFakeClock(noon)
			held, lock, err := Acquire(t.Context(), kube, clock, Taking{Holder: "me", Boot: bootOf(clock)})
			if err != nil {
				t.Fatal(err)
			}
			waitedFor(held, clock)
			clock.Step(lockRenewal) // a renewal that succeeds
			c.lose(server, down)
			for range int(lockDuration / lockRenewal) {
				waitedFor(held, clock)
				clock.Step(lockRenewal)
			}
			<-held.Done()
			if !errors.Is(context.Cause(held), ErrLockLost) {
				t.Errorf("cause: %v", context.Cause(held))
			}
			<-lock.done
			if _, err := lock.heldUntil(t.Context()); !errors.Is(err, ErrLockLost) {
				t.Errorf("a change is still granted: %v", err)
			}
			down.Store(false)
			if err := lock.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if who, _ := CurrentHolder(t.Context(), kube); c.name == "somebody stole it" && who != "thief" {
				t.Errorf("the thief's lock was given back; the holder is %q", who)
			}
		})
	}
}

// bootOf is a clock of a machine that is never suspended.
func bootOf(c *clocktesting.FakeClock) func() time.Duration {
	return func() time.Duration { return c.Since(noon) }
}

// While a machine is suspended, its timers and its monotonic clock stand still, and those who look at its lock count.
func TestALockRunsOutWhileItsMachineIsSuspended(t *testing.T) {
	suspended := func(t *testing.T) (server *apitest.Server, down *atomic.Bool, clock *clocktesting.FakeClock, held context.Context, lock *Lock) {
		server, kube, down := leaving(t)
		clock = clocktesting.NewFakeClock(noon)
		var slept atomic.Int64
		held, lock, err := Acquire(
			t.Context(),
			kube,
			clock,
			Taking{Holder: "me", Boot: func() time.Duration { return clock.Since(noon) + time.Duration(slept.Load()) }},
		)
		if err != nil {
			t.Fatal(err)
		}
		if until, depends, err := hostaccess.LockedUntil(held); err != nil || !depends || until != lockDuration-2*lockRenewal {
			t.Errorf("at first, changes may be begun until %s, %v, %v", until, depends, err)
		}
		waitedFor(held, clock)
		slept.Store(int64(lockDuration))
		return server, down, clock, held, lock
	}
	t.Run("and somebody takes it", func(t *testing.T) {
		server, _, clock, held, _ := suspended(t)
		server.Put(
			t,
			&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: component.Namespace},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("other")},
			},
		)
		change := make(chan error, 1)
		go func() { change <- hostaccess.CheckLock(held) }()
		select {
		case err := <-change:
			t.Fatalf("a change did not wait for what the next renewal shows: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		clock.Step(lockRenewal)
		if err := <-change; !errors.Is(err, ErrLockLost) {
			t.Errorf("a change: %v", err)
		}
	})
	t.Run("and nobody takes it", func(t *testing.T) {
		_, _, clock, held, lock := suspended(t)
		change := make(chan error, 1)
		go func() { change <- hostaccess.CheckLock(held) }()
		clock.Step(lockRenewal)
		if err := <-change; err != nil {
			t.Errorf("a change after the renewal: %v", err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := hostaccess.CheckLock(context.WithoutCancel(held)); err != nil && !errors.Is(err, ErrLockLost) {
			t.Errorf("a change after the release: %v", err)
		}
	})
	t.Run("and the API server is out of reach", func(t *testing.T) {
		_, down, clock, held, _ := suspended(t)
		down.Store(true)
		clock.Step(lockRenewal) // one failure is enough: before, it would have been half a minute of them and more
		<-held.Done()
		if !errors.Is(context.Cause(held), ErrLockLost) {
			t.Errorf("cause: %v", context.Cause(held))
		}
	})
}

// A step that takes the only API server away may take longer than the lock lasts as a rule.
func TestALockOutlastsTheStepThatTakesTheAPIServerAway(t *testing.T) {
	_, kube, down := leaving(t)
	clock := clocktesting.NewFakeClock(noon)
	held, lock, err := Acquire(t.Context(), kube, clock, Taking{Holder: "me", Boot: bootOf(clock)})
	if err != nil {
		t.Fatal(err)
	}
	lasts := func() time.Duration {
		s, err := Read(t.Context(), kube)
		if err != nil {
			t.Fatal(err)
		}
		return s.Lasts
	}
	const away = 6 * time.Minute
	restore, err := lock.Extend(t.Context(), away)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := lasts(), away+lockMargin; got != want {
		t.Fatalf("before the API server goes, its lock lasts for %s, want %s", got, want)
	}
	down.Store(true)
	for range int(away / lockRenewal) {
		waitedFor(held, clock)
		clock.Step(lockRenewal)
	}
	if held.Err() != nil {
		t.Fatalf("the API server was away for %s: %v", away, context.Cause(held))
	}
	down.Store(false)
	restore()
	for i := 0; lasts() != lockDuration; i++ {
		if i > 100 {
			t.Fatalf("behind the step the lock still lasts for %s", lasts())
		}
		waitedFor(held, clock)
		clock.Step(lockRenewal)
	}
	down.Store(true)
	for range int(lockDuration / lockRenewal) {
		waitedFor(held, clock)
		clock.Step(lockRenewal)
	}
	<-held.Done()
	down.Store(false)
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// One that claims more than any step asks for was planted: the operator would look at it for 68 years.
func TestALockThatLastsLongerIsLookedAtForLonger(t *testing.T) {
	newImage := v1.Step{Component: component.KAS, Edits: []v1.Edit{{Op: v1.EditSetImage}}}
	if longest := step.TimeoutOf(newImage) + lockMargin; longest >= longestDuration {
		t.Errorf("a step asks for %s", longest)
	}
	for claimed, want := range map[int32]time.Duration{420: 7 * time.Minute, math.MaxInt32: longestDuration} {
		server, kube, clock := locked(t, "ops@elsewhere pid 1 start 1", time.Second)
		var l coordinationv1.Lease
		server.Get(t, leasePath(LeaseName), &l)
		l.Spec.LeaseDurationSeconds = ptr.To(claimed)
		server.Put(t, &l)
		_, lock, err := Acquire(t.Context(), kube, looking{FakeClock: clock}, Taking{Holder: "me"})
		if err != nil {
			t.Fatal(err)
		}
		if looked := clock.Now().Sub(noon); looked != want-time.Second {
			t.Errorf("%d s: it was looked at for %s", claimed, looked)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestALockThatSomebodyTookDoesNotLastLonger(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	_, lock, err := Acquire(t.Context(), kube, clocktesting.NewFakeClock(noon), Taking{Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	server.Put(
		t,
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: component.Namespace},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("thief")},
		},
	)
	if _, err := lock.Extend(t.Context(), time.Minute); !errors.Is(err, ErrLockLost) {
		t.Errorf("error: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNoPermissionForTheLock(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	server.Deny("create", "leases")
	if _, _, err := Acquire(
		t.Context(),
		kube,
		clocktesting.NewFakeClock(noon),
		Taking{Holder: "me"},
	); err == nil ||
		!strings.Contains(err.Error(), `cannot create resource "leases"`) {
		t.Errorf("the error does not say which verb on what: %v", err)
	}
}
