package check

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/leadermigration"
	"github.com/transplant-dev/transplant/internal/check/route"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/check/volume"
	"github.com/transplant-dev/transplant/internal/component"
)

// crowd is how many objects the administrator of a cluster makes to have one text for each.
const crowd = 2000

// crowded is a cluster whose administrator has made many objects, and a large value that a text about each could quote.
func crowded() *v1.Snapshot {
	s := large(crowd, 10)
	manyDrivers(s, crowd)
	manyRanges(s, 20_000)
	manyManagers(s, crowd)
	return s
}

// manyDrivers are CSI drivers with two IDs, the first one a megabyte.
func manyDrivers(s *v1.Snapshot, n int) {
	node := *theWorkload(s, "Deployment/kube-system/ebs-csi-controller")
	id := strings.Repeat("x", 1<<20)
	var all []v1.Workload
	for i := range n {
		w := node
		w.Ref = fmt.Sprintf("Deployment/kube-system/ebs-csi-%04d", i)
		c := node.Containers[0]
		c.Flags = map[string]string{"k8s-tag-cluster-id": id}
		w.Containers = []v1.Container{c}
		all = append(all, w)
		id = "lab"
	}
	s.Workloads = append(all, s.Workloads...)
}

// manyRanges are cluster CIDRs with none of the nodes.
func manyRanges(s *v1.Snapshot, n int) {
	var ranges []string
	for i := range n {
		ranges = append(ranges, fmt.Sprintf("172.%d.%d.%d/32", 16+i>>16, i>>8&255, i&255))
	}
	setFlags(s, 0, component.KCM, map[string]string{"cluster-cidr": strings.Join(ranges, ",")})
	for i := 1; i < len(s.Hosts); i++ {
		setFlags(s, i, component.KCM, map[string]string{"cluster-cidr": ranges[0]})
	}
}

// manyManagers are managers of which every other one elects by another object.
func manyManagers(s *v1.Snapshot, n int) {
	first := s.Hosts[0]
	first.Components = first.Components[1:]
	for i := len(s.Hosts); i < n; i++ {
		h, c := first, controllerManager()
		h.Name = fmt.Sprintf("cp-%04d", i)
		c.Flags["cluster-cidr"] = "172.16.0.0/32"
		if i%2 == 0 {
			c.Flags["leader-elect-resource-lock"] = "endpoints"
		}
		h.Components = []v1.Component{c}
		s.Hosts = append(s.Hosts, h)
	}
}

// TestManyObjectsDoNotMultiplyALargeValue bounds what a check allocates. Each text about an object has only so much of
// what the objects share, and there are no more texts than objects.
func TestManyObjectsDoNotMultiplyALargeValue(t *testing.T) {
	f := facts.New(crowded(), facts.Options{})
	for code, checks := range map[string][]rule.Check{
		"CSI-005":  volume.Checks,
		"IPAM-003": route.Checks,
		"LM-011":   leadermigration.Checks,
	} {
		t.Run(code, func(t *testing.T) {
			c := checkOf(t, checks, code)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := c.Judge(f)
			runtime.ReadMemStats(&after)
			if got.Outcome != v1.Fail && got.Outcome != v1.Warn {
				t.Fatalf("%s is %s: %.300s", code, got.Outcome, got.Summary)
			}
			// a kilobyte for each object, and what it takes to parse the ranges
			if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
				t.Errorf("%s takes %d kilobytes for %d objects", code, n>>10, crowd)
			}
			size := len(got.Summary) + len(got.Found) + len(got.Expected) + len(got.Fix)
			for _, p := range got.Problems {
				size += len(p.Text)
			}
			if size > 16<<10 {
				t.Errorf("%s says %d characters", code, size)
			}
			if n := len(got.Problems) + got.MoreProblems; n > 2*crowd {
				t.Errorf("%s has %d problems of %d objects", code, n, crowd)
			}
		})
	}
}

func checkOf(t *testing.T, checks []rule.Check, code string) rule.Check {
	t.Helper()
	for _, c := range checks {
		if c.Code == code {
			return c
		}
	}
	t.Fatalf("there is no check %s", code)
	return rule.Check{}
}
