package status

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster has a run under way, a lock, two nodes and what has nothing to do with it.
func cluster(t *testing.T) (*apitest.Server, *journal.Journal) {
	t.Helper()
	server := apitest.New(t)
	kube, _ := server.Clients(t)
	j, err := journal.Create(t.Context(), kube, v1.Journal{
		Run: "run-1", Started: noon.Add(-time.Minute), Phase: v1.RunApplying, Plan: v1.Plan{Steps: []v1.Step{{ID: "a", Phase: "x"}, {ID: "b", Phase: "x"}}},
	}, &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	renewed := metav1.NewMicroTime(noon.Add(-3 * time.Second))
	lease := func(name, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), RenewTime: &renewed},
		}
	}
	server.Put(
		t,
		lease(lock.LeaseName, holder),
		lease(component.KCM, "cp-1_x"),
		lease("another", "somebody"),
		node("a", "True", noon),
		node("b", "False", noon.Add(-time.Minute)),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "coredns", Namespace: namespace}},
		&corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "x", Namespace: "shop"},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "web"},
		},
		&corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "y", Namespace: "shop"},
			InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: "shop", Name: "job"},
		},
		&corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "of-a", Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "a"},
		},
		&corev1.Event{ // a user of this namespace has written it
			ObjectMeta:     metav1.ObjectMeta{Name: "forged", Namespace: "shop"},
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Namespace: "shop", Name: "a"},
		},
	)
	return server, j
}

func boardOf(t *testing.T, server *apitest.Server) *Board {
	t.Helper()
	kube, _ := server.Clients(t)
	return NewBoard(Options{Kube: kube, Now: func() time.Time { return noon }}, LeaseNames(nil))
}

func TestALookReadsWhatAStatusNeedsAndNoMore(t *testing.T) {
	server, _ := cluster(t)
	b := boardOf(t, server)
	writes := len(server.Writes())
	b.Look(t.Context())
	f := b.Facts()
	if f.Journal == nil || f.Journal.Run != "run-1" || f.Lock == nil || f.Lock.PID != 4412 || len(f.Leases) != 1 || len(f.Nodes) != 2 || len(f.Pods) != 0 ||
		len(f.Events) != 2 ||
		len(f.NotRead) != 0 {
		t.Errorf("%+v", f)
	}
	if s := Judge(f); s.State != v1.StateApplying || s.Lock.AgeSeconds != 3 {
		t.Errorf("%+v", s)
	}
	if n := len(server.Writes()); n != writes {
		t.Errorf("a look wrote %v", server.Writes()[writes:])
	}
	for what := range server.Requests() {
		verb, resource, _ := strings.Cut(what, " ")
		if verb == "watch" || resource == "secrets" {
			t.Errorf("it asked to %s", what)
		}
	}
}

func TestWhatMayNotBeReadIsNamed(t *testing.T) {
	for _, c := range []struct {
		denied string
		state  string
		said   []string
	}{
		{"nodes", v1.StateApplying, []string{"nodes: not allowed"}},
		{"events", v1.StateApplying, []string{"events of Nodes: not allowed", "events of Services: not allowed", "events of Pods: not allowed"}},
		{"pods", v1.StateApplying, []string{"pods of the control plane: not allowed"}},
		{"leases", v1.StateApplying, []string{"the lock, Lease kube-system/transplant-lock: not allowed"}},
		{"configmaps", "unknown", []string{"the journal, ConfigMap kube-system/transplant-journal: not allowed", "whether the run is paused, ConfigMap kube-system/transplant-control: not allowed"}},
	} {
		t.Run(c.denied, func(t *testing.T) {
			server, _ := cluster(t)
			server.Deny("list", c.denied)
			b := boardOf(t, server)
			b.Look(t.Context())
			s := Judge(b.Facts())
			if s.State != c.state {
				t.Errorf("state %q, want %q", s.State, c.state)
			}
			for _, want := range c.said {
				if !slices.ContainsFunc(s.NotRead, func(said string) bool { return strings.HasPrefix(said, want) }) {
					t.Errorf("not said: %q; said %q", want, s.NotRead)
				}
			}
		})
	}
}

func TestAJournalOfANewerVersionIsNamed(t *testing.T) {
	server, _ := cluster(t)
	server.Put(
		t,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: journal.Name, Namespace: namespace}, BinaryData: map[string][]byte{"journal.json.gz": []byte("x")}},
	)
	b := boardOf(t, server)
	b.Look(t.Context())
	if s := Judge(b.Facts()); s.State != "unknown" || len(s.NotRead) != 1 || !strings.Contains(s.NotRead[0], "it is not what transplant wrote") {
		t.Errorf("%+v", s)
	}
}

// until waits for a board to show something.
func until(t *testing.T, b *Board, what string, is func(v1.Status) bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		s := Judge(b.Facts())
		if b.Ready() && is(s) {
			return
		}
		select {
		case <-b.Changed():
		case <-limit.C:
			t.Fatalf("it never showed that %s: %+v", what, s)
		}
	}
}

