package azuresim_test

import (
	"net/http"
	"testing"

	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/provider/azure"
	"github.com/transplant-dev/transplant/provider/azure/client"
	"github.com/transplant-dev/transplant/provider/conformance"
)

// TestConformance puts the provider through the suite of all providers, with machines in an availability set.
func TestConformance(t *testing.T) { conforms(t, "standard") }

// TestConformanceOfScaleSets does so with the machines of a uniform scale set.
func TestConformanceOfScaleSets(t *testing.T) { conforms(t, "vmss") }

func conforms(t *testing.T, vmType string) {
	t.Helper()
	conformance.Run(t, func(t *testing.T, wire *conformance.Wire) conformance.Subject {
		sim := start(t, azuresim.Options{})
		next := wire.Over(http.DefaultTransport.(*http.Transport).Clone(), func(r *http.Request) bool { return client.Describe(r).Mutates })
		return conformance.Subject{
			Provider: open(t, sim, azure.Options{Next: next}, map[string]any{"vmType": vmType}),
			Servers:  &owner{sim: sim, inScaleSet: vmType == "vmss"}, Objects: sim.Objects,
		}
	})
}
