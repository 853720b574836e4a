package ccmtrial

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/lab/edge"
	"github.com/transplant-dev/transplant/lab/simcloud"
)

var (
	freezes   = flag.Int("ccmtrial.freezes", 1, "how often a leader is frozen; upstream's is, too, where it is more than once")
	handovers = flag.Int("ccmtrial.handovers", 3, "how often a leader is told to end")

	program string // sim-cloud-controller-manager, built once
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // all at once, however few processors: these tests wait
		panic(err)
	}
	ccmtest.Main(m, "lab", "sim-cloud-controller-manager", &program)
}

// newWorld starts an API server and a cloud, and keeps managers busy until the test ends.
func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), program: program, flags: flags}
	server := filepath.Join(w.dir, "server")
	err := os.Mkdir(server, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	w.api, w.admin = ccmtest.API(t, apiserver.Options{Dir: server, Audit: true})
	if w.cloud, err = simcloud.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cloud.Close)
	if err := w.furnish(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		if err := w.load(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		working.Wait()
		if unknown := w.cloud.Unknown(); len(unknown) > 0 {
			t.Errorf("the cloud was asked for what it does not know: %v", unknown)
		}
	})
	return w
}

// run starts a manager and waits until it serves. It ends with the test at the latest.
func (w *world) run(t *testing.T, implementation string) *ccmlab.Manager {
	t.Helper()
	return w.runAt(t, implementation, w.api.Address())
}

// runAt is run for a manager that reaches the API at a host:port.
func (w *world) runAt(t *testing.T, implementation, api string) *ccmlab.Manager {
	t.Helper()
	m, err := w.start(t.Context(), implementation, api)
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.ShowLog(t, m.Name(), m.Log)
	t.Cleanup(m.Kill)
	if err := m.Serves(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	return m
}

// leader starts a manager and waits until it is at work.
func (w *world) leader(t *testing.T, implementation string) *ccmlab.Manager {
	t.Helper()
	m := w.run(t, implementation)
	w.works(t, m)
	return m
}

// works waits until a manager is at work.
func (w *world) works(t *testing.T, m *ccmlab.Manager) {
	t.Helper()
	if err := w.busy(t.Context(), m, time.Time{}, ensureRequests, patience); err != nil {
		t.Fatal(err)
	}
}

// standby starts a manager and waits until it has seen who leads. A look at a lease comes at most 4.4 s after the one before.
func (w *world) standby(t *testing.T, implementation string) *ccmlab.Manager {
	t.Helper()
	m := w.run(t, implementation)
	<-time.After(4400 * time.Millisecond)
	return m
}

// stopFor is for how long a leader is frozen: twice as long as its lease lasts.
const stopFor = 30 * time.Second

// parallelWorlds is in how many worlds leaders are frozen at the same time: what they do is to wait.
const parallelWorlds = 3

func TestALeaderThatWasFrozenWritesNothingAfterItsSuccessorsFirst(t *testing.T) {
	t.Parallel()
	for i := range parallelWorlds {
		rounds := (*freezes + i) / parallelWorlds
		if rounds == 0 {
			continue
		}
		t.Run(fmt.Sprintf("in world %d", i+1), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			leader := w.leader(t, ours)
			for range rounds {
				standby := w.standby(t, ours)
				f, err := w.freeze(t.Context(), leader, standby, stopFor)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(f)
				for _, a := range f.late {
					if a.refused { // a freeze between the check and the first byte (docs/explanation/fence.md)
						t.Logf("after %s, and without effect: %s", f.first, a)
						continue
					}
					t.Errorf("after %s: %s", f.first, a)
				}
				if f.code != 1 || f.ended > 3*time.Second {
					t.Errorf("it ended with %d after %s", f.code, f.ended)
				}
				leader = standby
			}
		})
	}
}

