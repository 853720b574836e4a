package lock

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

func TestWhatALockSaysOfItsHolder(t *testing.T) {
	touched := metav1.NewTime(noon)
	for _, c := range []struct {
		holder, user, host string
		pid                int
	}{
		{"ops@bastion pid 4412 start 1", "ops", "bastion", 4412}, {"somebody", "", "", 0}, {"ops@bastion pid x", "", "", 0},
	} {
		s := StateOf(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Time: &touched}}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &c.holder},
		})
		if s.User != c.user || s.Host != c.host || s.PID != c.pid || !s.Touched.Equal(noon) || s.Version != "7" {
			t.Errorf("%s: %+v", c.holder, s)
		}
	}
	if StateOf(nil) != nil || StateOf(&coordinationv1.Lease{}) != nil {
		t.Error("a lock that nobody holds")
	}
}

func TestUnlocking(t *testing.T) {
	for _, c := range []struct {
		name    string
		between string // what the holder does while it is looked at: "", "renews", "ends"
		want    error
	}{
		{"a holder that does not renew", "", nil}, {"a holder that renews", "renews", &HeldError{}}, {"a holder that ends", "ends", ErrNoLock},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, kube, clock := locked(t, "ops@elsewhere pid 1 start 1", time.Second)
			s, err := Read(t.Context(), kube)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() { done <- Observe(t.Context(), journal.InCluster(kube), clock, s) }()
			waitedFor(t.Context(), clock)
			switch c.between {
			case "renews":
				server.Put(
					t,
					&coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: component.Namespace},
						Spec:       coordinationv1.LeaseSpec{HolderIdentity: &s.Holder},
					},
				)
			case "ends":
				server.Delete(leasePath(LeaseName))
			}
			clock.Step(2 * lockRenewal)
			err = <-done
			var l *HeldError
			if errors.As(c.want, &l) != errors.As(err, &l) || errors.Is(c.want, ErrNoLock) != errors.Is(err, ErrNoLock) || c.want == nil && err != nil {
				t.Errorf("observing: %v, want %v", err, c.want)
			}
			if err := Unlock(t.Context(), journal.InCluster(kube), s); c.between == "renews" != errors.As(err, &l) {
				t.Errorf("unlocking: %v", err)
			}
			if err := ForceUnlock(t.Context(), journal.InCluster(kube), s); err != nil {
				t.Errorf("unlocking by force: %v", err)
			}
			if _, err := Read(t.Context(), kube); !errors.Is(err, ErrNoLock) {
				t.Errorf("the lock is still there: %v", err)
			}
		})
	}
}

func TestForceLeavesTheLockOfAnotherAlone(t *testing.T) {
	server, kube, _ := locked(t, "first", time.Second)
	s, err := Read(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	server.Put(
		t,
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: component.Namespace},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("second")},
		},
	)
	var l *HeldError
	if err := ForceUnlock(t.Context(), journal.InCluster(kube), s); !errors.As(err, &l) || l.Holder != "second" {
		t.Errorf("unlocked: %v", err)
	}
}

func TestALockThatIsTakenAwayEndsTheWorkAtTheNextRenewal(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	clock := clocktesting.NewFakeClock(noon)
	held, lock, err := Acquire(t.Context(), kube, clock, Taking{Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	waitedFor(held, clock)
	server.Delete(leasePath(LeaseName))
	clock.Step(lockRenewal)
	<-held.Done()
	if !errors.Is(context.Cause(held), ErrLockLost) {
		t.Errorf("cause: %v", context.Cause(held))
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestProgressIsPublishedOnTheLock(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	clock := clocktesting.NewFakeClock(noon)
	held, lock, err := Acquire(t.Context(), kube, clock, Taking{Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	shown := func() *v1.Progress {
		s, err := Read(t.Context(), kube)
		if err != nil {
			t.Fatal(err)
		}
		return s.Progress
	}
	p := NewProgress("run-1", lock.Publish)
	planned := v1.Step{ID: "roll/kube-controller-manager@cp-1"}
	for i, message := range []string{"", "node a is not Ready", "node a is not Ready", strings.Repeat("ä", progressLimit)} {
		p.Saw(step.Event{Kind: step.EventWaiting, Step: planned, Message: message, Time: noon.Add(time.Duration(i) * time.Second)})
	}
	for shown() == nil { // it is shown within the interval, and not only when the lock is renewed
		waitedFor(held, clock)
		clock.Step(publishInterval)
	}
	if clock.Since(noon) >= lockRenewal {
		t.Errorf("it was shown after %s", clock.Since(noon))
	}
	have := shown()
	if have.Run != "run-1" || len(have.Steps) != 1 || have.Steps[0].ID != planned.ID || !have.Steps[0].Since.Equal(noon) ||
		!strings.HasSuffix(have.Steps[0].Waiting, "ä...") ||
		!have.Steps[0].WaitingSince.Equal(noon.Add(3*time.Second)) {
		t.Errorf("shown: %+v", have)
	}
	p.Saw(step.Event{Kind: step.EventProgress, Step: planned, Time: noon, Message: "node a takes pods again"})
	if s := p.doc.Steps[0]; s.Latest != "node a takes pods again" || s.Waiting != "" || !s.WaitingSince.IsZero() {
		t.Errorf("what is no wait: %+v", s)
	}
	p.Saw(step.Event{Kind: step.EventProgress, Step: planned, Time: noon, Message: step.WaitingPrefix + "node b"})
	if s := p.doc.Steps[0]; s.Latest != "" || s.Waiting != "node b" || !s.WaitingSince.Equal(noon) {
		t.Errorf("a wait that is said at once: %+v", s)
	}
	p.Saw(step.Event{Kind: step.EventDone, Step: planned, Time: noon})
	longer := &v1.ProbeTotals{Kinds: []v1.ProbeKindTotals{{Kind: v1.PathTCP, Paths: 2, LongestSeconds: 1.5, TotalSeconds: 2}}}
	p.Disrupted("API watch: 1 reconnect", &v1.ProbeTotals{Kinds: []v1.ProbeKindTotals{{Kind: v1.PathTCP, Paths: 2}}})
	p.Disrupted("API watch: 1 reconnect", longer) // the words are the same
	for len(shown().Steps) > 0 {
		waitedFor(held, clock)
		clock.Step(publishInterval)
	}
	if have := shown(); have.Disruption != "API watch: 1 reconnect" || !reflect.DeepEqual(have.Probes, longer) {
		t.Errorf("shown: %+v", have)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
