package election_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/ccm/election"
)

// upstream is a contender with client-go's elector.
type upstream struct {
	client  *client
	elector *leaderelection.LeaderElector
	stop    context.CancelFunc
	done    chan struct{}
	started chan struct{}
}

func (w *world) startUpstream(name string, release bool) *upstream {
	w.t.Helper()
	u := &upstream{client: w.client(name), done: make(chan struct{}), started: make(chan struct{})}
	var err error
	u.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: mainLease}, Client: u.client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: release, Name: mainLease,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(u.started) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	u.stop = stop
	go func() {
		defer close(u.done)
		u.elector.Run(ctx)
	}()
	return u
}

// end ends the contender; a crash is an end without a release, as managers before 1.36 end.
func (u *upstream) end() {
	u.stop()
	<-u.done
}

func (w *world) within(what string, c <-chan struct{}, limit time.Duration) {
	w.t.Helper()
	select {
	case <-c:
	case <-time.After(limit):
		w.t.Fatalf("not within %s: %s", limit, what)
	}
}

// shape is what a lease says without its times.
type shape struct {
	Holder                string
	Duration, Transitions int32
	Times                 bool // acquired and renewed are set
}

func (w *world) shape() shape {
	s := w.lease(mainLease).Spec
	return shape{*s.HolderIdentity, *s.LeaseDurationSeconds, *s.LeaseTransitions, s.AcquireTime != nil && s.RenewTime != nil}
}

func TestLeasesPassToAndFroWithClientGo(t *testing.T) {
	bubble(t, func(w *world) {
		want := func(s shape) {
			t.Helper()
			if diff := cmp.Diff(s, w.shape()); diff != "" {
				t.Errorf("lease (-want +got):\n%s", diff)
			}
		}
		u := w.startUpstream("u1", true)
		w.within("client-go leads", u.started, time.Second)
		a := w.start("a", one())
		<-time.After(20 * time.Second)
		u.end()
		w.leads(a, mainLease, 10*time.Millisecond) // it released
		want(shape{"a", 15, 1, true})

		u = w.startUpstream("u2", false)
		<-time.After(20 * time.Second)
		want(shape{"a", 15, 1, true})
		a.terminate()
		want(shape{"", 1, 1, true})
		w.within("client-go takes a released lease up", u.started, 4400*time.Millisecond)
		want(shape{"u2", 15, 2, true})

		a = w.start("b", one())
		<-time.After(20 * time.Second)
		want(shape{"u2", 15, 2, true})
		u.end() // without a release
		w.leads(a, mainLease, leaseDuration+retryPeriod)
		want(shape{"b", 15, 3, true})

		u = w.startUpstream("u3", false)
		<-time.After(20 * time.Second)
		a.crash()
		a.gone()
		w.within("client-go takes an expired lease", u.started, 21200*time.Millisecond)
		want(shape{"u3", 15, 4, true})
		u.end()
	})
}

func TestAmongContendersOfBothKindsOneLeadsAtATime(t *testing.T) {
	bubble(t, func(w *world) {
		for range 60 {
			w.api = newAPI()
			ours := w.start("a", one())
			theirs := w.startUpstream("u", rand.IntN(2) == 0)
			<-time.After(time.Duration(rand.Int64N(int64(6 * time.Second))))
			first := w.holder(mainLease)
			if first != "a" && first != "u" {
				t.Fatalf("the lease is held by %q", first)
			}
			if leads := first == "a"; ours.Leading(mainLease) != leads || theirs.elector.IsLeader() == leads {
				t.Fatalf("%s holds it; ours leads: %v, theirs: %v", first, ours.Leading(mainLease), theirs.elector.IsLeader())
			}
			if first == "a" {
				ours.terminate()
				w.within("client-go leads", theirs.started, 4400*time.Millisecond)
				theirs.end()
			} else {
				theirs.end()
				w.leads(ours, mainLease, leaseDuration+retryPeriod)
				ours.terminate()
			}
			w.forget()
		}
	})
}

func TestALeaseWithALongerDurationIsWaitedForThatLong(t *testing.T) {
	bubble(t, func(w *world) {
		w.edit(mainLease, func(l *coordinationv1.Lease) {
			stamp := metav1.NowMicro()
			l.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("u"), LeaseDurationSeconds: ptr.To[int32](137), RenewTime: &stamp, AcquireTime: &stamp}
		})
		a := w.start("a", one())
		began := time.Now()
		w.leads(a, mainLease, 140*time.Second)
		if took := time.Since(began); took < 137*time.Second || took > 137300*time.Millisecond {
			t.Errorf("it was taken after %s", took)
		}
		a.terminate()
	})
}

func TestALeaseOfAManagerThatWritesLittleIsUnderstood(t *testing.T) {
	bubble(t, func(w *world) {
		w.edit(mainLease, func(*coordinationv1.Lease) {}) // no field at all
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		if diff := cmp.Diff(shape{"a", 15, 1, true}, w.shape()); diff != "" {
			t.Errorf("lease (-want +got):\n%s", diff)
		}
		a.terminate()
	})
}

func TestALeaseThatIsOnlyObservedIsNeverWritten(t *testing.T) {
	bubble(t, func(w *world) {
		leases := both()
		leases[1].Contend = false
		a := w.start("a", leases)
		w.leads(a, mainLease, time.Second)
		<-time.After(time.Minute)
		if l := w.lease(migrationLease); l != nil || a.Leading(migrationLease) || a.Fence(migrationLease).Check() == nil {
			t.Errorf("it was taken: %v", l)
		}
		a.terminate()
	})
}

func TestTheMigrationLeaseWaitsForTheMainLease(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		b := w.start("b", both())
		<-time.After(time.Minute)
		if l := w.lease(migrationLease); l != nil {
			t.Errorf("a standby took it: %v", l)
		}
		a.terminate()
		w.leads(b, migrationLease, 10*time.Millisecond)
		b.terminate()
	})
}

func TestALostWatchIsMadeUpForByReading(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", one())
		w.leads(a, mainLease, time.Second)
		b := w.start("b", one(), func(_ *process, c *election.Config) { c.Client = deaf{c.Client.(*client)} })
		<-time.After(30 * time.Second)
		a.terminate()
		w.leads(b, mainLease, 2*retryPeriod)
		b.terminate()
	})
}
