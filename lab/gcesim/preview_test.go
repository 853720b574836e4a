package gcesim_test

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/gcesim"
	"github.com/transplant-dev/transplant/provider/gce/preview"
)

// TestAPreviewChangesNothing asks as an administrator's machine does, with a config that leaves project and zone to the metadata server.
func TestAPreviewChangesNothing(t *testing.T) {
	sim := start(t, gcesim.Options{})
	t.Setenv("GCE_METADATA_HOST", sim.MetadataHost())
	sim.AddInstance(gcesim.Instance{Name: "one", IP: "10.0.0.1"})
	config := []byte("[global]\napi-endpoint = http://" + sim.MetadataHost() + "/compute/v1/\n")
	nodes := []v1.Node{{Name: "one", ProviderID: idOf(gcesim.Zone, "one")}, {Name: "gone", ProviderID: idOf(gcesim.Zone, "gone")}}
	source, err := preview.Open(t.Context(), config, nodes)
	if err != nil {
		t.Fatal(err)
	}
	shown := source.Preview(t.Context(), nodes)
	if shown.Error != "" || len(shown.Nodes) != 2 || shown.Provider != "gce" {
		t.Fatalf("%+v", shown)
	}
	for _, n := range shown.Nodes {
		if n.Error != "" || n.Found != (n.Node == "one") {
			t.Errorf("%+v", n)
		}
	}
	calls := sim.Calls()
	if len(calls) == 0 || len(calls) != shown.Calls {
		t.Errorf("%d calls are counted, and these were made: %v", shown.Calls, calls)
	}
	for _, call := range calls {
		if call.Mutates() {
			t.Errorf("it sent %s", call)
		}
	}
}
