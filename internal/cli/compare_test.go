package cli

import (
	"slices"
	"testing"

	"github.com/transplant-dev/transplant/internal/client"
)

func TestFindingsAndDifferencesAreAcceptedByOneFlag(t *testing.T) {
	codes, objects, err := client.SplitAccepted([]string{"GAP-001=known", "Node/worker-3 taints=ours", "Service/shop/*=moved"})
	if err != nil || !slices.Equal(codes, []string{"GAP-001=known"}) || len(objects) != 2 || objects["Node/worker-3 taints"] != "ours" ||
		objects["Service/shop/*"] != "moved" {
		t.Errorf("%q, %v, %v", codes, objects, err)
	}
	if _, _, err := client.SplitAccepted([]string{"Node/worker-3="}); err == nil {
		t.Error("a difference is accepted without a reason")
	}
}
