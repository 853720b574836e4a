package nodeipam

import (
	"sync"

	"k8s.io/component-base/metrics"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

// The names are kube-controller-manager's, spelling included. Its help for the last of them is about Endpoints; ours is
// not.
var (
	allocations = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "node_ipam_controller", Name: "cidrset_cidrs_allocations_total",
		Help: "Counter measuring total number of CIDR allocations.", StabilityLevel: metrics.ALPHA,
	}, []string{"clusterCIDR"})
	releases = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "node_ipam_controller", Name: "cidrset_cidrs_releases_total",
		Help: "Counter measuring total number of CIDR releases.", StabilityLevel: metrics.ALPHA,
	}, []string{"clusterCIDR"})
	maxBlocks = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "node_ipam_controller", Name: "cirdset_max_cidrs",
		Help: "Maximum number of CIDRs that can be allocated.", StabilityLevel: metrics.ALPHA,
	}, []string{"clusterCIDR"})
	usage = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "node_ipam_controller", Name: "cidrset_usage_cidrs",
		Help: "Gauge measuring percentage of allocated CIDRs.", StabilityLevel: metrics.ALPHA,
	}, []string{"clusterCIDR"})
	allocationTries = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "node_ipam_controller", Name: "cidrset_allocation_tries_per_request",
		Help: "Number of used CIDRs that were passed over before a free one was found.", StabilityLevel: metrics.ALPHA,
		Buckets: metrics.ExponentialBuckets(1, 5, 5),
	}, []string{"clusterCIDR"})
)

var registration sync.Once

func registerMetrics() {
	podcidr.RegisterMetrics()
	registration.Do(func() {
		ccmmetrics.Register(allocations, releases, maxBlocks, usage, allocationTries)
	})
}
