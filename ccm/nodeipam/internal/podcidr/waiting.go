package podcidr

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
)

// SweepPeriod is how often what no event has said is looked for, and nodes that wait are told of again.
const SweepPeriod = 10 * time.Minute

// Conflicts counts the nodes whose podCIDR is not theirs.
var Conflicts = metrics.NewGauge(&metrics.GaugeOpts{
	Name:           "transplant_ccm_node_ipam_conflicts",
	StabilityLevel: metrics.ALPHA,
	Help: "Number of nodes whose podCIDR overlapped with that of another node, or of Services, when it was first seen. " +
		"With CloudAllocator, of nodes whose podCIDR is none of their instance. Anything but 0 needs an operator.",
})

var waitingNodes = metrics.NewGauge(&metrics.GaugeOpts{
	Name: "transplant_ccm_node_ipam_waiting_nodes", StabilityLevel: metrics.ALPHA,
	Help: "Number of nodes that wait for a podCIDR because the cluster's range is exhausted, or with CloudAllocator " +
		"because the cloud says none.",
})

var registration sync.Once

// RegisterMetrics registers what allocators have in common.
func RegisterMetrics() {
	registration.Do(func() { ccmmetrics.Register(Conflicts, waitingNodes) })
}

// Waiting are the nodes for which there is no podCIDR, and when each was last told.
type Waiting struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// NewWaiting returns an empty set.
func NewWaiting() *Waiting { return &Waiting{told: map[string]time.Time{}} }

// Add notes that a node waits, and reports whether to say so now.
func (w *Waiting) Add(node string, now time.Time) (tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	told, waits := w.told[node]
	if tell = !waits || now.Sub(told) >= SweepPeriod; tell {
		w.told[node] = now
	}
	waitingNodes.Set(float64(len(w.told)))
	return tell
}

// Remove notes that a node does not wait.
func (w *Waiting) Remove(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.told, node)
	waitingNodes.Set(float64(len(w.told)))
}

// Names returns the nodes that wait.
func (w *Waiting) Names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.told))
}