func TestFollowingThroughARestartOfTheAPIServer(t *testing.T) {
	server, j := cluster(t)
	var down atomic.Bool
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return down.Load()
	}
	b := boardOf(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Follow(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	until(t, b, "nothing is done", func(s v1.Status) bool { return s.StepsDone == 0 && s.Lock != nil })
	save := func(id string) {
		if err := j.Save(t.Context(), v1.StepRecord{ID: id, Result: v1.StepResultDone}); err != nil {
			t.Fatal(err)
		}
	}
	save("a")
	until(t, b, "a step is done", func(s v1.Status) bool { return s.StepsDone == 1 })

	down.Store(true)
	server.CloseConnections() // every watch breaks off
	until(t, b, "nothing can be read", func(s v1.Status) bool { return len(s.NotRead) > 5 })
	if s := Judge(b.Facts()); s.StepsDone != 1 || s.State != v1.StateApplying {
		t.Errorf("what was known is forgotten: %+v", s)
	}
	down.Store(false)
	save("b")
	server.Delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + lock.LeaseName)
	until(t, b, "both steps are done and the lock is gone", func(s v1.Status) bool { return s.StepsDone == 2 && s.Lock == nil && len(s.NotRead) == 0 })
}

func TestAJournalInPartsIsFollowed(t *testing.T) {
	server, _ := cluster(t)
	kube, _ := server.Clients(t)
	doc := v1.Journal{
		Run:     "run-2",
		Started: noon,
		Phase:   v1.RunApplying,
		Plan:    v1.Plan{TypeMeta: v1.Type(v1.KindPlan), Steps: []v1.Step{{ID: "a", Phase: "p"}, {ID: "b", Phase: "p"}}},
	}
	random := make([]byte, 60_000)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	doc.Plan.Steps[0].Content = hex.EncodeToString(random)
	server.Delete("/api/v1/namespaces/kube-system/configmaps/" + journal.Name)
	j, err := journal.Create(t.Context(), kube, doc, &v1.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	b := boardOf(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Follow(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	until(t, b, "there are two steps", func(s v1.Status) bool { return s.StepsTotal == 2 && s.StepsDone == 0 })
	if err := j.Save(t.Context(), v1.StepRecord{ID: "a", Result: v1.StepResultDone}); err != nil {
		t.Fatal(err)
	}
	until(t, b, "one is done", func(s v1.Status) bool { return s.StepsDone == 1 })
	if read, err := ReadJournal(t.Context(), kube); err != nil || read.Plan.Steps[0].Content != doc.Plan.Steps[0].Content {
		t.Errorf("read in one go: %v", err)
	}
	server.Delete("/api/v1/namespaces/kube-system/configmaps/" + journal.Name + "-1")
	if err := j.Save(t.Context(), v1.StepRecord{ID: "b", Result: v1.StepResultDone}); err != nil {
		t.Fatal(err)
	}
	until(t, b, "the other one is done, of a plan that is known", func(s v1.Status) bool { return s.StepsDone == 2 })
	again := boardOf(t, server)
	again.Look(t.Context())
	if s := Judge(
		again.Facts(),
	); s.State != "unknown" || len(s.NotRead) != 1 ||
		!strings.Contains(s.NotRead[0], "names its part kube-system/transplant-journal-1, which is not there") {
		t.Errorf("a part is gone: %s, %q", s.State, s.NotRead)
	}
}

func TestARefusalRightAfterAStartOfTheAPIServerCountsForNothing(t *testing.T) {
	server, _ := cluster(t)
	var cold atomic.Bool
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		if cold.Load() {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no roles yet"}`))
		}
		return cold.Load()
	}
	kube, _ := server.Clients(t)
	fake := testclock.NewFakePassiveClock(noon)
	b := NewBoard(Options{Kube: kube, Now: func() time.Time { return noon }, Clock: passive{fake}}, LeaseNames(nil))
	b.Look(t.Context())
	cold.Store(true)
	for _, after := range []time.Duration{0, coldAuthorizer - time.Second} {
		fake.SetTime(noon.Add(after))
		b.Look(t.Context())
		if s := Judge(b.Facts()); s.State != v1.StateApplying || len(s.NotRead) != 0 {
			t.Errorf("after %s the state is %q, and it says %q", after, s.State, s.NotRead)
		}
	}
	fake.SetTime(noon.Add(coldAuthorizer))
	b.Look(t.Context())
	if s := Judge(b.Facts()); s.State != "unknown" || len(s.NotRead) == 0 {
		t.Errorf("rights that were taken away: state %q, %q", s.State, s.NotRead)
	}
	cold.Store(false)
	b.Look(t.Context())
	if s := Judge(b.Facts()); s.State != v1.StateApplying || len(s.NotRead) != 0 {
		t.Errorf("rights that were given again: state %q, %q", s.State, s.NotRead)
	}
}

// passive is a clock that is set by hand.
type passive struct{ *testclock.FakePassiveClock }

func (passive) After(time.Duration) <-chan time.Time        { return nil }
func (passive) NewTimer(time.Duration) clock.Timer          { return nil }
func (passive) NewTicker(time.Duration) clock.Ticker        { return nil }
func (passive) Sleep(time.Duration)                         {}
func (passive) Tick(time.Duration) <-chan time.Time         { return nil }
func (passive) AfterFunc(time.Duration, func()) clock.Timer { return nil }
