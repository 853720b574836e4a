package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/ownership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what a recorder of these tests looks at.
type world struct {
	client *fake.Clientset

	mu      sync.Mutex
	targets []Target
	loops   map[Target][]string
	leads   map[Target][]string
	procs   map[ownership.Owner][]v1.Process
	down    map[Target]bool
	procErr error
	scrapes map[Target]int
	events  []v1.OwnershipEvent
	changed chan struct{}
}

var (
	targetA = Target{kcmName, "cp-1", "127.0.0.1:1"}
	targetB = Target{kcmName, "cp-2", "127.0.0.1:2"}
	targetC = Target{ccmName, "cp-1", "127.0.0.1:3"}
)

func newWorld() *world {
	return &world{
		client: fake.NewClientset(), targets: []Target{targetA, targetB}, loops: map[Target][]string{}, leads: map[Target][]string{},
		procs:   map[ownership.Owner][]v1.Process{targetA.owner(): {{PID: 1, StartTicks: 7, Started: t0}}, targetB.owner(): {{PID: 2, StartTicks: 8, Started: t0}}},
		down:    map[Target]bool{},
		scrapes: map[Target]int{}, changed: make(chan struct{}, 1),
	}
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) options() RecorderOptions {
	return RecorderOptions{
		Client: w.client, Namespace: "kube-system", Leases: []string{migration},
		Targets: func() []Target {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.targets)
		},
		Scrape: func(_ context.Context, t Target) (v1.Manager, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			defer w.wake()
			w.scrapes[t]++
			if w.down[t] {
				return v1.Manager{}, errors.New("connection refused")
			}
			return v1.Manager{Loops: w.loops[t], Leads: w.leads[t], ProcessStarted: &t0}, nil
		},
		Processes: func(_ context.Context, host, component string) ([]v1.Process, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.procs[ownership.Owner{Component: component, Host: host}], w.procErr
		},
		Interval: 2 * time.Millisecond, SlowInterval: 10 * time.Millisecond, Timeout: time.Second, Heartbeat: 50 * time.Millisecond,
		Sink: func(e v1.OwnershipEvent) {
			w.set(func() { w.events = append(w.events, e) })
			w.wake()
		},
	}
}

// wake has a test that waits look again.
func (w *world) wake() {
	select {
	case w.changed <- struct{}{}:
	default: // it has been told and has not looked yet
	}
}

// waitScrapes waits until a target has been asked more often than before.
func (w *world) waitScrapes(t *testing.T, target Target, before int) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		asked := 0
		w.set(func() { asked = w.scrapes[target] })
		if asked > before {
			return
		}
		select {
		case <-w.changed:
		case <-timeout:
			t.Fatalf("%v is not asked any more", target)
		}
	}
}

// record runs a recorder during body, and waits for its end.
func (w *world) record(t *testing.T, o RecorderOptions, body func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		NewRecorder(o).Run(ctx)
	}()
	defer func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("the recorder did not end")
		}
	}()
	body()
}

// wait waits for an event that matches, among those from index on, and returns it with the index behind it.
func (w *world) wait(t *testing.T, from int, what string, match func(v1.OwnershipEvent) bool) (v1.OwnershipEvent, int) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		w.mu.Lock()
		for n := from; n < len(w.events); n++ {
			if match(w.events[n]) {
				e := w.events[n]
				w.mu.Unlock()
				return e, n + 1
			}
		}
		w.mu.Unlock()
		select {
		case <-w.changed:
		case <-timeout:
			w.set(func() { t.Fatalf("no event: %s; got %+v", what, w.events) })
		}
	}
}

