package leadermigration

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/component"
)

// pairs are the problems of each pair of managers.
func pairs(all []facts.Instance, objects map[string][]string) (out findings.Problems) {
	for i, p := range all {
		for _, q := range all[i+1:] {
			if a, b := objects[p.String()], objects[q.String()]; a != nil && b != nil && !sharesElement(a, b) {
				out.Add(p.String(), "%s elects by %s and %s by %s: both lead", p, strings.Join(a, " and "), q, strings.Join(b, " and "))
			}
		}
	}
	return out
}

// TestRivalsAreTheFirstOfEachManagersPairs compares managers of all kinds of locks, in several orders, with all pairs.
func TestRivalsAreTheFirstOfEachManagersPairs(t *testing.T) {
	kinds := []string{"leases", "endpoints", "endpointsleases", "configmaps", "configmapsleases", "files", "leases"}
	for step := 1; step < len(kinds); step++ {
		for n := range 15 {
			var all []facts.Instance
			objects := map[string][]string{}
			for i := range n {
				p := facts.Instance{Component: v1.Component{Name: component.KCM}, Host: v1.Host{Name: fmt.Sprintf("cp-%d", i)}}
				objects[p.String()] = lockObjects[kinds[i*step%len(kinds)]]
				all = append(all, p)
			}
			var want, got findings.Problems
			rivals := map[string]int{}
			for _, p := range pairs(all, objects) {
				if rivals[p.Object]++; rivals[p.Object] == 1 {
					want = append(want, p)
				}
			}
			for i, p := range want {
				if more := rivals[p.Object] - 1; more > 0 {
					want[i].Text += fmt.Sprintf(", and so may %d more", more)
				}
			}
			addRivals(&got, all, objects)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d managers, step %d:\nhave %v\nwant %v", n, step, got, want)
			}
		}
	}
}
