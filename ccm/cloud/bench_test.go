package cloud

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// BenchmarkCall compares a call of a provider that does nothing with the same call through a guard. What the guard adds is to be small next to a call to a
// cloud, which takes milliseconds.
func BenchmarkCall(b *testing.B) {
	p := &provider{balancer: balancers{
		get:    func(context.Context) (*corev1.LoadBalancerStatus, bool, error) { return nil, false, nil },
		update: func(context.Context) error { return nil },
	}}
	for name, c := range map[string]cloudprovider.Interface{"bare": p, "guard": New(p, Options{}).For(election.Unfenced(time.Now()))} {
		balancer, _ := c.LoadBalancer()
		web := service("web")
		b.Run("read/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = balancer.GetLoadBalancer(b.Context(), "c", web)
			}
		})
		b.Run("write/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = balancer.UpdateLoadBalancer(b.Context(), "c", web, nil)
			}
		})
	}
}

// BenchmarkReadOfKnownStates is what a controller pays for the states of 5,000 nodes that are in the cache.
func BenchmarkReadOfKnownStates(b *testing.B) {
	reader, _ := InstancesOf(New(&withLister{provider: &provider{}, max: 1000}, Options{}).For(nil))
	all := nodes(5000)
	reader.Read(b.Context(), all, WantMetadata, time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		reader.Read(b.Context(), all, WantMetadata, time.Hour)
	}
}
