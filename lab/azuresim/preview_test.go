package azuresim_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
	"github.com/transplant-dev/transplant/provider/azure"
	"github.com/transplant-dev/transplant/provider/azure/inventory"
	"github.com/transplant-dev/transplant/provider/azure/preview"
)

// TestAPreviewChangesNothing asks as an administrator's machine does, with a config that leaves the subscription to the nodes.
func TestAPreviewChangesNothing(t *testing.T) {
	sim := start(t, azuresim.Options{})
	one := sim.AddMachine(azuresim.Machine{Name: "one", IP: "10.0.0.1"})
	nodes := []v1.Node{{Name: "one", ProviderID: one}, {Name: "gone", ProviderID: strings.Replace(one, "/one", "/gone", 1)}}
	config := fmt.Appendf(nil, "resourceManagerEndpoint: %s\nuseManagedIdentityExtension: true\n", sim.URL())
	source, err := preview.Open(t.Context(), config, nodes)
	if err != nil {
		t.Fatal(err)
	}
	shown := source.Preview(t.Context(), nodes)
	ccmtest.CheckPreview(t, "azure", nodes, shown, sim.Calls())
}

// TestAnInventory has the load balancers of Services, with the machines behind them.
func TestAnInventory(t *testing.T) {
	sim := start(t, azuresim.Options{})
	provider := open(t, sim, azure.Options{}, nil)
	objects := cluster(t, sim, 2)
	makeBalancers(t, provider, objects)
	file := ccmtest.WriteFile(t, t.TempDir(), "azure.json", sim.Config(nil))
	source, err := inventory.Open(t.Context(), map[string]string{"config": file})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []v1.Node
	for _, o := range objects {
		nodes = append(nodes, v1.Node{Name: o.Name, ProviderID: o.Spec.ProviderID})
	}
	ccmtest.CheckInventory(
		t, source.Inventory(t.Context(), nodes),
		"internal [80/TCP->80] with [node-1 node-2]", "internet-facing [80/TCP->80] with [node-1 node-2]",
		"machine node-1 running 1", "machine node-2 running 1",
	)
	wrong := strings.Replace(string(sim.Config(nil)), "resourceGroup: lab", "resourceGroup: elsewhere", 1)
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if source, err = inventory.Open(t.Context(), map[string]string{"config": file}); err != nil {
		t.Fatal(err)
	}
	errs := strings.Join(source.Inventory(t.Context(), nodes).Errors, "\n")
	if !strings.Contains(errs, "check resourceGroup") {
		t.Errorf("of another resource group, the errors are %q", errs)
	}
}
