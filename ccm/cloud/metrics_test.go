package cloud

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
)

// meteredRuns tells the series of repeated runs of one process apart.
var meteredRuns atomic.Int32

func TestTheMetricsTellHowCallsWent(t *testing.T) {
	name := fmt.Sprintf("metered-%d", meteredRuns.Add(1))
	synctest.Test(t, func(t *testing.T) {
		hang, inside := make(chan struct{}), make(chan struct{})
		failing := error(nil)
		p := &withLister{provider: &provider{name: name}, max: 10}
		p.balancer = balancers{
			get:    func(context.Context) (*corev1.LoadBalancerStatus, bool, error) { return nil, false, failing },
			update: func(context.Context) error { <-hang; return nil },
			remove: func(context.Context) error { inside <- struct{}{}; <-inside; return nil },
		}
		guard := New(p, Options{LoadBalancerTimeout: time.Second})
		balancer, _ := guard.For(openFor(time.Hour)).LoadBalancer()
		for _, failing = range []error{nil, statusError(429), statusError(404), statusError(503)} {
			_, _, _ = balancer.GetLoadBalancer(t.Context(), "c", service("web"))
		}
		_ = balancer.UpdateLoadBalancer(t.Context(), "c", service("web"), nil)
		go func() { _ = balancer.EnsureLoadBalancerDeleted(t.Context(), "c", service("other")) }()
		<-inside
		shut, _ := guard.For(openFor(0)).LoadBalancer()
		_ = shut.EnsureLoadBalancerDeleted(t.Context(), "c", service("third"))
		guard.reader.Read(t.Context(), nodes(3), WantExists, time.Minute)
		guard.reader.Read(t.Context(), nodes(3), WantExists, time.Minute)

		want := map[string]float64{
			`calls_abandoned{UpdateLoadBalancer}`:                     1,
			`calls_in_flight{EnsureLoadBalancerDeleted}`:              1,
			`calls_in_flight{GetLoadBalancer}`:                        0,
			`calls_in_flight{ListInstances}`:                          0,
			`calls_in_flight{UpdateLoadBalancer}`:                     1,
			`calls_total{EnsureLoadBalancerDeleted,fenced}`:           1,
			`calls_total{GetLoadBalancer,not_found}`:                  1,
			`calls_total{GetLoadBalancer,ok}`:                         1,
			`calls_total{GetLoadBalancer,server_error}`:               1,
			`calls_total{GetLoadBalancer,throttled}`:                  1,
			`calls_total{ListInstances,ok}`:                           1,
			`calls_total{UpdateLoadBalancer,timeout}`:                 1,
			`call_duration_seconds{GetLoadBalancer,ok}`:               0,
			`call_duration_seconds{UpdateLoadBalancer,timeout}`:       2, // the timeout and the grace
			`last_success_timestamp_seconds{GetLoadBalancer}`:         1,
			`last_success_timestamp_seconds{ListInstances}`:           1,
			`call_duration_seconds{GetLoadBalancer,throttled}`:        0,
			`call_duration_seconds{GetLoadBalancer,not_found}`:        0,
			`call_duration_seconds{ListInstances,ok}`:                 0,
			`call_duration_seconds{GetLoadBalancer,server_error}`:     0,
			`call_duration_seconds{EnsureLoadBalancerDeleted,fenced}`: 0,
		}
		if diff := cmp.Diff(want, served(t, name)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		close(hang)
		inside <- struct{}{}
		synctest.Wait()
		want[`calls_abandoned{UpdateLoadBalancer}`] = 0
		want[`calls_in_flight{UpdateLoadBalancer}`] = 0
		want[`calls_in_flight{EnsureLoadBalancerDeleted}`] = 0
		want[`calls_total{EnsureLoadBalancerDeleted,ok}`] = 1
		want[`call_duration_seconds{EnsureLoadBalancerDeleted,ok}`] = 0.005 // while the list was gathered
		want[`last_success_timestamp_seconds{EnsureLoadBalancerDeleted}`] = 1
		if diff := cmp.Diff(want, served(t, name)); diff != "" {
			t.Errorf("once all calls have returned (-want +got):\n%s", diff)
		}
	})
}

// served are the series of a provider, with the other labels in the order of their names. Of a histogram it is the sum, of a timestamp 1.
func served(t *testing.T, provider string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), "transplant_ccm_cloud_")
		for _, metric := range family.GetMetric() {
			var labels []string
			metered := false
			for _, label := range metric.GetLabel() {
				if label.GetName() == "provider" {
					metered = label.GetValue() == provider
				} else {
					labels = append(labels, label.GetValue())
				}
			}
			if !ours || !metered {
				continue
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetHistogram().GetSampleSum()
			if strings.Contains(name, "timestamp") {
				value = min(value, 1)
			}
			series[name+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return series
}
