package plan

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// TestTheCatalogueKnowsWhichManagersHaveLeaderMigration holds what checks advise to what plans refuse.
func TestTheCatalogueKnowsWhichManagersHaveLeaderMigration(t *testing.T) {
	for _, p := range cloudprovider.Providers() {
		image, ok := cloudprovider.OfficialImage(p.Name, 26)
		if !ok {
			continue
		}
		program, err := program.Identify(p.Name, image.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := cloudprovider.HasLeaderMigration(p.Name); got != program.LeaderMigration {
			t.Errorf("%s: the catalogue says %v, and a plan goes by %v", p.Name, got, program.LeaderMigration)
		}
	}
}