// What the fence is measured against: upstream's manager in the same harness. Should this fail because it does better, the docs have to change.
func TestUpstreamsLeaderThatWasFrozenWritesForAnotherRenewDeadline(t *testing.T) {
	if *freezes <= 1 {
		t.Skip("measures upstream, not this: make e2e, or -ccmtrial.freezes=3")
	}
	t.Parallel()
	w := newWorld(t)
	leader := w.leader(t, upstream)
	standby := w.standby(t, upstream)
	f, err := w.freeze(t.Context(), leader, standby, stopFor)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(f)
	if wrote := f.last.at.Sub(f.resumed); len(onlyCloud(f.late)) == 0 || wrote < 8*time.Second || wrote > 12*time.Second {
		t.Errorf("it made %d changes in the cloud, the last one after %s; want about 10 s of them", len(onlyCloud(f.late)), wrote)
	}
}

func TestALeaderThatIsCutOffTheAPIEndsBeforeItsSuccessorBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy, err := edge.Start(edge.Options{Name: "leader->kube-apiserver", Listen: "127.0.0.1:0", Target: w.api.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	leader := w.runAt(t, ours, proxy.Addr())
	w.works(t, leader)
	c, err := w.cut(t.Context(), leader, w.standby(t, ours), proxy.Blackhole) // no answer is worse than a refusal
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("it ended with %d %s after the cut; its last act came %s before its successor's first",
		c.code, c.ended.Round(time.Millisecond), c.gap().Round(time.Millisecond))
	for _, a := range c.late {
		t.Errorf("after %s: %s", c.first, a)
	}
	if c.code != 1 || c.ended >= c.begun {
		t.Errorf("it ended with %d after %s, its successor began after %s", c.code, c.ended, c.begun)
	}
}

func TestALeaderThatIsToldToEndHandsOverWithoutAnOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	leader, standby := w.leader(t, ours), w.standby(t, ours)
	var gaps, signals distribution
	for range *handovers {
		h, err := w.handOver(t.Context(), leader, standby)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range h.late {
			t.Errorf("after %s: %s", h.first, a)
		}
		if h.code != 0 {
			t.Errorf("it ended with %d", h.code)
		}
		gaps, signals = append(gaps, h.gap()), append(signals, h.sinceSignal())
		leader, standby = standby, w.run(t, ours)
	}
	t.Logf("without a change in the cloud: %s", gaps)
	t.Logf("from the signal to the successor's first change: %s", signals)
	if most := gaps.at(1); most > 4400*time.Millisecond {
		t.Errorf("the longest gap is %s, more than one retry period with its jitter", most)
	}
}

func TestAfterACrashUnderMigrationTheStandbyRunsTheLoopsOfBothLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--enable-leader-migration")
	leader, standby := w.leader(t, ours), w.standby(t, ours)
	const limit = 21 * time.Second
	c, err := w.crash(t.Context(), leader, standby, 2*limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(c)
	if most := max(c.main, c.migration, c.nodes, c.services); most > limit {
		t.Errorf("a loop had nobody for %s, more than %s", most, limit)
	}
}

// TestAfterACrashTheKubeletsWordIsEnough: leases are not waited for where the kubelet says that their holder has ended.
// They are while it lives, whatever becomes of its pod.
func TestAfterACrashTheKubeletsWordIsEnough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--enable-leader-migration", "--leader-elect-retry-period=1s") // as manifests and plans have it
	w.inPods = true
	leader, standby := w.leader(t, ours), w.standby(t, ours)
	if err := w.keeps(t.Context(), leader, 7*time.Second); err != nil {
		t.Fatal(err)
	}
	w.works(t, leader)
	var gaps distribution
	for range *handovers {
		c, err := w.crash(t.Context(), leader, standby, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(c)
		if err := w.admin.CoreV1().Nodes().Delete(t.Context(), "node-of-the-crash", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		gaps = append(gaps, max(c.main, c.migration, c.nodes, c.services))
		all, err := w.acts(time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		h, found := takeOver(onlyCloud(all), leader.Name(), standby.Name())
		if !found {
			t.Errorf("%s has not acted", standby.Name())
		}
		for _, a := range h.late {
			t.Errorf("after %s: %s", h.first, a)
		}
		leader, standby = standby, w.standby(t, ours)
	}
	t.Logf("from the kubelet's word to the work of all loops: %s", gaps)
	if most := gaps.at(1); most > 7*time.Second {
		t.Errorf("a loop had nobody for %s, nearly as long as a lease lasts", most)
	}
}
