package facts

import (
	"fmt"
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// TestForeignManagersAreNoWorkloadsOfTheCluster keeps the order of the others.
func TestForeignManagersAreNoWorkloadsOfTheCluster(t *testing.T) {
	ccm := func(ref string) v1.Workload {
		return v1.Workload{Ref: ref, Role: v1.RoleCCM, Containers: []v1.Container{{Name: "c"}}}
	}
	all := []v1.Workload{
		ccm("Deployment/a/x"), {Ref: "Deployment/a/y", Role: v1.RoleDNS}, ccm("DaemonSet/kube-system/ccm"),
		ccm("Deployment/b/x"), {Ref: "Deployment/b/none", Role: v1.RoleCCM}, ccm("Deployment/a/x"),
	}
	inTree := v1.Host{Components: []v1.Component{{Name: component.KCM, Flags: map[string]string{"cloud-provider": "aws"}}}}
	for name, test := range map[string]struct {
		s             *v1.Snapshot
		kept, foreign string
	}{
		"a cluster with managers": {
			&v1.Snapshot{Workloads: all, Hosts: []v1.Host{inTree}},
			"[Deployment/a/y DaemonSet/kube-system/ccm Deployment/b/none]",
			"[Deployment/a/x Deployment/b/x Deployment/a/x]",
		},
		"a cluster without": {
			&v1.Snapshot{Workloads: []v1.Workload{all[0], all[1]}},
			"[Deployment/a/x Deployment/a/y]",
			"[]",
		},
	} {
		f := New(test.s, Options{})
		if kept := fmt.Sprint(refsOf(f.Workloads)); kept != test.kept {
			t.Errorf("%s: have %s, want %s", name, kept, test.kept)
		}
		if foreign := fmt.Sprint(refsOf(f.Foreign)); foreign != test.foreign {
			t.Errorf("%s: foreign are %s, want %s", name, foreign, test.foreign)
		}
	}
}

func refsOf(all []v1.Workload) []string {
	return slices.Collect(func(yield func(string) bool) {
		for _, w := range all {
			if !yield(w.Ref) {
				return
			}
		}
	})
}
