package migrate

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
)

func TestAPauseIsKeptForItsRun(t *testing.T) {
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	want := v1.Pause{Run: "run-1", By: "ops@bastion", At: noon, Reason: "the shop is open"}
	for _, asked := range []v1.Pause{want, {Run: "run-1", By: "somebody@else", At: noon.Add(time.Minute)}} { // the second changes nothing
		have, err := AskToPause(t.Context(), kube, asked)
		if err != nil || *have != want {
			t.Fatalf("paused: %+v, %v", have, err)
		}
	}
	var cm corev1.ConfigMap
	server.Get(t, "/api/v1/namespaces/kube-system/configmaps/"+ControlName, &cm)
	if p := PauseOf(&cm, "run-1"); p == nil || *p != want {
		t.Errorf("kept: %+v", p)
	}
	if p := PauseOf(&cm, "run-2"); p != nil {
		t.Errorf("the pause of another run counts: %+v", p)
	}
	if p, err := AskToResume(t.Context(), kube, "run-1"); err != nil || *p != want {
		t.Errorf("resumed: %+v, %v", p, err)
	}
	if p, err := AskToResume(t.Context(), kube, "run-1"); err != nil || p != nil {
		t.Errorf("resumed twice: %+v, %v", p, err)
	}
	if have, err := AskToPause(t.Context(), kube, v1.Pause{Run: "run-2", By: "ops@bastion", At: noon}); err != nil || have.Run != "run-2" {
		t.Errorf("a newer run: %+v, %v", have, err)
	}
	writes := server.Writes()
	if want := []string{"create", "update", "update"}; !slices.Equal(verbs(writes), want) {
		t.Errorf("writes: %v", writes)
	}
}