func (w *world) putLease(t *testing.T, holder string, transitions int32) {
	t.Helper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: migration, Namespace: "kube-system"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder), LeaseTransitions: ptr.To(transitions), RenewTime: &now},
	}
	leases := w.client.CoordinationV1().Leases("kube-system")
	_, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	if err != nil {
		_, err = leases.Create(t.Context(), lease, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func isLease(holder string) func(v1.OwnershipEvent) bool {
	return func(e v1.OwnershipEvent) bool {
		return e.Source == v1.SourceLease && e.Holder == holder && e.Error == ""
	}
}

func isScrape(t Target, loops ...string) func(v1.OwnershipEvent) bool {
	return func(e v1.OwnershipEvent) bool {
		return e.Source == v1.SourceScrape && e.Component == t.Component && e.Host == t.Host && e.Error == "" && slices.Equal(e.Loops, loops)
	}
}

func isError(source string) func(v1.OwnershipEvent) bool {
	return func(e v1.OwnershipEvent) bool { return e.Source == source && e.Error != "" }
}

func isProcess(t Target, pid int, ended bool) func(v1.OwnershipEvent) bool {
	return func(e v1.OwnershipEvent) bool {
		return e.Source == v1.SourceProcess && e.Component == t.Component && e.Host == t.Host && e.PID == pid && e.Ended == ended && e.Error == ""
	}
}

func TestRecorderWritesAHandover(t *testing.T) {
	w := newWorld()
	w.loops[targetA], w.leads[targetA] = inTree, []string{kcmName, migration}
	w.putLease(t, "a", 1)
	w.record(t, w.options(), func() {
		w.wait(t, 0, "holder a", isLease("a"))
		w.wait(t, 0, "loops of a", isScrape(targetA, inTree...))
		w.wait(t, 0, "process of a", isProcess(targetA, 1, false))
		_, n := w.wait(t, 0, "b answers", isScrape(targetB))

		w.set(func() { w.procs[targetA.owner()], w.down[targetA] = nil, true })
		ended, _ := w.wait(t, n, "the end of a", isProcess(targetA, 1, true))
		if ended.Looked == nil || ended.Began == nil || ended.Looked.After(*ended.Began) || ended.StartTicks != 7 {
			t.Errorf("the end is %+v, want the look before it", ended)
		}
		w.wait(t, n, "that a has no process", isProcess(targetA, 0, false))
		w.putLease(t, "", 1)
		released, _ := w.wait(t, n, "the release", isLease(""))
		if released.PreviousRenewed == nil {
			t.Errorf("the release is %+v, want the last renewal of a", released)
		}
		w.putLease(t, "b", 2)
		w.wait(t, n, "holder b", isLease("b"))
		w.set(func() {
			w.loops[targetB], w.leads[targetB] = inTree, []string{kcmName, migration}
		})
		w.wait(t, n, "loops of b", isScrape(targetB, inTree...))
	})
	j := ownership.Judge(w.events, nil, nil, ownership.Options{})
	if len(j.Gaps) != 4 || len(j.Overlaps) > 0 || len(j.Unknown) > 0 {
		t.Errorf("judged %+v", j)
	}
	for _, g := range j.Gaps {
		if g.From != targetA.owner().String() || g.To != targetB.owner().String() || g.Cause != v1.EndProcess {
			t.Errorf("gap is %+v", g)
		}
	}
}

func TestRecorderWritesHeartbeatsThatProveLooks(t *testing.T) {
	w := newWorld()
	w.putLease(t, "a", 1)
	w.record(t, w.options(), func() {
		for _, match := range []func(v1.OwnershipEvent) bool{isLease("a"), isScrape(targetA), isProcess(targetA, 1, false)} {
			_, n := w.wait(t, 0, "first line", match)
			e, _ := w.wait(t, n, "heartbeat", match)
			if e.Looked == nil {
				t.Errorf("heartbeat %+v does not say when the look before began", e)
			}
		}
	})
	count := 0
	for _, e := range w.events {
		if isScrape(targetA)(e) {
			count++
		}
	}
	if count > w.scrapes[targetA]/2+2 {
		t.Errorf("%d lines for %d scrapes of which none showed a change", count, w.scrapes[targetA])
	}
}

func TestRecorderWritesAFailureOnce(t *testing.T) {
	w := newWorld()
	w.record(t, w.options(), func() {
		_, n := w.wait(t, 0, "b answers", isScrape(targetB))
		w.set(func() { w.down[targetB] = true })
		failed, n := w.wait(t, n, "failure", isError(v1.SourceScrape))
		if failed.Looked == nil || failed.Error != "connection refused" || failed.Host != "cp-2" {
			t.Errorf("failure is %+v", failed)
		}
		before := 0
		w.set(func() { before = w.scrapes[targetB] })
		w.wait(t, n, "heartbeats of a meanwhile", isScrape(targetA))
		_, n = w.wait(t, n, "a process heartbeat", isProcess(targetB, 2, false))
		w.waitScrapes(t, targetB, before)
		w.set(func() {
			for _, e := range w.events[n:] {
				if e.Source == v1.SourceScrape && e.Error != "" {
					t.Errorf("a second line %+v for one failure", e)
				}
			}
			w.down[targetB], w.procErr = false, errors.New("host unreachable")
		})
		again, _ := w.wait(t, n, "b answers again", isScrape(targetB))
		if again.Looked == nil || !again.Looked.Equal(*failed.Looked) {
			t.Errorf("the answer is %+v, want Looked as before the failure %+v", again, failed)
		}
		_, n = w.wait(t, n, "processes unknown", isError(v1.SourceProcess))
		w.set(func() { w.procErr = nil })
		w.wait(t, n, "processes known again", isProcess(targetB, 2, false))
	})
	for _, e := range w.events {
		if e.Ended {
			t.Errorf("%+v: a failed look is no end", e)
		}
	}
}

func TestRecorderFollowsTargets(t *testing.T) {
	w := newWorld()
	w.loops[targetA], w.leads[targetA] = inTree, []string{kcmName}
	w.record(t, w.options(), func() {
		_, n := w.wait(t, 0, "a", isScrape(targetA, inTree...))
		w.set(func() {
			w.targets = []Target{targetB, targetC} // a's manifest is gone, its process is not
			w.procs[targetC.owner()] = []v1.Process{{PID: 3, StartTicks: 9}}
		})
		_, n = w.wait(t, n, "c", isScrape(targetC))
		w.wait(t, n, "a heartbeat of a's process", isProcess(targetA, 1, false))
		w.set(func() { w.procs[targetA.owner()] = nil })
		_, n = w.wait(t, n, "the end of a", isProcess(targetA, 1, true))
		w.set(func() {
			w.targets = append(w.targets, targetA)
			w.procs[targetA.owner()] = []v1.Process{{PID: 4, StartTicks: 10}}
		})
		w.wait(t, n, "a's new process", isProcess(targetA, 4, false))
		w.wait(t, n, "a answers", isScrape(targetA, inTree...))
	})
}

func TestRecorderGoesOnAfterABrokenWatch(t *testing.T) {
	w := newWorld()
	w.putLease(t, "a", 1)
	var watches atomic.Int32
	broken := make(chan *watch.FakeWatcher, 10)
	w.client.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
		if n := watches.Add(1); n == 2 {
			return true, nil, errors.New("the API server restarts")
		}
		f := watch.NewFakeWithChanSize(5, false)
		broken <- f
		return true, f, nil
	})
	var refuse atomic.Bool
	w.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuse.Load(), nil, errors.New("connection refused")
	})
	w.record(t, w.options(), func() {
		_, n := w.wait(t, 0, "holder a", isLease("a"))
		(<-broken).Stop() // breaks off, and the next attempt is refused
		e, n := w.wait(t, n, "broken watch", isError(v1.SourceLease))
		if !strings.Contains(e.Error, "broken off") || e.Looked == nil {
			t.Errorf("error is %+v", e)
		}
		_, n = w.wait(t, n, "a again", isLease("a"))
		e, n = w.wait(t, n, "refused watch", isError(v1.SourceLease))
		if !strings.Contains(e.Error, "the API server restarts") {
			t.Errorf("error is %+v", e)
		}
		_, n = w.wait(t, n, "a again", isLease("a"))
		third := <-broken
		third.Error(&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Message: "too old"})
		e, n = w.wait(t, n, "expired watch", isError(v1.SourceLease))
		if !strings.Contains(e.Error, "no longer knows") {
			t.Errorf("error is %+v", e)
		}
		_, n = w.wait(t, n, "a again", isLease("a"))
		<-broken // is silent from now on, like a frozen API server
		refuse.Store(true)
		e, n = w.wait(t, n, "hanging watch", isError(v1.SourceLease))
		if !strings.Contains(e.Error, "connection refused") {
			t.Errorf("error is %+v", e)
		}
		refuse.Store(false)
		w.wait(t, n, "a again", isLease("a"))
	})
}

