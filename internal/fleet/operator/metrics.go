package operator

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/transplant-dev/transplant/internal/fleet/state"
)

// Metrics of the operator. Per cluster there are at most five series: one of each family that has the label cluster,
// whichever phase it is in.
type Metrics struct {
	Registry *prometheus.Registry

	phases        *prometheus.GaugeVec
	stuck         *prometheus.GaugeVec
	machinesDone  *prometheus.GaugeVec
	machinesTotal *prometheus.GaugeVec
	reconciles    *prometheus.CounterVec
	duration      prometheus.Histogram
	looks         *prometheus.CounterVec
	writes        prometheus.Counter
	runs          *prometheus.CounterVec
	runDuration   *prometheus.HistogramVec
	requests      *prometheus.CounterVec
	panics        *prometheus.CounterVec

	mu   sync.Mutex
	last map[string]string // the phase by cluster
}

// NewMetrics returns the metrics, with those of the process, in a registry of their own.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "transplant_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "transplant_" + name, Help: help}, labels)
	}
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		last:     map[string]string{},
		phases: gauge(
			"migration_phase",
			"1 for the phase that a cluster is in; a cluster has one series.",
			"cluster",
			"phase",
		),
		stuck: gauge(
			"migration_stuck",
			"1 when the phase of a cluster takes longer than it may; clusters that need no migration have no series.",
			"cluster",
		),
		machinesDone:  gauge("migration_machines_done", "Machines of a cluster whose nodes are external.", "cluster"),
		machinesTotal: gauge("migration_machines_total", "Machines of a cluster.", "cluster"),
		reconciles:    counter("reconciles_total", "Decisions about one cluster, by result: ok or error.", "result"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "transplant_reconcile_duration_seconds",
			Help: "Time of one decision, with the write of conditions.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}),
		looks: counter(
			"looks_total",
			"Looks at a cluster, by what was looked at (journal, owners, parts, machines, token) and result.",
			"what",
			"result",
		),
		writes: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "transplant_status_writes_total", Help: "Writes of conditions."},
		),
		runs: counter(
			"engine_runs_total",
			"Runs of the engine that ended, by part (handover, finish, rollback) and outcome.",
			"part",
			"outcome",
		),
		runDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "transplant_engine_run_duration_seconds",
			Help: "Time of one run of the engine.", Buckets: prometheus.ExponentialBuckets(1, 3, 9)}, []string{"part"}),
		panics: counter(
			"panics_total",
			"Panics in what was done for one cluster, by what that was: run, journal, owners, parts, machines, watch, decision and others.",
			"what",
		),
		requests: counter(
			"api_requests_total",
			"Requests to API servers: of the seed, or of any user cluster.",
			"side",
			"verb",
			"code",
		),
	}
	m.Registry.MustRegister(
		m.phases,
		m.stuck,
		m.machinesDone,
		m.machinesTotal,
		m.reconciles,
		m.duration,
		m.looks,
		m.writes,
		m.runs,
		m.runDuration,
		m.requests,
		m.panics,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// watch adds what is read at a scrape. A second operator in one process does not take the place of the first.
func (m *Metrics) watch(op *Operator) {
	depth := func(queue string, f func() float64) {
		_ = m.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "transplant_queue_depth",
			Help:        "Clusters that wait: for a decision, for a run of the engine.",
			ConstLabels: prometheus.Labels{"queue": queue},
		}, f))
	}
	depth("reconcile", func() float64 { return float64(op.queue.Len()) })
	depth("runs", func() float64 { _, waiting := op.runs.counts(); return float64(waiting) })
	_ = m.Registry.Register(
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "transplant_engine_runs_active", Help: "Runs of the engine under way."},
			func() float64 { active, _ := op.runs.counts(); return float64(active) },
		),
	)
	_ = m.Registry.Register(
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "transplant_looks_active", Help: "User clusters that are being looked at."},
			func() float64 { return float64(len(op.looks.limiter.fast) + len(op.looks.limiter.slow)) },
		),
	)
}

func (m *Metrics) phase(cluster string, d state.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.last[cluster]; ok && was != d.Phase {
		m.phases.DeleteLabelValues(cluster, was)
	}
	m.last[cluster] = d.Phase
	m.phases.WithLabelValues(cluster, d.Phase).Set(1)
	stuck, ok := d.Stuck()
	switch {
	case !ok:
		m.stuck.DeleteLabelValues(cluster)
		m.machinesDone.DeleteLabelValues(cluster)
		m.machinesTotal.DeleteLabelValues(cluster)
	case stuck:
		m.stuck.WithLabelValues(cluster).Set(1)
	default:
		m.stuck.WithLabelValues(cluster).Set(0)
	}
}

func (m *Metrics) machines(cluster string, seen state.Machines) {
	m.machinesDone.WithLabelValues(cluster).Set(float64(seen.Migrated))
	m.machinesTotal.WithLabelValues(cluster).Set(float64(seen.Total))
}

func (m *Metrics) forget(cluster string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, cluster)
	for _, v := range []*prometheus.GaugeVec{m.phases, m.stuck, m.machinesDone, m.machinesTotal} {
		v.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
	}
}

func (m *Metrics) reconciled(took time.Duration, err error) {
	m.reconciles.WithLabelValues(result(err)).Inc()
	m.duration.Observe(took.Seconds())
}

func (m *Metrics) looked(what string, err error) { m.looks.WithLabelValues(what, result(err)).Inc() }

func (m *Metrics) panicked(what string) { m.panics.WithLabelValues(what).Inc() }

func (m *Metrics) wrote() { m.writes.Inc() }

func (m *Metrics) runEnded(part state.Part, back bool, outcome state.Outcome, took time.Duration) {
	name := string(part)
	if back {
		name = "rollback"
	}
	m.runs.WithLabelValues(name, string(outcome)).Inc()
	m.runDuration.WithLabelValues(name).Observe(took.Seconds())
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// Counting counts the requests that go through next, for a side: seed or user.
func (m *Metrics) Counting(side string, next http.RoundTripper) http.RoundTripper {
	return counting{m, side, next}
}

type counting struct {
	metrics *Metrics
	side    string
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request without an answer has the code 0; watches count when they begin.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	code := "0"
	if answer != nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	c.metrics.requests.WithLabelValues(c.side, r.Method, code).Inc()
	return answer, err
}

// Names of the metrics that are this program's own.
func (m *Metrics) Names() []string {
	return []string{
		"transplant_migration_phase",
		"transplant_migration_stuck",
		"transplant_migration_machines_done",
		"transplant_migration_machines_total",
		"transplant_reconciles_total",
		"transplant_reconcile_duration_seconds",
		"transplant_status_writes_total",
		"transplant_looks_total",
		"transplant_looks_active",
		"transplant_engine_runs_total",
		"transplant_engine_runs_active",
		"transplant_engine_run_duration_seconds",
		"transplant_queue_depth",
		"transplant_api_requests_total",
		"transplant_panics_total",
	}
}
