package verify

import (
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestAllNodesAreThereByNameAndUID compares every two lists of these nodes with a look at each pair.
func TestAllNodesAreThereByNameAndUID(t *testing.T) {
	nodes := []v1.Node{{Name: "a", UID: "1"}, {Name: "a", UID: "2"}, {Name: "b", UID: "1"}, {Name: "c"}}
	for before := range 1 << len(nodes) {
		for now := range 1 << len(nodes) {
			var was, is []v1.Node
			for i, n := range nodes {
				if before>>i&1 == 1 {
					was = append(was, n)
				}
				if now>>i&1 == 1 {
					is = append(is, n)
				}
			}
			want := !slices.ContainsFunc(was, func(b v1.Node) bool {
				return !slices.ContainsFunc(is, func(n v1.Node) bool { return n.Name == b.Name && n.UID == b.UID })
			})
			if got := areAllThere(was, is); got != want {
				t.Errorf("%v among %d: have %t, want %t", was, now, got, want)
			}
		}
	}
}
