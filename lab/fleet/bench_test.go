package fleet

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/operator"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/seed"
)

var (
	benchClusters = flag.Int("fleet.clusters", 5, "Clusters of the benchmark")
	benchMigrate  = flag.Int("fleet.migrate", 2, "Clusters of the first wave of the benchmark")
	benchIdle     = flag.Duration("fleet.idle", time.Second, "how long the benchmark watches an operator that has nothing to do")
	benchOut      = flag.String("fleet.out", "", "directory for the benchmark's table")
)

// bench is an operator on a real API server, with simulated user clusters, in the process of the test.
type bench struct {
	kube    kubernetes.Interface
	dyn     dynamic.Interface
	sim     *simulated
	rules   operator.Rules
	metrics *operator.Metrics
	world   *World
	stop    context.CancelFunc
	done    sync.WaitGroup
	rows    []row
}

// row is what one situation cost.
type row struct {
	what       string
	took       time.Duration
	reconciles float64
	writes     float64 // of conditions
	requests   float64 // to the seed
	looks      float64 // at user clusters
	cpu        time.Duration
	heap       uint64
	peak       int64 // the most memory that was resident at once, in bytes
	changes    int   // Clusters that the situation was about; 0: none
}

func TestAFleetCostsWhatItsChangesCost(t *testing.T) {
	if testing.Short() {
		t.Skip("needs etcd and kube-apiserver")
	}
	b := startBench(t)
	ctx := within(t)
	n, m := *benchClusters, min(*benchMigrate, *benchClusters)

	must(t, b.fill(ctx, n))
	started := b.measure(t, fmt.Sprintf("operator starts with %d Clusters", n), n, func() {
		b.lead(t)
		must(t, b.await(ctx, n, kv1.PhaseNotNeeded))
	})
	idle := b.measure(t, fmt.Sprintf("nothing happens for %s", *benchIdle), 0, func() { idleFor(ctx, *benchIdle) })
	b.measure(t, "one Cluster gets a label", 1, func() {
		must(t, b.object(0).Patch(ctx, map[string]any{"metadata": map[string]any{"labels": map[string]any{"touched": "true"}}}))
		idleFor(ctx, time.Second)
	})
	first := b.measure(t, fmt.Sprintf("%d Clusters are migrated", m), m, func() {
		must(t, b.enable(ctx, 0, m))
		must(t, b.await(ctx, m, kv1.PhaseCompleted))
	})
	rest := b.measure(t, fmt.Sprintf("the other %d are migrated", n-m), n-m, func() {
		must(t, b.enable(ctx, m, n))
		must(t, b.await(ctx, n, kv1.PhaseCompleted))
	})
	b.measure(t, fmt.Sprintf("nothing happens for %s", *benchIdle), 0, func() { idleFor(ctx, *benchIdle) })

	if idle.looks > 0 || idle.writes > 0 {
		t.Errorf("an idle fleet costs %v looks and %v writes in %s", idle.looks, idle.writes, *benchIdle)
	}
	if perChange := first.writes / float64(m); perChange > 25 {
		t.Errorf("a migration costs %.0f writes of conditions", perChange)
	}
	if most := 2*first.looksPerChange() + 6; rest.looksPerChange() > most {
		t.Errorf("a migration of many costs %.1f looks, one of the first wave %.1f: those that wait are looked at too often",
			rest.looksPerChange(), first.looksPerChange())
	}
	for _, problem := range problemsOfSize(n, started, b.rows) {
		t.Error(problem)
	}
	if b.sim.most > 10 {
		t.Errorf("%d control planes were changed at once; the default allows 10", b.sim.most)
	}
	table := b.table()
	t.Logf("\n%s", table)
	if *benchOut != "" {
		must(t, os.MkdirAll(*benchOut, 0o755))
		must(t, os.WriteFile(filepath.Join(*benchOut, "fleet.md"), []byte(table), 0o644))
	}
}

// A large fleet is one of so many Clusters. Its operator may take so long until all have their first decision, and so much memory.
const (
	largeFleet    = 2000
	firstDecision = time.Minute
	largestMemory = 64 << 20
)

// problemsOfSize are the goals that a large fleet missed. The memory is that of the test's process: the operator, and the simulated user clusters next to it.
func problemsOfSize(clusters int, started row, all []row) (problems []string) {
	if clusters < largeFleet {
		return nil
	}
	if started.took >= firstDecision {
		problems = append(problems, fmt.Sprintf("the first decision about %d Clusters took %s, want less than %s", clusters, started.took, firstDecision))
	}
	for _, r := range all {
		if r.peak > largestMemory {
			problems = append(problems, fmt.Sprintf("%s: %d MiB were resident, want at most %d", r.what, r.peak>>20, largestMemory>>20))
		}
	}
	return problems
}

