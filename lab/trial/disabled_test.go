package trial

import (
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// TestInTreeProvidersAreSwitchedOff has real components started with the gate of KEP-2395, by which none can go back to its provider: only a rollback takes
// the gate away again.
func TestInTreeProvidersAreSwitchedOff(t *testing.T) {
	long(t)
	lab := ownLab(t, Options{ControlPlanes: 2, Workers: 1})
	before := facts(t, lab)
	cloud, err := lab.State()
	if err != nil {
		t.Fatal(err)
	}
	cli(t, lab, 0, nil, apply("--strategy", planstep.LeaderMigration, "--disable-in-tree")...)
	for _, h := range lab.ControlPlanes() {
		for _, name := range []string{"kube-apiserver", cluster.ControllerManager} {
			text, err := lab.Read(h.Name, "/etc/kubernetes/manifests/"+name+".yaml")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "DisableCloudProviders=true") {
				t.Errorf("%s of %s has no such gate:\n%s", name, h.Name, text)
			}
		}
	}
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	if err := lab.Check(cloud); err != nil {
		t.Error(err)
	}
	newOperator(t, lab).awaitOwners(t, external("service"))

	cli(t, lab, 0, nil, "rollback", "--yes", "--cloud", Cloud)
	cli(t, lab, 0, nil, "verify", "--cloud", Cloud)
	settled(t, lab)
	unchanged(t, lab, before)
}
