package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/apitest"
)

// locked is a cluster whose lock somebody holds, who renewed it so long ago.
func locked(t *testing.T, holder string, age time.Duration) (*apitest.Server, kubernetes.Interface, *clocktesting.FakeClock) {
	t.Helper()
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	c := clocktesting.NewFakeClock(noon)
	renewed := metav1.NewMicroTime(noon.Add(-age))
	server.Put(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LockName, Namespace: namespace}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed}})
	return server, kube, c
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
	held, lock, err := Acquire(t.Context(), kube, clocktesting.NewFakeClock(noon), "me", false)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := LockHolder(t.Context(), kube); err != nil || who != "me" {
		t.Errorf("holder %q, %v", who, err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held.Err() == nil {
		t.Error("work goes on without the lock")
	}
	if who, err := LockHolder(t.Context(), kube); err != nil || who != "" {
		t.Errorf("holder %q, %v", who, err)
	}
}

func TestTwoAtOnce(t *testing.T) {
	kube, _ := apitest.New(t).Clients(t)
	c := clocktesting.NewFakeClock(noon)
	_, lock, err := Acquire(t.Context(), kube, c, Holder("first"), false)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Acquire(t.Context(), kube, c, Holder("second"), false)
	var l *LockedError
	if !errors.As(err, &l) || !strings.HasPrefix(l.Holder, "first@") || !strings.Contains(err.Error(), "--steal-lock") {
		t.Errorf("the second one: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, lock, err = Acquire(t.Context(), kube, c, Holder("second"), false); err != nil {
		t.Fatalf("after the first one gave it back: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhoMayTakeALock(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	alive := fmt.Sprintf("ops@%s pid %d start 1", host, os.Getpid())
	for _, c := range []struct {
		name   string
		holder string
		age    time.Duration
		steal  bool
		taken  bool
	}{
		{"a process of this machine that is gone", fmt.Sprintf("ops@%s pid %d start 1", host, dead.Process.Pid), time.Second, false, true},
		{"a process of this machine that lives", alive, time.Second, false, false},
		{"a process of another machine", "ops@elsewhere pid 1 start 1", time.Second, false, false},
		{"a process of another machine that is certainly dead", "ops@elsewhere pid 1 start 1", time.Second, true, true},
		{"a holder that says nothing about a process", "ops", time.Second, false, false},
		{"a pid that is none", fmt.Sprintf("ops@%s pid -1 start 1", host), time.Second, false, false},
		{"nobody", "", time.Second, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, kube, clock := locked(t, c.holder, c.age)
			_, lock, err := Acquire(t.Context(), kube, clock, "me", c.steal)
			var l *LockedError
			if c.taken != (err == nil) || err != nil && !errors.As(err, &l) {
				t.Fatalf("taken %v, want %v: %v", err == nil, c.taken, err)
			}
			if err == nil {
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestALockThatIsNotRenewed(t *testing.T) {
	for _, renewed := range []bool{false, true} {
		t.Run(fmt.Sprintf("renewed while it was looked at: %v", renewed), func(t *testing.T) {
			server, kube, c := locked(t, "ops@elsewhere pid 1 start 1", time.Hour)
			type result struct {
				lock *Lock
				err  error
			}
			done := make(chan result)
			go func() {
				_, lock, err := Acquire(t.Context(), kube, c, "me", false)
				done <- result{lock, err}
			}()
			waitedFor(t.Context(), c)
			if renewed { // its clock is an hour behind
				var l coordinationv1.Lease
				server.Get(t, leasePath(LockName), &l)
				server.Put(t, &l)
			}
			c.Step(2 * lockRenewal)
			r := <-done
			var l *LockedError
			if renewed != errors.As(r.err, &l) {
				t.Errorf("error: %v", r.err)
			}
			if r.err == nil {
				if err := r.lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestALostLockEndsTheWork(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*apitest.Server, *atomic.Bool)
	}{
		{"somebody stole it", func(s *apitest.Server, _ *atomic.Bool) {
			s.Put(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LockName, Namespace: namespace}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("thief")}})
		}},
		{"it could not be renewed for its duration", func(_ *apitest.Server, down *atomic.Bool) { down.Store(true) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := apitest.New(t)
			var down atomic.Bool
			server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				if down.Load() {
					w.WriteHeader(http.StatusForbidden)
				}
				return down.Load()
			}
			kube, _ := server.Clients(t)
			clock := clocktesting.NewFakeClock(noon)
			held, lock, err := Acquire(t.Context(), kube, clock, "me", false)
			if err != nil {
				t.Fatal(err)
			}
			waitedFor(held, clock)
			clock.Step(lockRenewal) // a renewal that succeeds
			c.lose(server, &down)
			for range int(lockDuration / lockRenewal) {
				waitedFor(held, clock)
				clock.Step(lockRenewal)
			}
			<-held.Done()
			if !errors.Is(context.Cause(held), ErrLockLost) {
				t.Errorf("cause: %v", context.Cause(held))
			}
			down.Store(false)
			if err := lock.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if who, _ := LockHolder(t.Context(), kube); c.name == "somebody stole it" && who != "thief" {
				t.Errorf("the thief's lock was given back; the holder is %q", who)
			}
		})
	}
}

func TestNoPermissionForTheLock(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	server.Deny("create", "leases")
	if _, _, err := Acquire(t.Context(), kube, clocktesting.NewFakeClock(noon), "me", false); err == nil || !strings.Contains(err.Error(), `cannot create resource "leases"`) {
		t.Errorf("the error does not say which verb on what: %v", err)
	}
}