// journal is what the cluster has of the run.
func (w *world) journal() *Journal {
	w.t.Helper()
	j, err := w.home.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func verbs(writes []string) []string {
	var out []string
	for _, w := range writes {
		verb, _, _ := strings.Cut(w, " ")
		out = append(out, verb)
	}
	return out
}

func TestAPausedRunWaitsBeforeItsNextStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	p, _ := w.begin()
	third := p.Steps[2].ID
	var told []Event
	looks := 0
	w.more = func() { // each look at the world is a while later
		if !slices.ContainsFunc(told, func(e Event) bool { return e.Kind == "paused" }) {
			return
		}
		if looks++; looks == 3 {
			if _, err := AskToResume(context.Background(), w.kube, w.journal().Doc().Run); err != nil { //nolint:usetesting // the world has no context
				t.Error(err)
			}
		}
	}
	engine := w.engine(func(o *Options) {
		o.Tell = func(e Event) {
			told = append(told, e)
			if e.Kind == "done" || e.Kind == "already-done" {
				if e.Step.ID == p.Steps[1].ID {
					if _, err := AskToPause(t.Context(), w.kube, v1.Pause{Run: w.journal().Doc().Run, By: "ops@bastion", At: noon, Reason: "lunch"}); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
	if err := engine.Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range told {
		if e.Step.ID == third {
			kinds = append(kinds, e.Kind)
		}
		if e.Kind == "paused" && e.Message != "paused by ops@bastion at 12:00:00 UTC: lunch; transplant resume lets it go on" {
			t.Errorf("told: %s", e.Message)
		}
	}
	if len(kinds) < 3 || kinds[0] != "paused" || kinds[1] != "resumed" {
		t.Errorf("the third step: %v", kinds)
	}
	pauses := w.journal().Doc().Pauses
	if len(pauses) != 1 || pauses[0].By != "ops@bastion" || pauses[0].Before != third || pauses[0].To == nil || pauses[0].To.Sub(pauses[0].From) < pauseInterval {
		t.Errorf("written down: %+v", pauses)
	}
}

func TestAPausedRunIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, j := w.begin()
	if _, err := AskToPause(t.Context(), w.kube, v1.Pause{Run: j.Doc().Run, By: "ops@bastion", At: noon}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	err := w.engine(func(o *Options) {
		o.Tell = func(e Event) {
			if e.Kind == "paused" {
				close(stop)
			}
		}
	}).Run(t.Context(), p, stop)
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("stopped while paused: %v", err)
	}
	if doc := w.journal().Doc(); len(doc.Records) != 0 || len(doc.Pauses) != 1 || doc.Pauses[0].To == nil {
		t.Errorf("written down: %d steps, %+v", len(doc.Records), doc.Pauses)
	}
}

func TestARunThatMayNotReadWhetherItIsPausedGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p, _ := w.begin()
	w.api.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ControlName) {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusForbidden)
		_, _ = rw.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"not for you","code":403}`))
		return true
	}
	var said []string
	if err := w.engine(func(o *Options) {
		o.Tell = func(e Event) {
			if strings.Contains(e.Message, "cannot be paused") {
				said = append(said, e.Message)
			}
		}
	}).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 {
		t.Errorf("said %d times: %v", len(said), said)
	}
}

func TestWhatALockSaysOfItsHolder(t *testing.T) {
	touched := metav1.NewTime(noon)
	for _, c := range []struct {
		holder, user, host string
		pid                int
	}{
		{"ops@bastion pid 4412 start 1", "ops", "bastion", 4412}, {"somebody", "", "", 0}, {"ops@bastion pid x", "", "", 0},
	} {
		s := LockOf(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Time: &touched}}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &c.holder},
		})
		if s.User != c.user || s.Host != c.host || s.PID != c.pid || !s.Touched.Equal(noon) || s.Version != "7" {
			t.Errorf("%s: %+v", c.holder, s)
		}
	}
	if LockOf(nil) != nil || LockOf(&coordinationv1.Lease{}) != nil {
		t.Error("a lock that nobody holds")
	}
}

func TestUnlocking(t *testing.T) {
	for _, c := range []struct {
		name    string
		between string // what the holder does while it is looked at: "", "renews", "ends"
		want    error
	}{
		{"a holder that does not renew", "", nil}, {"a holder that renews", "renews", &LockedError{}}, {"a holder that ends", "ends", ErrNoLock},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, kube, clock := locked(t, "ops@elsewhere pid 1 start 1", time.Second)
			s, err := ReadLock(t.Context(), kube)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() { done <- ObserveLock(t.Context(), kube, clock, s) }()
			waitedFor(t.Context(), clock)
			switch c.between {
			case "renews":
				server.Put(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LockName, Namespace: namespace}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &s.Holder}})
			case "ends":
				server.Delete(leasePath(LockName))
			}
			clock.Step(2 * lockRenewal)
			err = <-done
			var l *LockedError
			if errors.As(c.want, &l) != errors.As(err, &l) || errors.Is(c.want, ErrNoLock) != errors.Is(err, ErrNoLock) || c.want == nil && err != nil {
				t.Errorf("observing: %v, want %v", err, c.want)
			}
			if err := Unlock(t.Context(), kube, s); c.between == "renews" != errors.As(err, &l) {
				t.Errorf("unlocking: %v", err)
			}
			if err := ForceUnlock(t.Context(), kube, s); err != nil {
				t.Errorf("unlocking by force: %v", err)
			}
			if _, err := ReadLock(t.Context(), kube); !errors.Is(err, ErrNoLock) {
				t.Errorf("the lock is still there: %v", err)
			}
		})
	}
}

func TestForceLeavesTheLockOfAnotherAlone(t *testing.T) {
	server, kube, _ := locked(t, "first", time.Second)
	s, err := ReadLock(t.Context(), kube)
	if err != nil {
		t.Fatal(err)
	}
	server.Put(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LockName, Namespace: namespace}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("second")}})
	var l *LockedError
	if err := ForceUnlock(t.Context(), kube, s); !errors.As(err, &l) || l.Holder != "second" {
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
	server.Delete(leasePath(LockName))
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
		s, err := ReadLock(t.Context(), kube)
		if err != nil {
			t.Fatal(err)
		}
		return s.Progress
	}
	p := NewProgress("run-1", lock.Publish)
	step := v1.Step{ID: "roll/kube-controller-manager@cp-1"}
	for i, message := range []string{"", "node a is not Ready", "node a is not Ready", strings.Repeat("ä", progressLimit)} {
		p.Saw(Event{Kind: "waiting", Step: step, Message: message, Time: noon.Add(time.Duration(i) * time.Second)})
	}
	for shown() == nil { // it is shown within the interval, and not only when the lock is renewed
		waitedFor(held, clock)
		clock.Step(publishInterval)
	}
	if clock.Since(noon) >= lockRenewal {
		t.Errorf("it was shown after %s", clock.Since(noon))
	}
	have := shown()
	if have.Run != "run-1" || len(have.Steps) != 1 || have.Steps[0].ID != step.ID || !have.Steps[0].Since.Equal(noon) || !strings.HasSuffix(have.Steps[0].Waiting, "ä…") ||
		!have.Steps[0].WaitingSince.Equal(noon.Add(3*time.Second)) {
		t.Errorf("shown: %+v", have)
	}
	p.Saw(Event{Kind: "done", Step: step, Time: noon})
	p.Disrupted("API watch: 1 reconnect")
	for len(shown().Steps) > 0 {
		waitedFor(held, clock)
		clock.Step(publishInterval)
	}
	if have := shown(); have.Disruption != "API watch: 1 reconnect" {
		t.Errorf("shown: %+v", have)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
