package azuresim_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/lab/azuresim"
	"github.com/transplant-dev/transplant/lab/ccmlab/ccmtest"
)

var every = flag.Bool("azure.all", false, "run the program against all kube-apiservers of proven.VersionsOf (make e2e)")

// TestTheLifeOfAClusterUnderTheProgram runs against the newest API server; with -azure.all against those of proven.VersionsOf.
func TestTheLifeOfAClusterUnderTheProgram(t *testing.T) {
	ccmtest.OnVersions(t, "azure", *every, clusterLives)
}

// program is built once for all tests.
var program = sync.OnceValues(func() (string, error) {
	return ccmtest.Build(context.Background(), ".", shared, "azure-cloud-controller-manager")
})

func startProgram(t *testing.T, version string, sim *azuresim.Cloud, config []byte) *ccmtest.Program {
	t.Helper()
	env := []string{"SSL_CERT_FILE=" + os.Getenv("SSL_CERT_FILE"), "HTTPS_PROXY=" + os.Getenv("HTTPS_PROXY")}
	for name, value := range sim.Env() {
		env = append(env, name+"="+value)
	}
	return ccmtest.StartProgram(t, ccmtest.ProgramOptions{
		Version: version, Provider: "azure", Program: program, CloudConfig: config, Env: env,
	})
}

func clusterLives(t *testing.T, version string) {
	t.Helper()
	sim := start(t, azuresim.Options{})
	ids, zones := map[string]string{}, map[string]string{}
	for i, name := range ccmtest.Machines {
		zone := fmt.Sprint(i + 1)
		ids[name] = sim.AddMachine(azuresim.Machine{Name: name, IP: "10.0.0." + zone, Zone: zone})
		zones[name] = azuresim.Location + "-" + zone
	}
	life := ccmtest.Life{
		Program: startProgram(t, version, sim, sim.Config(nil)), ProviderIDs: ids, Zones: zones, Internal: internal,
		Inventory: func(t *testing.T, nodes []v1.Node) {
			t.Helper()
			inventoried(t, sim, nodes)
		},
		PowerOff: func(name string) { sim.SetPower(ids[name], "deallocated") }, Delete: func(name string) { sim.DeleteMachine(ids[name]) },
		Objects: sim.Objects, Routes: "routetables/",
	}
	life.Run(t)
}

// inventoried fails the test unless transplant sees what there is, through the program.
func inventoried(t *testing.T, sim *azuresim.Cloud, nodes []v1.Node) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	file := ccmtest.WriteFile(t, t.TempDir(), "azure.json", sim.Config(nil))
	source, err := cloudprogram.Programs{Cloud: "azure:config=" + file, Path: path}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ccmtest.CheckInventory(
		t, source.Inventory(t.Context(), nodes),
		"internal [80/TCP->80] with [cp-1 worker-1 worker-2]", "internet-facing [80/TCP->80] with [cp-1 worker-1 worker-2]",
		"machine cp-1 running westeurope-1", "machine worker-1 running westeurope-2", "machine worker-2 running westeurope-3",
		"route 10.244.0.0/24 to cp-1", "route 10.244.1.0/24 to worker-1", "route 10.244.2.0/24 to worker-2",
	)
}

// TestTheProgramSaysWhatIsWrongWithItsConfig runs it with what an administrator can get wrong.
func TestTheProgramSaysWhatIsWrongWithItsConfig(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]any
		says   string
	}{
		"another subscription":   {map[string]any{"subscriptionId": "00000000-0000-0000-0000-000000000000"}, "check subscriptionId"},
		"another resource group": {map[string]any{"resourceGroup": "elsewhere"}, "check resourceGroup"},
		"another secret": {map[string]any{
			"useManagedIdentityExtension": false, "aadClientId": azuresim.ClientID, "aadClientSecret": "wrong",
		}, "check tenantId, aadClientId and its secret"},
		"another tenant": {inTenant("00000000-9999-8888-7777-666666666666"), "check tenantId and cloud"},
	} {
		t.Run(name, func(t *testing.T) {
			sim := start(t, azuresim.Options{})
			s := startProgram(t, "", sim, sim.Config(c.change))
			s.Join(t, "worker-1", "10.244.1.0/24")
			s.UntilLog(t, c.says, azuresim.Secret)
		})
	}
}