func TestALargeFleetHasGoals(t *testing.T) {
	slow, small := row{what: "start", took: time.Minute, peak: 64 << 20}, row{what: "start", took: 59 * time.Second, peak: 64 << 20}
	large := row{what: "idle", peak: 65 << 20}
	if got := problemsOfSize(largeFleet-1, slow, []row{large}); got != nil {
		t.Errorf("a small fleet: %q", got)
	}
	if got := problemsOfSize(largeFleet, small, []row{small}); got != nil {
		t.Errorf("a large fleet that reaches its goals: %q", got)
	}
	got := problemsOfSize(largeFleet, slow, []row{slow, large})
	if len(got) != 2 || !strings.Contains(got[0], "took 1m0s") || !strings.Contains(got[1], "idle: 65 MiB") {
		t.Errorf("a large fleet that misses its goals: %q", got)
	}
}

func TestThePeakOfMemoryIsThatOfASituation(t *testing.T) {
	grown := bytes.Repeat([]byte{1}, 128<<20)
	before, err := peakRSS()
	must(t, err)
	if before < int64(len(grown)) {
		t.Errorf("the peak of a process with %d bytes is %d", len(grown), before)
	}
	grown = nil //nolint:ineffassign // its memory is given back
	must(t, forgetPeak())
	after, err := peakRSS()
	must(t, err)
	if after > before-64<<20 {
		t.Errorf("the peak was %d bytes, and is %d after the memory was given back", before, after)
	}
}

// peakRSS is the most memory of this process that was resident at once since forgetPeak.
func peakRSS() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}

// forgetPeak gives memory back that is not used, and lets the peak begin at what is resident now: see proc_pid_clear_refs(5).
func forgetPeak() error {
	debug.FreeOSMemory()
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// idleFor waits; it is what is measured.
func idleFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func startBench(t *testing.T) *bench {
	t.Helper()
	b := startBenchWithout(t)
	must(t, b.world.InstallCRDs(within(t)))
	return b
}

// startBenchWithout starts an API server without CRDs.
func startBenchWithout(t *testing.T) *bench {
	t.Helper()
	server, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Version: seed.Version})
	must(t, err)
	t.Cleanup(server.Stop)
	b := &bench{sim: &simulated{planes: map[string]*simulatedPlane{}}, metrics: operator.NewMetrics()}
	b.rules = b.sim
	b.world, err = On(server)
	must(t, err)
	own, err := server.Config("lab")
	must(t, err)
	own.QPS, own.Burst = 50, 100 // the operator's own limits
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return b.metrics.Counting("seed", next) })
	b.kube, err = kubernetes.NewForConfig(own)
	must(t, err)
	b.dyn, err = dynamic.NewForConfig(own)
	must(t, err)
	t.Cleanup(func() {
		if b.stop != nil {
			b.stop()
		}
		b.done.Wait()
	})
	return b
}

// startBenchOfOriginal starts an API server with the original's CRD, which is open where ours has a schema, and waits until it serves Clusters.
func startBenchOfOriginal(t *testing.T) *bench {
	t.Helper()
	b := startBenchWithout(t)
	ctx := within(t)
	_, err := b.world.apply(ctx, originalCRD())
	must(t, err)
	must(t, seed.Await(ctx, "the original's Clusters to be served", func(ctx context.Context) error {
		_, err := b.world.Dynamic().Resource(clusters(kv1.GroupName)).List(ctx, metav1.ListOptions{})
		return err
	}))
	return b
}

// lead starts the operator.
func (b *bench) lead(t *testing.T) {
	t.Helper()
	limits := state.DefaultLimits()
	limits.Look = time.Second
	op, err := operator.New(operator.Options{
		Kube:         b.kube,
		Dynamic:      b.dyn,
		Engine:       b.sim,
		Parts:        b.sim,
		Machines:     simulatedPool{b.sim},
		Rules:        b.rules,
		Limits:       limits,
		Metrics:      b.metrics,
		Log:          logr.Discard(),
		Installation: OperatorNamespace + "/transplant-operator",
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	b.done.Go(func() { op.Warm(ctx) })
	b.done.Go(func() { op.Lead(ctx) })
}

func nameOf(i int) string { return fmt.Sprintf("fleet-%03d", i) }

func (b *bench) object(i int) *Object { return &Object{b.world, kv1.GroupName, nameOf(i)} }

// fill creates Clusters, each with a namespace and the Deployments of a control plane.
func (b *bench) fill(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			namespace := "cluster-" + nameOf(i)
			if err := b.world.grant(ctx, namespace); err != nil {
				return err
			}
			for _, app := range []string{"apiserver", "controller-manager"} {
				if err := b.deployment(ctx, namespace, app); err != nil {
					return err
				}
			}
			_, err := b.world.Create(ctx, kv1.GroupName, nameOf(i), map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
			return err
		})
	}
	return g.Wait()
}

