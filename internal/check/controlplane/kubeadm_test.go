package controlplane

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/component"
)

// TestComplaintsAboutKubeadmAreShort: both values are of the user cluster, and there is a complaint for each mirror pod.
func TestComplaintsAboutKubeadmAreShort(t *testing.T) {
	long := strings.Repeat("a=true,", 100_000)
	for name, c := range map[string]struct {
		flags, args map[string]string
		complaints  int
	}{
		"both differ":         {map[string]string{"cloud-provider": "x"}, map[string]string{"cloud-provider": long}, 1},
		"the manifest's":      {map[string]string{"cloud-provider": long}, nil, 1},
		"kubeadm's":           {nil, map[string]string{"cloud-provider": long}, 1},
		"gates in two orders": {map[string]string{"feature-gates": "A=true,B=false"}, map[string]string{"feature-gates": "B=false,A=true"}, 0},
		"long gates":          {map[string]string{"feature-gates": long}, map[string]string{"feature-gates": "b" + long[1:]}, 1},
		"the cluster's name":  {map[string]string{"cluster-name": long}, nil, 1},
	} {
		f := facts.New(&v1.Snapshot{
			Kubeadm: &v1.KubeadmConfig{ClusterName: "b" + long, ExtraArgs: map[string]map[string]string{"controllerManager": c.args}},
			Hosts:   []v1.Host{{Name: "cp", ControlPlane: true, Components: []v1.Component{{Name: component.KCM, Flags: c.flags}}}},
		}, facts.Options{})
		got := kubeadmComplaints(f, "controllerManager", f.InstancesOf(component.KCM)[0])
		if len(got) != c.complaints {
			t.Errorf("%s: %d complaints", name, len(got))
		}
		for _, one := range got {
			if len(one) > 1000 {
				t.Errorf("%s: a complaint of %d bytes", name, len(one))
			}
		}
	}
}
