package gcesim_test

import (
	"net/http"
	"testing"

	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/provider/conformance"
	"github.com/transplant-dev/transplant/provider/gce"
	"github.com/transplant-dev/transplant/provider/gce/client"
)

// addressWrites are the requests by which upstream makes the address of a forwarding rule static for the time of a look, and lets it go again.
const addressWrites = 2

// TestConformance puts the provider through the suite of all providers, with external load balancers.
func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T, wire *conformance.Wire) conformance.Subject { return subject(t, wire, nil) })
}

// TestConformanceOfInternalLoadBalancers does so with internal ones, which are other objects.
func TestConformanceOfInternalLoadBalancers(t *testing.T) {
	conformance.RunLoadBalancers(t, func(t *testing.T, wire *conformance.Wire) conformance.Subject { return subject(t, wire, internal) })
}

func subject(t *testing.T, wire *conformance.Wire, annotations map[string]string) conformance.Subject {
	t.Helper()
	sim := start(t, gcesim.Options{})
	next := wire.Over(http.DefaultTransport.(*http.Transport).Clone(), func(r *http.Request) bool { return client.Describe(r).Mutates })
	return conformance.Subject{
		Provider: open(t, sim, gce.Options{Next: next}, "subnetwork-name = lab"), Servers: &owner{sim: sim}, Objects: sim.Objects,
		KnownWrites: addressWrites, Annotations: annotations,
	}
}