func (b *bench) deployment(ctx context.Context, namespace, app string) error {
	labels := map[string]string{"app": app}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app, Labels: labels}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: app, Image: "registry.k8s.io/kube-" + app + ":" + seed.Version, Command: []string{"/usr/local/bin/kube-" + app},
			Args: []string{"--cloud-provider", "aws", "--cloud-config", "/etc/kubernetes/cloud/config"},
		}}}},
	}}
	d, err := b.world.Client().AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	_, err = b.world.Client().AppsV1().Deployments(namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
	return err
}

// enable does what the owner and the mutating webhook do.
func (b *bench) enable(ctx context.Context, from, to int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := from; i < to; i++ {
		g.Go(func() error {
			return b.object(i).Patch(ctx, map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{kv1.CCMMigrationNeeded: "", kv1.CSIMigrationNeeded: ""}},
				"spec":     map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: true}},
			})
		})
	}
	return g.Wait()
}

// await waits until so many Clusters are in a phase. It asks with a client of its own.
func (b *bench) await(ctx context.Context, n int, phase string) error {
	return seed.Await(ctx, fmt.Sprintf("%d Clusters to be %s", n, phase), func(ctx context.Context) error {
		counts, err := b.phases(ctx)
		if err != nil {
			return err
		}
		if counts[phase] < n {
			idleFor(ctx, 400*time.Millisecond) // listing 500 Clusters costs the API server more than the operator does
			return fmt.Errorf("phases are %v", counts)
		}
		return nil
	})
}

func (b *bench) phases(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	page := metav1.ListOptions{Limit: 100} // its memory would be counted as the operator's
	for {
		list, err := b.world.Dynamic().Resource(clusters(kv1.GroupName)).List(ctx, page)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			out[phaseOf(&list.Items[i])]++
		}
		if page.Continue = list.GetContinue(); page.Continue == "" {
			return out, nil
		}
	}
}

// sums of a metric's series with a label that begins so.
func (b *bench) sum(name, label, value string) float64 {
	families, err := b.metrics.Registry.Gather()
	if err != nil {
		return 0
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			matches := label == ""
			for _, l := range m.GetLabel() {
				matches = matches || l.GetName() == label && strings.HasPrefix(l.GetValue(), value)
			}
			if matches {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}

func (b *bench) counters() row {
	b.sim.mu.Lock()
	looks := b.sim.looks
	b.sim.mu.Unlock()
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // it cannot fail for this process
	return row{
		reconciles: b.sum("transplant_reconciles_total", "", ""), writes: b.sum("transplant_status_writes_total", "", ""),
		requests: b.sum("transplant_api_requests_total", "side", "seed"), looks: float64(looks),
		cpu: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
	}
}

// measure says what a situation cost the process. CPU and memory are those of the test next to the operator, too.
func (b *bench) measure(t *testing.T, what string, changes int, situation func()) row {
	t.Helper()
	must(t, forgetPeak())
	before, begin := b.counters(), time.Now()
	situation()
	took, after := time.Since(begin), b.counters()
	peak, err := peakRSS()
	must(t, err)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := row{
		what:       what,
		took:       took,
		peak:       peak,
		changes:    changes,
		heap:       m.HeapAlloc,
		cpu:        after.cpu - before.cpu,
		reconciles: after.reconciles - before.reconciles,
		writes:     after.writes - before.writes,
		requests:   after.requests - before.requests,
		looks:      after.looks - before.looks,
	}
	b.rows = append(b.rows, r)
	t.Logf("%s: %s, %.1f looks for each, %d MiB at most", what, r.took.Round(10*time.Millisecond), r.looksPerChange(), peak>>20)
	return r
}

// looksPerChange is how often user clusters were looked at for each Cluster that a situation was about.
func (r row) looksPerChange() float64 { return r.looks / float64(max(r.changes, 1)) }

func (b *bench) table() string {
	var out strings.Builder
	out.WriteString(
		"| situation | time | reconciles | writes of conditions | requests to the seed | looks at user clusters | per change: reconciles / requests / looks | CPU | heap | peak RSS |\n",
	)
	out.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range b.rows {
		per := ""
		if r.changes > 0 {
			per = fmt.Sprintf("%.1f / %.1f / %.1f", r.reconciles/float64(r.changes), r.requests/float64(r.changes), r.looksPerChange())
		}
		fmt.Fprintf(&out, "| %s | %.1f s | %.0f | %.0f | %.0f | %.0f | %s | %.1f s | %d MiB | %d MiB |\n",
			r.what, r.took.Seconds(), r.reconciles, r.writes, r.requests, r.looks, per, r.cpu.Seconds(), r.heap>>20, r.peak>>20)
	}
	return out.String()
}

func phaseOf(o *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "conditions", string(kv1.ConditionMigration), "reason")
	return phase
}
