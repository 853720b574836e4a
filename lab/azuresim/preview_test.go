package azuresim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/azuresim"
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
	if shown.Error != "" || len(shown.Nodes) != 2 || shown.Provider != "azure" {
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

// TestAnInventory has the load balancers of Services, with the machines behind them.
func TestAnInventory(t *testing.T) {
	sim := start(t, azuresim.Options{})
	provider := open(t, sim, azure.Options{}, nil)
	objects := cluster(t, sim, 2)
	for name, annotations := range map[string]map[string]string{
		"web": nil, "inside": {"service.beta.kubernetes.io/azure-load-balancer-internal": "true"},
	} {
		if _, err := balancers(t, provider).EnsureLoadBalancer(t.Context(), "lab", service(name, annotations), objects); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "azure.json")
	if err := os.WriteFile(file, sim.Config(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := inventory.Open(t.Context(), map[string]string{"config": file})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []v1.Node
	for _, o := range objects {
		nodes = append(nodes, v1.Node{Name: o.Name, ProviderID: o.Spec.ProviderID})
	}
	got := source.Inventory(t.Context(), nodes)
	var seen []string
	for _, i := range got.Instances {
		seen = append(seen, "machine "+i.ID+" "+i.State)
	}
	for _, b := range got.LoadBalancers {
		seen = append(seen, fmt.Sprintf("%s %v with %v", b.Scheme, b.Listeners, b.Members))
	}
	slices.Sort(seen)
	want := []string{
		"internal [80/TCP->80] with [node-1 node-2]", "internet-facing [80/TCP->80] with [node-1 node-2]",
		"machine node-1 running", "machine node-2 running",
	}
	if diff := cmp.Diff(want, seen); diff != "" || len(got.Errors) > 0 {
		t.Errorf("the inventory (-want +got), errors %q:\n%s", got.Errors, diff)
	}
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
