package volume

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
)

// TestEachDriverAfterASecondIDIsNamed compares the check with a list of all IDs, for drivers in several orders.
func TestEachDriverAfterASecondIDIsNamed(t *testing.T) {
	for _, ids := range [][]string{
		nil, {""}, {"a"}, {"a", "a"}, {"a", "b"}, {"a", "a", "b"}, {"a", "b", "a", "b"}, {"", "a", "", "b", "c", "a"},
	} {
		s := &v1.Snapshot{}
		var seen, want []string
		for i, id := range ids {
			ref := fmt.Sprintf("Deployment/kube-system/ebs-%d", i)
			c := v1.Container{Image: "registry/aws-ebs-csi-driver:v1.28.0", Flags: map[string]string{"k8s-tag-cluster-id": id}}
			s.Workloads = append(s.Workloads, v1.Workload{Ref: ref, Role: v1.RoleCSIController, Containers: []v1.Container{c}})
			if id == "" {
				continue
			}
			if !slices.Contains(seen, id) {
				seen = append(seen, id)
			}
			if len(seen) > 1 {
				want = append(want, fmt.Sprintf("%s has --k8s-tag-cluster-id=%s and elsewhere %s", ref, id, seen[0]))
			}
		}
		finding := judgeDriverCluster(facts.New(s, facts.Options{}))
		var got []string
		for _, p := range finding.Problems { // each once, with the objects that have it
			text, _, _ := strings.Cut(p.Text, " (")
			for _, object := range append(p.Objects, p.Object)[:max(1, len(p.Objects))] {
				got = append(got, strings.Replace(text, p.Object, object, 1))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q:\nhave %q\nwant %q", ids, got, want)
		}
		if len(seen) == 1 && finding.Summary != awsDriver+" marks disks for a" {
			t.Errorf("%q: have %s", ids, finding.Summary)
		}
	}
}
