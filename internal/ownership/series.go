package ownership

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// kepSeries are the five series by which KEP-2395 tells operators to judge an extracted provider, without their subsystem: node_controller_ for the
// first two (in the cloud's node controller since 1.28), service_controller_ for the others (the latencies since 1.21, the errors since 1.27).
var kepSeries = []string{
	"cloud_provider_taint_removal_delay_seconds",
	"initial_node_sync_delay_seconds",
	"nodesync_error_total",
	"nodesync_latency_seconds",
	"update_loadbalancer_host_latency_seconds",
}

// subsystems that the series have had.
var subsystems = []string{"", "node_controller_", "service_controller_", "cloud_node_controller_", "cloud_provider_"}

// askedMetrics are the names that a manager is asked for.
var askedMetrics = func() []string {
	out := append([]string{metricLoops, metricLeads, metricStarted, metricBuild}, cloudCallMetrics...)
	for _, name := range kepSeries {
		for _, subsystem := range subsystems {
			out = append(out, subsystem+name)
		}
	}
	return out
}()

// seriesOf is the series that a metric, or a line of a histogram, belongs to; empty for any other.
func seriesOf(metric string) string {
	for _, part := range []string{"", "_bucket", "_sum", "_count"} {
		name, ok := strings.CutSuffix(metric, part)
		if !ok {
			continue
		}
		for _, subsystem := range subsystems {
			if rest, ok := strings.CutPrefix(name, subsystem); ok && slices.Contains(kepSeries, rest) {
				return rest
			}
		}
	}
	return ""
}

// objective is the KEP's: 99% within 60 seconds. The histograms' nearest bound above it is 64, so a few of those within may have taken up to 64.
const objective = 60

func series(name string, metric *dto.Metric) v1.Series {
	h := metric.GetHistogram()
	if h == nil {
		return v1.Series{Name: name, Sum: metric.GetCounter().GetValue() + metric.GetUntyped().GetValue()}
	}
	within := h.GetSampleCount() // all of them, unless a bucket says less
	best := 0.0
	for _, b := range h.GetBucket() {
		if bound := b.GetUpperBound(); bound >= objective && (best == 0 || bound < best) {
			best, within = bound, b.GetCumulativeCount()
		}
	}
	return v1.Series{Name: name, Count: h.GetSampleCount(), Sum: h.GetSampleSum(), Within60: &within}
}
