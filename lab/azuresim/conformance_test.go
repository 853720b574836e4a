package azuresim_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/provider/azure"
	"github.com/transplant-dev/transplant/provider/azure/client"
	"github.com/transplant-dev/transplant/provider/conformance"
)

// TestConformance puts the provider through the suite of all providers, with machines in an availability set.
func TestConformance(t *testing.T) { conformance.Run(t, conforming("standard", nil, nil)) }

// TestConformanceOfScaleSets does so with the machines of a uniform scale set.
func TestConformanceOfScaleSets(t *testing.T) { conformance.Run(t, conforming("vmss", nil, nil)) }

// TestConformanceOfInternalLoadBalancers does so with load balancers that have an address of the subnet, and no public one.
func TestConformanceOfInternalLoadBalancers(t *testing.T) {
	for _, vmType := range []string{"standard", "vmss"} {
		t.Run(vmType, func(t *testing.T) { conformance.RunLoadBalancers(t, conforming(vmType, internal, nil)) })
	}
}

// TestConformanceOfBasicLoadBalancers does so with the SKU that in-tree clusters have unless their config names another.
func TestConformanceOfBasicLoadBalancers(t *testing.T) {
	basic := map[string]any{"loadBalancerSku": "basic"}
	for kind, annotations := range map[string]map[string]string{"external": nil, "internal": internal} {
		t.Run(kind, func(t *testing.T) { conformance.RunLoadBalancers(t, conforming("standard", annotations, basic)) })
	}
}

func conforming(vmType string, annotations map[string]string, more map[string]any) conformance.New {
	return func(t *testing.T, wire *conformance.Wire) conformance.Subject {
		t.Helper()
		sim := start(t, azuresim.Options{})
		next := wire.Over(http.DefaultTransport.(*http.Transport).Clone(), func(r *http.Request) bool { return client.Describe(r).Mutates })
		settings := map[string]any{"vmType": vmType}
		maps.Copy(settings, more)
		return conformance.Subject{
			Provider: open(t, sim, azure.Options{Next: next}, settings), Annotations: annotations,
			Servers: &owner{sim: sim, inScaleSet: vmType == "vmss"}, Objects: sim.Objects,
		}
	}
}
