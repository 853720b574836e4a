package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestThePlanCountsTheKubeletsThatItCannotReach(t *testing.T) {
	snap := &v1.Snapshot{
		Nodes: []v1.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Hosts: []v1.Host{{Name: "h1", NodeName: "a", Kubelet: &v1.Kubelet{}}, {Name: "h2", NodeName: "b", Kubelet: &v1.Kubelet{Error: "not read"}}},
	}
	all := strings.Join(effects(Forward, snap, nil, Defaults(v1.Options{})), "\n")
	if !strings.Contains(all, "the kubelets of 2 nodes") {
		t.Errorf("effects do not count nodes b and c:\n%s", all)
	}
	snap.Hosts = append(snap.Hosts, v1.Host{Name: "h3", NodeName: "c", Kubelet: &v1.Kubelet{}})
	snap.Hosts[1].Kubelet.Error = ""
	if all := strings.Join(effects(Forward, snap, nil, Defaults(v1.Options{})), "\n"); strings.Contains(all, "not changed") {
		t.Errorf("every kubelet is reached:\n%s", all)
	}
}
