package gcesim_test

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
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
	ccmtest.CheckPreview(t, "gce", nodes, shown, sim.Calls())
}
