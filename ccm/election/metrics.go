package election

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection"
	"k8s.io/utils/ptr"
)

// The series of client-go's elector, by its names.
var (
	master = &metrics.GaugeOpts{
		Name: "leader_election_master_status", StabilityLevel: metrics.ALPHA,
		Help: "Whether this process holds the lease (1) or stands by (0), by the lease's name.",
	}
	slow = &metrics.CounterOpts{
		Name: "leader_election_slowpath_total", StabilityLevel: metrics.ALPHA,
		Help: "How many renewals had to read the lease because another client had written it, by the lease's name.",
	}
	masterGauge *metrics.GaugeVec
	slowCounter *metrics.CounterVec
)

var handover = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Name: "transplant_ccm_lease_handover_seconds", StabilityLevel: metrics.ALPHA,
	Help:    "Seconds from seeing that a lease was released, or deleted, to having acquired it.",
	Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
}, []string{"lease"})

var testimonies = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "transplant_ccm_lease_testimonies_total", StabilityLevel: metrics.ALPHA,
	Help: "How often this process took the lease of a crashed one without waiting for it, because a kubelet said that the holder has ended.",
}, []string{"lease"})

var (
	sinceRenewal = metrics.NewDesc(
		"transplant_ccm_lease_seconds_since_renewal",
		"Seconds since the lease was last renewed: by this process if it holds it, or as seen by it. Counts the time that the machine was suspended.",
		[]string{"lease"},
		nil,
		metrics.ALPHA,
		"",
	)
	transitions = metrics.NewDesc(
		"transplant_ccm_lease_transitions_total",
		"How often the lease changed its holder since it was created, by whomever.",
		[]string{"lease"},
		nil,
		metrics.ALPHA,
		"",
	)
	holderInfo = metrics.NewDesc(
		"transplant_ccm_lease_holder_info",
		"The current holder of the lease. The value is always 1; without a holder there is no series.",
		[]string{"lease", "holder"},
		nil,
		metrics.ALPHA,
		"",
	)
	fenceRefused = metrics.NewDesc(
		"transplant_ccm_fence_refused_total",
		"How many writes were refused because this process did not certainly hold the lease.",
		[]string{"lease"},
		nil,
		metrics.ALPHA,
		"",
	)
)

var (
	registerOnce sync.Once
	exported     collector
)

// export makes the leases of an elector visible. A later elector of the same process takes the place of an earlier one
// with the same leases.
func export(e *Elector) {
	exported.mu.Lock()
	if exported.leases == nil {
		exported.leases = map[string]*candidate{}
	}
	for _, c := range e.candidates {
		exported.leases[c.Name] = c
	}
	exported.mu.Unlock()
	registerOnce.Do(func() {
		registerUpstreams()
		legacyregistry.MustRegister(handover, testimonies)
		legacyregistry.CustomMustRegister(&exported)
	})
	for _, c := range e.candidates {
		if c.Contend {
			masterStatus(c.Name, false)
		}
	}
}

// registerUpstreams finds the collectors for client-go's series. Its own are used where it has some. It registers them
// when the first of its electors is made, anywhere in the program. A second collector of the same name would then end
// the process. So one elector is made here, which never runs.
func registerUpstreams() {
	_, _ = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "none"},
			LockConfig: resourcelock.ResourceLockConfig{Identity: "none"},
		},
		LeaseDuration: 3 * time.Second,
		RenewDeadline: 2 * time.Second,
		RetryPeriod:   time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	help := registeredHelp()
	if h, ok := help[master.Name]; ok {
		master.Help = h
	}
	if h, ok := help[slow.Name]; ok {
		slow.Help = h
	}
	masterGauge = registered(metrics.NewGaugeVec(master, []string{"name"}))
	slowCounter = registered(metrics.NewCounterVec(slow, []string{"name"}))
	masterGauge.DeleteLabelValues("") // of the elector that never runs
}

// registeredHelp is the help of every series that is registered, by its name. A registry gives a collector back only to
// one with the same help.
func registeredHelp() map[string]string {
	help := map[string]string{}
	registry, ok := legacyregistry.Registerer().(prometheus.Collector)
	if !ok {
		return help
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	for d := range descs {
		var name, text string
		if _, err := fmt.Sscanf(d.String(), "Desc{fqName: %q, help: %q,", &name, &text); err == nil {
			help[name] = strings.TrimPrefix(text, "[ALPHA] ")
		}
	}
	return help
}

// registered returns the collector that is registered by the name of c: another one, or c.
func registered[C metrics.Registerable](c C) C {
	var already prometheus.AlreadyRegisteredError
	if err := legacyregistry.Register(c); errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	return c
}

func masterStatus(lease string, holds bool) {
	masterGauge.WithLabelValues(lease).Set(map[bool]float64{true: 1}[holds])
}

func slowPath(lease string) { slowCounter.WithLabelValues(lease).Inc() }

func observeHandover(lease string, took time.Duration) {
	handover.WithLabelValues(lease).Observe(took.Seconds())
}

// collector reads what electors know when it is scraped.
type collector struct {
	metrics.BaseStableCollector

	mu     sync.Mutex
	leases map[string]*candidate
}

func (*collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{sinceRenewal, transitions, holderInfo, fenceRefused} {
		ch <- d
	}
}

func (k *collector) CollectWithStability(ch chan<- metrics.Metric) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.leases {
		c.collect(ch)
	}
}

func (c *candidate) collect(ch chan<- metrics.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch <- metrics.NewLazyConstMetric(fenceRefused, metrics.CounterValue, float64(c.fence.Refused()), c.Name)
	if c.record.seen == nil {
		return
	}
	ch <- metrics.NewLazyConstMetric(
		transitions,
		metrics.CounterValue,
		float64(ptr.Deref(c.record.seen.Spec.LeaseTransitions, 0)),
		c.Name,
	)
	if who := holder(c.record.seen); who != "" {
		since := c.record.seenAt
		if c.held {
			since = c.renewed
		}
		ch <- metrics.NewLazyConstMetric(sinceRenewal, metrics.GaugeValue, (c.now() - since).Seconds(), c.Name)
		ch <- metrics.NewLazyConstMetric(holderInfo, metrics.GaugeValue, 1, c.Name, who)
	}
}