func TestRecorderIgnoresWhatAListHasOvertaken(t *testing.T) {
	l := &leaseFollower{}
	for _, c := range []struct {
		version string
		want    bool
	}{{"10", true}, {"10", true}, {"9", false}, {"12", true}, {"not a number", true}, {"11", false}, {"", true}} {
		if got := l.acceptsVersion(c.version); got != c.want {
			t.Errorf("version %q after %d: %v, want %v", c.version, l.version, got, c.want)
		}
	}
}

func TestRecorderIgnoresOtherLeases(t *testing.T) {
	w := newWorld()
	w.record(t, w.options(), func() {
		_, n := w.wait(t, 0, "no lease", isLease(""))
		other := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "kube-system"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")},
		}
		if _, err := w.client.CoordinationV1().Leases("kube-system").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.putLease(t, "a", 0)
		_, n = w.wait(t, n, "holder a", isLease("a"))
		if err := w.client.CoordinationV1().Leases("kube-system").Delete(t.Context(), migration, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wait(t, n, "no lease again", isLease(""))
	})
	for _, e := range w.events {
		if e.Holder == "x" {
			t.Errorf("%+v is of another lease", e)
		}
	}
}

func TestRecorderScrapesManagersOverTLS(t *testing.T) {
	var running atomic.Bool
	address, roots := metricsServer(t, func(out http.ResponseWriter, r *http.Request) {
		page := metricsPage
		if running.Load() {
			page = strings.ReplaceAll(page, `name="service"} 0`, `name="service"} 1`)
		}
		if r.Header.Get("Authorization") != "Bearer t" {
			out.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(out, page)
	})
	w := newWorld()
	target := Target{kcmName, "cp-1", address}
	w.targets = []Target{target}
	o := w.options()
	client := NewClient(roots)
	defer client.CloseIdleConnections()
	o.Scrape = func(ctx context.Context, t Target) (v1.Manager, error) { return Scrape(ctx, client, t.Address, "t") }
	w.record(t, o, func() {
		_, n := w.wait(t, 0, "loops", isScrape(target, "nodeipam", "route"))
		running.Store(true)
		w.wait(t, n, "service as well", isScrape(target, "nodeipam", "route", "service"))
	})
}

func TestHeatChoosesWhomToScrapeFast(t *testing.T) {
	now := t0
	fresh := func() *scrapeScheduler {
		h := newScrapeScheduler(5 * time.Second)
		for _, x := range []Target{targetA, targetB, targetC} {
			h.add(x)
		}
		h.recordAnswer(targetA, v1.Manager{Leads: []string{kcmName, migration}, Loops: inTree})
		h.recordAnswer(targetB, v1.Manager{})
		h.recordAnswer(targetC, v1.Manager{Leads: []string{ccmName}, Loops: []string{"cloud-node"}})
		return h
	}
	hotOnes := func(h *scrapeScheduler, at time.Time) string {
		out := ""
		for name, x := range map[string]Target{"a": targetA, "b": targetB, "c": targetC} {
			if h.isHot(x, at) {
				out += name
			}
		}
		s := []byte(out)
		slices.Sort(s)
		return string(s)
	}
	for _, c := range []struct {
		name string
		do   func(*scrapeScheduler)
		want string
	}{
		{"nothing happened", func(*scrapeScheduler) {}, ""},
		{"the migration lease changed: those who lead their own", func(h *scrapeScheduler) { h.leaseChanged(migration, now) }, "ac"},
		{"the owner ended: its peers for its own lease, the other leader for the migration lease",
			func(h *scrapeScheduler) { h.processEnded(targetA.owner(), now); h.processes(targetA.owner(), false) }, "abc"},
		{"a standby ended", func(h *scrapeScheduler) { h.processEnded(targetB.owner(), now) }, ""},
		{"a component's own lease changed", func(h *scrapeScheduler) { h.leaseChanged(kcmName, now) }, "ab"},
		{"a component of which nothing runs won its own lease", func(h *scrapeScheduler) {
			h.processes(targetA.owner(), false)
			h.processes(targetB.owner(), false)
			h.leaseChanged(kcmName, now)
		}, "c"},
		{"one that does not answer may have won the migration lease", func(h *scrapeScheduler) { h.recordFailure(targetB); h.leaseChanged(migration, now) }, "abc"},
		{"the old owner's answer is no news", func(h *scrapeScheduler) {
			h.leaseChanged(migration, now)
			h.recordAnswer(targetA, v1.Manager{Leads: []string{kcmName, migration}, Loops: inTree})
		}, "ac"},
		{"the new owner has won and not begun", func(h *scrapeScheduler) {
			h.leaseChanged(migration, now)
			h.recordAnswer(targetC, v1.Manager{Leads: []string{ccmName, migration}, Loops: []string{"cloud-node"}})
		}, "ac"},
		{"the new owner has begun", func(h *scrapeScheduler) {
			h.leaseChanged(migration, now)
			h.recordAnswer(targetC, v1.Manager{Leads: []string{ccmName, migration}, Loops: append([]string{"cloud-node"}, cloudLoops...)})
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := fresh()
			c.do(h)
			if got := hotOnes(h, now.Add(time.Second)); got != c.want {
				t.Errorf("boosted are %q, want %q", got, c.want)
			}
			if got := hotOnes(h, now.Add(6*time.Second)); got != "" {
				t.Errorf("after six seconds %q are boosted still", got)
			}
		})
	}
}

func TestAWokenTargetIsScrapedAtOnce(t *testing.T) {
	w := newWorld()
	w.loops[targetA], w.leads[targetA] = inTree, []string{kcmName, migration}
	w.putLease(t, "a", 1)
	o := w.options()
	o.SlowInterval = time.Hour
	w.record(t, o, func() {
		_, n := w.wait(t, 0, "b", isScrape(targetB))
		w.wait(t, 0, "a", isScrape(targetA, inTree...))
		w.wait(t, 0, "a's process", isProcess(targetA, 1, false))
		w.set(func() {
			w.procs[targetA.owner()], w.down[targetA] = nil, true
			w.loops[targetB], w.leads[targetB] = inTree, []string{kcmName, migration}
		})
		w.wait(t, n, "b, an hour early", isScrape(targetB, inTree...))
	})
}

func ExampleOwner_String() {
	fmt.Println(ownership.Owner{Component: "kube-controller-manager", Host: "cp-1"})
	// Output: kube-controller-manager@cp-1
}
